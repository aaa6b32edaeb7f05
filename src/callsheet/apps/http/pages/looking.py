"""Endpoints that explain a run: lineage of a value, state at an event, diff, journal, report."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from itertools import islice
from typing import Any

from starlette.responses import Response, StreamingResponse

from callsheet.apps.http import bodies, shapes
from callsheet.apps.http.page import Answer, Asked, Nothing, Page, answered
from callsheet.apps.http.problems import Problem, json_bytes
from callsheet.apps.http.state import State
from callsheet.apps.operations.differences import diff_json
from callsheet.apps.operations.moment import check_event, moment_json
from callsheet.apps.operations.opening import sliced
from callsheet.apps.operations.slices import slice_json
from callsheet.apps.wording.events import event_json
from callsheet.runtime.reporting import MADE_BY, report_document, report_page
from callsheet.runtime.telling import lctl_of
from callsheet.store.events import Event
from callsheet.trace.lctl.write import to_data, write
from callsheet.trace.standing import standing_of
from callsheet.views.report.build import Showing
from callsheet.views.report.document import Document

_TAG = "explained"
_LINES = 500
JSON_LINES = "application/x-ndjson"
YAML = "application/yaml"


async def why(asked: Asked[Nothing, bodies.WhyQuery]) -> Response:
    """Say what a value of a run was made of, or what was made of it, the nearest places first."""
    host, run_id, query = asked.state.host, asked.path["run_id"], asked.query

    def told() -> dict[str, Any]:
        info = host.info(run_id)
        lineage, start, graph = sliced(
            host.journal, info, query.variable, (query.limit, None), is_forward=query.forward
        )
        return slice_json(run_id, lineage, graph, start, is_forward=query.forward)

    return answered(await host.beside(told))


async def at(asked: Asked[Nothing, Nothing]) -> Response:
    """The run as it was after one of its events."""
    host, run_id = asked.state.host, asked.path["run_id"]
    seq = number(asked.path["seq"])

    def told() -> dict[str, Any]:
        info = host.info(run_id)
        check_event(info, seq)
        return moment_json(run_id, *standing_of(host.journal, info, seq))

    return answered(await host.beside(told))


def number(text: str) -> int:
    """The number of an event in an address; raises Problem for what is none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Problem("API009", f"{text[:40]!a} is no number of an event", "they are counted from 1")
    return int(text)


async def diff(asked: Asked[Nothing, bodies.DiffQuery]) -> Response:
    """Where two runs first part, and what follows from it."""
    host, run_id, other = asked.state.host, asked.path["run_id"], asked.query.other
    told = await host.beside(lambda: diff_json(host.journal, host.info(run_id), host.info(other)))
    return answered(told)


async def journal(asked: Asked[Nothing, bodies.JournalQuery]) -> Response:
    """The events of a run as they stand in the journal, a JSON object a line."""
    state, run_id, query = asked.state, asked.path["run_id"], asked.query
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


async def lctl(asked: Asked[Nothing, bodies.LctlQuery]) -> Response:
    """The run as an LCTL document: the hand-off where it stands, or the post-mortem of one that failed."""
    host, run_id, query = asked.state.host, asked.path["run_id"], asked.query
    if query.debug and query.at is not None:
        raise Problem("API008", "query: debug tells the whole run: leave `at` out")
    moment: str | int | None = query.at
    if query.at is not None and query.at.isascii() and query.at.isdigit():
        moment = int(query.at)
    is_yaml = YAML in asked.request.headers.get("accept", "")

    def told() -> bytes:
        host.info(run_id)
        document = lctl_of(host.journal, run_id, moment, debug=query.debug, with_items=query.items)
        return (
            write(document).encode("utf-8", "backslashreplace") if is_yaml else json_bytes(to_data(document))
        )

    body = await host.beside(told)
    return Response(body, media_type=YAML if is_yaml else "application/json", headers={"vary": "Accept"})


async def report(asked: Asked[Nothing, bodies.ReportQuery]) -> Response:
    """The run as one HTML page, which opens anywhere without a network."""
    page = await asked.state.host.beside(lambda: report_page(_document(asked)))
    headers = {
        "content-disposition": f'attachment; filename="{asked.path["run_id"]}.html"',
        "content-security-policy": "sandbox",
    }
    return Response(page.encode("utf-8", "backslashreplace"), 200, headers, "text/html; charset=utf-8")


def _document(asked: Asked[Nothing, bodies.ReportQuery]) -> Document:
    host, query = asked.state.host, asked.query
    host.info(asked.path["run_id"])
    if query.other is not None:
        host.info(query.other)
    showing = Showing(query.max_value, query.redact)
    return report_document(host.journal, asked.path["run_id"], MADE_BY, showing, query.other)


def _page(path: str, summary: str, answer: Any, answers: tuple[Answer, ...], query: Any = Nothing) -> Page:
    return Page(
        method="GET",
        path=f"/v1/runs/{{run_id}}/{path}",
        summary=summary,
        tag=_TAG,
        answer=answer,
        answers=answers,
        query=query,
        problems=(404, 409),
    )


PAGES = (
    _page("why", "Say why", why, (Answer(200, "The slice.", shapes.WHY),), bodies.WhyQuery),
    _page("at/{seq}", "Go back to an event", at, (Answer(200, "The run then.", shapes.MOMENT),)),
    _page(
        "diff", "Compare two runs", diff, (Answer(200, "The differences.", shapes.DIFF),), bodies.DiffQuery
    ),
    _page(
        "journal",
        "Read the journal",
        journal,
        (Answer(200, "Events, a JSON object a line.", {"type": "string"}, JSON_LINES),),
        bodies.JournalQuery,
    ),
    _page(
        "lctl",
        "Tell a run as an LCTL document",
        lctl,
        (
            Answer(200, "The document, as JSON unless YAML is asked for.", {"type": "object"}),
            Answer(200, "", {"type": "string"}, YAML),
        ),
        bodies.LctlQuery,
    ),
    _page(
        "report",
        "Get a run as a page",
        report,
        (Answer(200, "One HTML file.", {"type": "string"}, "text/html"),),
        bodies.ReportQuery,
    ),
)
