"""Endpoints that explain a run: lineage of a value, state at an event, diff, journal, report."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from itertools import islice
from typing import Any

from starlette.responses import Response, StreamingResponse

from callsheet.api.explaining import explain_value, run_at
from callsheet.apps.http import bodies, responses
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec, json_response
from callsheet.apps.http.problems import Problem, json_bytes
from callsheet.apps.http.state import State
from callsheet.apps.operations.differences import diff_json
from callsheet.apps.operations.run_at_event import run_at_event_json
from callsheet.apps.operations.slices import slice_json
from callsheet.apps.rendering.runs import event_json
from callsheet.runtime.reporting import MADE_BY, lctl_of, report_document, report_page
from callsheet.store.events import Event
from callsheet.trace.lctl.write import to_data, write
from callsheet.views.report.build import Showing
from callsheet.views.report.document import Document

_TAG = "explained"
_LINES = 500
JSON_LINES = "application/x-ndjson"
YAML = "application/yaml"


async def why(req: ApiRequest[Empty, bodies.WhyQuery]) -> Response:
    """The lineage of a value of a run, backward or forward, nearest places first."""
    host, run_id, query = req.state.host, req.path["run_id"], req.query

    def read() -> dict[str, Any]:
        host.info(run_id)
        found = explain_value(host.journal, run_id, query.variable, forward=query.forward, most=query.limit)
        return slice_json(found)

    return json_response(await host.beside(read))


async def at(req: ApiRequest[Empty, Empty]) -> Response:
    """The state of a run after one of its events."""
    host, run_id = req.state.host, req.path["run_id"]
    seq = number(req.path["seq"])

    def read() -> dict[str, Any]:
        host.info(run_id)
        return run_at_event_json(run_at(host.journal, run_id, seq))

    return json_response(await host.beside(read))


def number(text: str) -> int:
    """Parse the number of an event in a path; raises Problem (API009) if it is invalid."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Problem("API009", f"{text[:40]!a} is not the number of an event", "events are numbered from 1")
    return int(text)


async def diff(req: ApiRequest[Empty, bodies.DiffQuery]) -> Response:
    """Where two runs first diverge, and what follows from it."""
    host, run_id, other = req.state.host, req.path["run_id"], req.query.other
    differences = await host.beside(lambda: diff_json(host.journal, host.info(run_id), host.info(other)))
    return json_response(differences)


async def journal(req: ApiRequest[Empty, bodies.JournalQuery]) -> Response:
    """The events of a run as recorded in the journal, one JSON object per line."""
    state, run_id, query = req.state, req.path["run_id"], req.query
    first = await state.host.beside(partial(_events, state, run_id, query.after, min(query.limit, _LINES)))
    return StreamingResponse(_lines(state, run_id, query.limit, first), media_type=JSON_LINES)


def _events(state: State, run_id: str, after: int, most: int) -> list[Event]:
    state.host.info(run_id)
    return list(islice(state.host.journal.events(run_id, after, lenient=True), most))


async def _lines(state: State, run_id: str, left: int, page: list[Event]) -> AsyncGenerator[bytes]:
    while page:
        yield b"".join(json_bytes(event_json(event)) + b"\n" for event in page)
        left -= len(page)
        if left <= 0:
            return
        page = await state.host.beside(partial(_events, state, run_id, page[-1].seq, min(left, _LINES)))


async def lctl(req: ApiRequest[Empty, bodies.LctlQuery]) -> Response:
    """The run as an LCTL document: a hand-off of its current state, or the post-mortem of a failed run."""
    host, run_id, query = req.state.host, req.path["run_id"], req.query
    if query.debug and query.at is not None:
        raise Problem("API008", "query: debug covers the whole run: omit `at`")
    moment: str | int | None = query.at
    if query.at is not None and query.at.isascii() and query.at.isdigit():
        moment = int(query.at)
    is_yaml = YAML in req.request.headers.get("accept", "")

    def read() -> bytes:
        host.info(run_id)
        document = lctl_of(host.journal, run_id, moment, debug=query.debug, with_items=query.items)
        return (
            write(document).encode("utf-8", "backslashreplace") if is_yaml else json_bytes(to_data(document))
        )

    body = await host.beside(read)
    return Response(body, media_type=YAML if is_yaml else "application/json", headers={"vary": "Accept"})


async def report(req: ApiRequest[Empty, bodies.ReportQuery]) -> Response:
    """The run as one self-contained HTML page."""
    page = await req.state.host.beside(lambda: report_page(_document(req)))
    headers = {
        "content-disposition": f'attachment; filename="{req.path["run_id"]}.html"',
        "content-security-policy": "sandbox",
    }
    return Response(page.encode("utf-8", "backslashreplace"), 200, headers, "text/html; charset=utf-8")


def _document(req: ApiRequest[Empty, bodies.ReportQuery]) -> Document:
    host, query = req.state.host, req.query
    host.info(req.path["run_id"])
    if query.other is not None:
        host.info(query.other)
    showing = Showing(query.max_value, query.redact)
    return report_document(host.journal, req.path["run_id"], MADE_BY, showing, query.other)


def _get(
    path: str, summary: str, handler: Any, responses: tuple[ResponseSpec, ...], query: Any = Empty
) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"/v1/runs/{{run_id}}/{path}",
        summary=summary,
        tag=_TAG,
        handler=handler,
        responses=responses,
        query=query,
        problems=(404, 409),
    )


ENDPOINTS = (
    _get(
        "why",
        "Show the lineage of a value",
        why,
        (ResponseSpec(200, "The slice.", responses.WHY),),
        bodies.WhyQuery,
    ),
    _get("at/{seq}", "Show the state at an event", at, (ResponseSpec(200, "The state.", responses.MOMENT),)),
    _get(
        "diff",
        "Compare two runs",
        diff,
        (ResponseSpec(200, "The differences.", responses.DIFF),),
        bodies.DiffQuery,
    ),
    _get(
        "journal",
        "Read the journal",
        journal,
        (ResponseSpec(200, "Events, one JSON object per line.", {"type": "string"}, JSON_LINES),),
        bodies.JournalQuery,
    ),
    _get(
        "lctl",
        "Export a run as an LCTL document",
        lctl,
        (
            ResponseSpec(200, "The document, as JSON unless YAML is accepted.", {"type": "object"}),
            ResponseSpec(200, "", {"type": "string"}, YAML),
        ),
        bodies.LctlQuery,
    ),
    _get(
        "report",
        "Export a run as a page",
        report,
        (ResponseSpec(200, "One HTML file.", {"type": "string"}, "text/html"),),
        bodies.ReportQuery,
    ),
)
