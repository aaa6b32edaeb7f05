"""Endpoints for the viewer: the document of a run, and its spans."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.responses import Response

from callsheet.apps.http import bodies
from callsheet.apps.http.page import JSON_TYPE, Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.problems import json_bytes
from callsheet.runtime.reporting import MADE_BY, report_document
from callsheet.views.report.build import Showing
from callsheet.views.report.values import Numbers

_TAG = "runs"
_SERVED = Showing(has_spans=False)
_WITH_SPANS = Showing(redacts=True)


async def get_document(asked: Asked[Nothing, bodies.DocumentQuery]) -> Response:
    """The data of the viewer: all that it shows of a run, but for its spans.

    The header `ETag` names it. Who gives that name as `base` gets what has changed since then, as long as
    the server remembers it: `base`, the parts `set`, the rows that are new or others.
    """
    state, run_id, query = asked.state, asked.path["run_id"], asked.query
    host = state.host
    host.info(run_id)

    def made(numbers: Numbers) -> dict[str, Any]:
        showing = replace(_SERVED, numbers=numbers)
        return report_document(host.journal, run_id, MADE_BY, showing, query.other).to_json()

    def looked_at() -> tuple[str, bytes]:
        name, told = state.prints.told((run_id, query.other), query.base, made)
        return name, json_bytes(told)

    name, told = await host.beside(looked_at)
    return Response(told, 200, {"ETag": f'"{name}"'}, JSON_TYPE)


async def get_spans(asked: Asked[Nothing, Nothing]) -> Response:
    """The spans of a run as OTLP, compressed as the viewer unpacks them."""
    host, run_id = asked.state.host, asked.path["run_id"]
    host.info(run_id)
    document = await host.beside(lambda: report_document(host.journal, run_id, MADE_BY, _WITH_SPANS))
    return answered(document.otel)


PAGES = (
    Page(
        method="GET",
        path="/v1/runs/{run_id}/document",
        summary="Look at a run as the viewer does",
        tag=_TAG,
        answer=get_document,
        answers=(
            Answer(200, "The data of the viewer; its form is that of this version.", {"type": "object"}),
        ),
        query=bodies.DocumentQuery,
        problems=(404, 409),
    ),
    Page(
        method="GET",
        path="/v1/runs/{run_id}/spans",
        summary="Give the spans of a run",
        tag=_TAG,
        answer=get_spans,
        answers=(Answer(200, "The spans as OTLP, in zlib and base64.", {"type": "object"}),),
        problems=(404, 409),
    ),
)
