"""The ASGI application: routes from the table of endpoints, the viewer's files, error responses, the guard.

In: the state that all endpoints share. Out: an application for any ASGI server.
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

from callsheet.api.undo import UndoNeedsConsent, undo_json
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint
from callsheet.apps.http.guard import PERSON, Guard
from callsheet.apps.http.people import EVERYBODY, Person, right_for
from callsheet.apps.http.problems import Problem, problem_of
from callsheet.apps.http.reading import read_body, read_query
from callsheet.apps.http.state import State
from callsheet.apps.http.table import ENDPOINTS
from callsheet.apps.http.viewer import WEB
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.forking import NeedsConsent

_log = logging.getLogger("callsheet.http")


def make_app(state: State) -> ASGIApp:
    """The application of a server with this state."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    routes = [_route(path, endpoints, state) for path, endpoints in by_path.items()]
    routes += [Route(path, _web(handler, state), methods=["GET"]) for path, handler in WEB.items()]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _http_problem, Exception: _bug},
    )
    app.router.redirect_slashes = False
    return Guard(app, state, _is_open)


_OPEN = frozenset((endpoint.method, endpoint.path) for endpoint in ENDPOINTS if endpoint.is_open)
_OPEN_PATTERNS = tuple((method, re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", path))) for method, path in _OPEN)


def _is_open(method: str, path: str) -> bool:
    asked = _endpoint_method(method)
    return any(asked == known and pattern.fullmatch(path) for known, pattern in _OPEN_PATTERNS)


def _endpoint_method(method: str) -> str:
    """The method of the endpoint for a request: HEAD asks for the response of GET without its body."""
    return "GET" if method == "HEAD" else method


def _route(path: str, endpoints: dict[str, Endpoint], state: State) -> Route:
    async def endpoint(request: Request) -> Response:
        return await _answer(endpoints[_endpoint_method(request.method)], request, state)

    route = Route(path, endpoint, methods=list(endpoints))
    is_open = "GET" in endpoints and endpoints["GET"].is_open
    if route.methods is not None and not is_open:  # monitors send HEAD; the other endpoints are for programs
        route.methods.discard("HEAD")
    return route


async def _answer(endpoint: Endpoint, request: Request, state: State) -> Response:
    """The response of an endpoint, or a problem response if it raises CallsheetError."""
    try:
        right = right_for(endpoint.method, endpoint.path)
        person: Person = request.scope.get(PERSON, EVERYBODY)
        if right is not None and not endpoint.is_open and not person.may(right):
            hint = f"ask somebody who may {right}, or the operator for a role that has this right"
            raise Problem("API023", f"{person.name} may not {right} here", hint)
        query: Any = read_query(request, endpoint.query)
        body: Any = Empty()
        if endpoint.body is not None:
            body = await read_body(
                request, endpoint.body, state.request_limits, is_needed=endpoint.needs_body
            )
        return await endpoint.handler(ApiRequest(state, body, query, request.path_params, request, person))
    except UndoNeedsConsent as refused:
        state.host.masker.add_secrets(refused.undoing.known)
        undo = state.host.masker.value(undo_json(refused.undoing))
        return problem_of(state.host.masker.error(refused), {"undo": undo, "consent": refused.consent})
    except NeedsConsent as refused:
        forking = refused.forking
        effects = state.host.masker.value([effect.to_json() for effect in forking.effects])
        more: dict[str, Any] = {"effects": effects, "consent": forking.consent}
        more |= {"kept": state.host.masker.value([*forking.kept])} if forking.kept else {}
        return problem_of(state.host.masker.error(refused), more)
    except CallsheetError as error:
        return problem_of(state.host.masker.error(error))


def _web(
    handler: Callable[[State, Request], Awaitable[Response]], state: State
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await handler(state, request)

    return endpoint


async def _http_problem(request: Request, error: Exception) -> Response:
    """The response to a request that the router rejects: unknown path, or method not allowed."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = dict(error.headers or {})
        message = f"the method {request.method} is not allowed here"
        return problem_of(Problem("API010", message, headers=allowed))
    hint = "/v1/openapi.json lists all endpoints"
    return problem_of(Problem("API009", f"there is no endpoint {request.url.path[:100]!a}", hint))


async def _bug(request: Request, error: Exception) -> Response:
    """The response to an unexpected exception; the traceback is only logged."""
    _log.error("%s %s has met a bug", request.method, request.url.path, exc_info=error)
    return problem_of(Problem("API013", f"a bug in callsheet: {type(error).__name__}; see its log"))
