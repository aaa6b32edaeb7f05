"""The viewer: its static pages, which need no token, and its data: the document, values, spans of a run.

In: requests for `/` and for what it loads; a run. Out: static files under a strict content security policy;
JSON data, whose form may change between versions. The pages, script and style are bundled of the modules of
`apps/web` and of the viewer of runs; that is reproducible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from callsheet.apps.http.endpoint import (
    JSON_TYPE,
    ApiRequest,
    Empty,
    Endpoint,
    Query,
    ResponseSpec,
    json_response,
)
from callsheet.apps.http.problems import Problem, json_bytes, problem_of
from callsheet.apps.http.state import State
from callsheet.apps.table.arguments import RunId
from callsheet.runtime.reporting import MADE_BY, report_document, viewer_modules, viewer_style
from callsheet.views.report.build import Showing
from callsheet.views.report.page import bundle
from callsheet.views.report.values import Numbers, whole_text

DOCUMENT = r"^[0-9a-f]{32}$"


class DocumentQuery(Query):
    """Options of a viewer document."""

    other: RunId | None = Field(None, description="A run to compare with.")
    base: Annotated[str, Field(pattern=DOCUMENT)] | None = Field(
        None, description="The name of the document that the client has: only the changes since are returned."
    )


class ValueQuery(Query):
    """Options of a value of a viewer document."""

    other: RunId | None = Field(None, description="The run with which the document compares.")


_TAG = "runs"
_SERVED = Showing(has_spans=False)
_WITH_SPANS = Showing(redacts=True)


async def get_document(req: ApiRequest[Empty, DocumentQuery]) -> Response:
    """The viewer's data of a run, without its spans.

    The header `ETag` names it. With that name as `base`, a later response has only the changes, if the server
    still remembers the document: `base`, the parts `set`, the new or changed rows.
    """
    state, run_id, query = req.state, req.path["run_id"], req.query
    host = state.host
    host.info(run_id)

    def made(numbers: Numbers) -> dict[str, Any]:
        showing = replace(_SERVED, numbers=numbers)
        return report_document(host.journal, run_id, MADE_BY, showing, query.other).to_json()

    def looked_at() -> tuple[str, bytes]:
        name, document = state.documents.changes_since((run_id, query.other), query.base, made)
        return name, json_bytes(document)

    name, told = await host.beside(looked_at)
    return Response(told, 200, {"ETag": f'"{name}"'}, JSON_TYPE)


async def get_value(req: ApiRequest[Empty, ValueQuery]) -> Response:
    """The whole of a value that the viewer's data shortens, by the SHA-256 of its JSON text."""
    host, run_id, digest = req.state.host, req.path["run_id"], req.path["digest"]
    host.info(run_id)

    def found() -> str | None:
        numbers: Numbers = {}
        showing = replace(_SERVED, whole=digest, numbers=numbers)
        document = report_document(host.journal, run_id, MADE_BY, showing, req.query.other)
        return whole_text(digest, numbers, document.values)

    text = await host.beside(found)
    if text is None:
        raise Problem("API009", f"the run {run_id} has no value with the digest {digest[:64]!a}")
    return Response(text.encode(), 200, None, JSON_TYPE)


async def get_spans(req: ApiRequest[Empty, Empty]) -> Response:
    """The spans of a run as OTLP, compressed for the viewer."""
    host, run_id = req.state.host, req.path["run_id"]
    host.info(run_id)
    document = await host.beside(lambda: report_document(host.journal, run_id, MADE_BY, _WITH_SPANS))
    return json_response(document.otel)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/runs/{run_id}/document",
        summary="Get the viewer's data of a run",
        tag=_TAG,
        handler=get_document,
        responses=(ResponseSpec(200, "The data; its form may change between versions.", {"type": "object"}),),
        query=DocumentQuery,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/v1/runs/{run_id}/values/{digest}",
        summary="Get the whole of a value that the viewer's data shortens",
        tag=_TAG,
        handler=get_value,
        responses=(ResponseSpec(200, "The value.", {}),),
        query=ValueQuery,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/v1/runs/{run_id}/spans",
        summary="Get the spans of a run",
        tag=_TAG,
        handler=get_spans,
        responses=(ResponseSpec(200, "The spans as OTLP, in zlib and base64.", {"type": "object"}),),
        problems=(404, 409),
    ),
)


# ---------------------------------------------------------------- static pages

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


async def index(_state: State, request: Request) -> Response:
    """The viewer's page."""
    return _file("index.html", request)


async def asset(_state: State, request: Request) -> Response:
    """A file that the page loads."""
    return _file(str(request.path_params["name"]), request)


WEB: Mapping[str, Answers] = {"/": index, "/assets/{name}": asset}
"""The routes besides the API."""


def _file(name: str, request: Request) -> Response:
    found = assets().get(name)
    if found is None:
        return problem_of(Problem("API009", f"there is no file {name[:80]!a}"))
    return file_response(found, request)


def file_response(found: Asset, request: Request) -> Response:
    """A file for a browser, which may have it already."""
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(None, 304, headers)
    return Response(found.data, 200, headers, found.media_type)


_ENTRY = "web/pages/app.js"
_SCRIPT = "text/javascript; charset=utf-8"
_PAGE = """<!doctype html>
<html lang="en" data-theme="auto">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/assets/app.css">{head}
</head>
<body>
{body}
</body>
</html>
"""
_LOADED = '<div id="callsheet"><noscript>These pages need JavaScript.</noscript></div>'


class Asset(NamedTuple):
    """A file for a browser: its media type and its bytes."""

    media_type: str
    data: bytes

    @property
    def tag(self) -> str:
        """The name of exactly these bytes, by which a browser knows whether it has them."""
        return _tag(self.data)


@cache
def _tag(data: bytes) -> str:
    return f'"{sha256(data).hexdigest()[:32]}"'


def page(title: str, body: str, head: str = "") -> Asset:
    """A page in the style of the web viewer; its title, its body and more for its head are HTML."""
    return Asset("text/html; charset=utf-8", _PAGE.format(title=title, body=body, head=head).encode())


@cache
def assets() -> dict[str, Asset]:
    """The files of the web viewer, by name; `index.html` is the page.

    >>> sorted(assets())
    ['app.css', 'app.js', 'codemirror.js', 'index.html']
    """
    folder = files("callsheet.apps.web")
    pages = {
        f"web/pages/{file.name}": file.read_text(encoding="utf-8")
        for file in sorted(folder.joinpath("pages").iterdir(), key=lambda file: file.name)
        if file.name.endswith(".js")
    }
    script = bundle(viewer_modules() | pages, _ENTRY)
    style = viewer_style() + "\n" + folder.joinpath("styles", "pages.css").read_text(encoding="utf-8")
    return {
        "index.html": page("callsheet", _LOADED, '\n<script src="/assets/app.js" defer></script>'),
        "app.js": Asset(_SCRIPT, script.encode()),
        "codemirror.js": Asset(_SCRIPT, folder.joinpath("vendor", "codemirror.js").read_bytes()),
        "app.css": Asset("text/css; charset=utf-8", style.encode()),
    }
