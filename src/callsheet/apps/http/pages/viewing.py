"""Runs as the viewer shows them: the document of a run, and its spans."""

from __future__ import annotations

from starlette.responses import Response

from callsheet.apps.http import bodies
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.runtime.reporting import MADE_BY, report_document
from callsheet.views.report.build import Showing

_TAG = "runs"
_SERVED = Showing(has_spans=False)
_WITH_SPANS = Showing(redacts=True)


async def get_document(asked: Asked[Nothing, bodies.DocumentQuery]) -> Response:
    """The data of the viewer: all that it shows of a run, but for its spans."""
    host, run_id, other = asked.state.host, asked.path["run_id"], asked.query.other
    host.info(run_id)

    def made() -> dict[str, object]:
        return report_document(host.journal, run_id, MADE_BY, _SERVED, other).to_json()

    return answered(await host.beside(made))


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
            Answer(200, "The data of the viewer; its format is that of this version.", {"type": "object"}),
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
