"""The ASGI application: routes from the table of pages, the viewer's files, error responses, the guard.

In: the state that pages share. Out: an application for any ASGI server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from callsheet.apps.hosting.revising import NeedsConsent
from callsheet.apps.http.guard import Guard
from callsheet.apps.http.page import Asked, Nothing, Page
from callsheet.apps.http.problems import Problem, problem_of
from callsheet.apps.http.reading import read_body, read_query
from callsheet.apps.http.state import State
from callsheet.apps.http.table import PAGES
from callsheet.apps.http.web import WEB
from callsheet.apps.operations.ahead import effect_json
from callsheet.diagnostics import CallsheetError

_log = logging.getLogger("callsheet.http")


def make_app(state: State) -> ASGIApp:
    """The application of a server with this state."""
    by_path: dict[str, dict[str, Page]] = {}
    for page in PAGES:
        by_path.setdefault(page.path, {})[page.method] = page
    routes = [_route(path, pages, state) for path, pages in by_path.items()]
    routes += [Route(path, _web(answer, state), methods=["GET"]) for path, answer in WEB.items()]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_problem, Exception: _bug},
    )
    app.router.redirect_slashes = False
    return Guard(app, state, _is_open)


_OPEN = frozenset((page.method, page.path) for page in PAGES if page.is_open)
_OPEN_PATTERNS = tuple((method, re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path))) for method, path in _OPEN)


def _is_open(method: str, path: str) -> bool:
    return any(method == known and pattern.fullmatch(path) for known, pattern in _OPEN_PATTERNS)


def _route(path: str, pages: dict[str, Page], state: State) -> Route:
    async def endpoint(request: Request) -> Response:
        return await _answer(pages[request.method], request, state)

    route = Route(path, endpoint, methods=list(pages))
    if route.methods is not None:
        route.methods.discard("HEAD")
    return route


async def _answer(page: Page, request: Request, state: State) -> Response:
    """The answer of a page, or the problem that kept it from one."""
    try:
        query: Any = read_query(request, page.query)
        body: Any = Nothing()
        if page.body is not None:
            body = await read_body(request, page.body, state.bounds, is_needed=page.needs_body)
        return await page.answer(Asked(state, body, query, request.path_params, request))
    except NeedsConsent as refused:
        effects = [effect_json(effect) for effect in refused.forking.effects]
        return problem_of(state.host.veil.error(refused), {"effects": effects})
    except CallsheetError as error:
        return problem_of(state.host.veil.error(error))


def _web(
    answer: Callable[[State, Request], Awaitable[Response]], state: State
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await answer(state, request)

    return endpoint


async def _http_problem(request: Request, error: Exception) -> Response:
    """What the router says: there is no such page, or it does not take this method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = dict(error.headers or {})
        message = f"{request.method} is not taken here"
        return problem_of(Problem("API010", message, headers=allowed))
    way_out = "/v1/openapi.json lists all pages"
    return problem_of(Problem("API009", f"there is no page {request.url.path[:100]!a}", way_out))


async def _bug(request: Request, error: Exception) -> Response:
    """A bug: what went wrong is told to the log alone."""
    _log.error("%s %s has met a bug", request.method, request.url.path, exc_info=error)
    return problem_of(Problem("API013", f"a bug of callsheet: {type(error).__name__}; its log tells more"))
