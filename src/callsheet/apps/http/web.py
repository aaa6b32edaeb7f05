"""Serves the viewer's static pages, which need no token: they get their data from the API.

In: requests for `/` and for what it loads. Out: static files under a strict content security policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response

from callsheet.apps.http.problems import Problem, problem_of
from callsheet.apps.http.state import State
from callsheet.apps.web.bundled import assets

Answers = Callable[[State, Request], Awaitable[Response]]
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The content security policy of the viewer: only files and requests of this server."""


async def index(_state: State, _request: Request) -> Response:
    """The viewer's page."""
    return _file("index.html")


async def asset(_state: State, request: Request) -> Response:
    """A file that the page loads."""
    return _file(str(request.path_params["name"]))


WEB: Mapping[str, Answers] = {"/": index, "/assets/{name}": asset}
"""The routes besides the API."""


def _file(name: str) -> Response:
    found = assets().get(name)
    if found is None:
        return problem_of(Problem("API009", f"there is no file {name[:80]!a}"))
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return Response(found.data, 200, headers, found.media_type)
