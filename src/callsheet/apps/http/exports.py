"""A run as a stream of events, and as documents: its journal, LCTL, a page.

Events are server-sent; the id of each is its number in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from callsheet.apps.hosting import RunState
from callsheet.apps.hosting.recorded import CallReports, Followed
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, Query, ResponseSpec, reference
from callsheet.apps.http.problems import Problem, json_bytes, problem_json, status_of
from callsheet.apps.http.state import State
from callsheet.apps.operations.live_calls import EventRow, ProgressRow, event_row, progress_row
from callsheet.apps.operations.runs import OutcomeWord, StatusWord, shown_outcome
from callsheet.apps.operations.schema import Count, ProblemRow, Schema
from callsheet.apps.table.arguments import RunId
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.reporting import MADE_BY, lctl_of, report_document, report_page
from callsheet.store.events import Event
from callsheet.trace.lctl.write import to_data, write
from callsheet.views.report.build import Showing
from callsheet.views.report.document import Document

_LINES = 500
JSON_LINES = "application/x-ndjson"
YAML = "application/yaml"
MEDIA_TYPE = "text/event-stream"
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": still here\n\n"


class EventsQuery(Query):
    """Where an event stream begins."""

    after: Annotated[int, Field(ge=0, le=2**53)] = Field(0, description="The number of the last known event.")


class JournalQuery(EventsQuery):
    """Which events of a journal are returned."""

    limit: Annotated[int, Field(ge=1, le=100_000)] = 10_000


class LctlQuery(Query):
    """The event and the kind of an LCTL document."""

    at: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="A step, a visit such as S3@2, or the number of an event."
    )
    debug: bool | None = Field(
        None, description="A post-mortem (true) or a hand-off (false); by default as the run ended."
    )
    items: bool = False


class ReportQuery(Query):
    """What a report shows."""

    other: RunId | None = Field(None, description="A run to compare with.")
    redact: bool = False
    max_value: Annotated[int, Field(ge=0, le=2**53)] = 16_384


# ---------------------------------------------------------------- events


async def stream_run(req: ApiRequest[Empty, EventsQuery]) -> Response:
    """The events of a run after a number, then new ones, until it has ended.

    Events of the journal have no name. `standing` has the current status of the run, `progress` what its
    tools report about open calls; `end` closes the stream.
    """
    state, run_id = req.state, req.path["run_id"]
    after = _after(req)
    await state.host.beside(lambda: state.host.info(run_id))
    if len(state.streams) >= state.request_limits.most_streams:
        most = state.request_limits.most_streams
        message = f"the limit of this server is reached: {most} open event streams"
        hint = "close other pages and clients, or raise the limit: callsheet serve --streams N"
        raise Problem("API006", message, hint, {"Retry-After": "5"})
    mark = object()
    state.streams.add(mark)
    return StreamingResponse(_stream_lines(state, run_id, after, mark), media_type=MEDIA_TYPE)


def _after(req: ApiRequest[Empty, EventsQuery]) -> int:
    """The last event that the client has, from its header, else from its query."""
    last_id = req.request.headers.get("last-event-id", "").strip()
    if not last_id:
        return req.query.after
    if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 16):
        raise Problem("API008", "Last-Event-ID must be the number of an event")
    return int(last_id)


async def _stream_lines(state: State, run_id: str, after: int, mark: object) -> AsyncGenerator[bytes]:
    events = state.host.follow(run_id, after)
    try:
        yield _RETRY
        async for event in _with_heartbeats(events, state):
            if event is None:
                yield _ALIVE
            elif isinstance(event, RunState):
                yield _message({"status": event.status, "events": event.events}, name="standing")
            elif isinstance(event, CallReports):
                yield _message({"calls": [progress_row(call) for call in event.calls]}, name="progress")
            else:
                yield event.made(_messages)
        if state.stopping.is_set():
            return
        info = state.host.info(run_id)
        status = state.host.status(info)
        outcome = shown_outcome(info, status)
        yield _message({"status": status, "outcome": outcome, "events": info.events}, name="end")
    except CallsheetError as error:
        yield _message(problem_json(error, status_of(error)), name="problem")
    finally:
        state.streams.discard(mark)
        await events.aclose()


def _messages(events: Sequence[Event]) -> bytes:
    return b"".join(_message(event_row(event), number=event.seq) for event in events)


async def _with_heartbeats(events: AsyncGenerator[Followed], state: State) -> AsyncIterator[Followed | None]:
    """The events, and None after each interval without one; ends when the server shuts down."""
    following: asyncio.Task[Followed] | None = None
    stopping = asyncio.create_task(state.stopping.wait())
    try:
        while not state.stopping.is_set():
            if following is None:
                following = asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait(
                {following, stopping},
                timeout=state.request_limits.heartbeat,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if following not in done:
                yield None
                continue
            task, following = following, None
            try:
                yield task.result()
            except StopAsyncIteration:
                return
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
            await asyncio.wait({following})


def _message(data: Any, *, name: str = "", number: int | None = None) -> bytes:
    """A server-sent event; `json_bytes` writes no line breaks."""
    head = b"" if number is None else b"id: %d\n" % number
    head += f"event: {name}\n".encode() if name else b""
    return head + b"data: " + json_bytes(data) + b"\n\n"


# ---------------------------------------------------------------- documents


async def journal(req: ApiRequest[Empty, JournalQuery]) -> Response:
    """The events of a run as recorded in the journal, one JSON object per line."""
    state, run_id, query = req.state, req.path["run_id"], req.query
    first = await state.host.beside(partial(_events, state, run_id, query.after, min(query.limit, _LINES)))
    return StreamingResponse(_lines(state, run_id, query.limit, first), media_type=JSON_LINES)


def _events(state: State, run_id: str, after: int, most: int) -> list[Event]:
    state.host.info(run_id)
    return list(islice(state.host.journal.events(run_id, after, lenient=True), most))


async def _lines(state: State, run_id: str, left: int, page: list[Event]) -> AsyncGenerator[bytes]:
    while page:
        yield b"".join(json_bytes(event_row(event)) + b"\n" for event in page)
        left -= len(page)
        if left <= 0:
            return
        page = await state.host.beside(partial(_events, state, run_id, page[-1].seq, min(left, _LINES)))


async def lctl(req: ApiRequest[Empty, LctlQuery]) -> Response:
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


async def report(req: ApiRequest[Empty, ReportQuery]) -> Response:
    """The run as one self-contained HTML page."""
    page = await req.state.host.beside(lambda: report_page(_document(req)))
    headers = {
        "content-disposition": f'attachment; filename="{req.path["run_id"]}.html"',
        "content-security-policy": "sandbox",
    }
    return Response(page.encode("utf-8", "backslashreplace"), 200, headers, "text/html; charset=utf-8")


def _document(req: ApiRequest[Empty, ReportQuery]) -> Document:
    host, query = req.state.host, req.query
    host.info(req.path["run_id"])
    if query.other is not None:
        host.info(query.other)
    showing = Showing(query.max_value, query.redact)
    return report_document(host.journal, req.path["run_id"], MADE_BY, showing, query.other)


# ---------------------------------------------------------------- the endpoints


def _get(path: str, summary: str, handler: Any, query: Any, *responses: ResponseSpec) -> Endpoint:
    return Endpoint(
        method="GET",
        path=f"/v1/runs/{{run_id}}/{path}",
        summary=summary,
        tag="explained",
        handler=handler,
        responses=responses,
        query=query,
        problems=(404, 409),
    )


class StreamState(TypedDict):
    """The status of a run and the number of its events."""

    status: StatusWord
    outcome: NotRequired[OutcomeWord]
    events: Count


RESULTS = (EventRow, StreamState, ProgressRow)
_SENT: Schema = {
    "type": "object",
    "description": "a message of the stream",
    "properties": {
        "event": {"type": "string", "enum": ["message", "standing", "progress", "end", "problem"]},
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [reference(kind) for kind in (*RESULTS, ProblemRow)]},
        },
        "retry": {},
    },
}

ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/v1/runs/{run_id}/events",
        summary="Follow a run",
        tag="runs",
        handler=stream_run,
        responses=(
            ResponseSpec(
                200,
                "Server-sent events: those of the journal without a name, with their number as the id; "
                "and `standing`, `progress`, `end` and `problem`.",
                _SENT,
                MEDIA_TYPE,
            ),
        ),
        query=EventsQuery,
        problems=(404, 409),
        headers={"Last-Event-ID": "The number of the last event that the client has."},
    ),
    _get(
        "journal",
        "Read the journal",
        journal,
        JournalQuery,
        ResponseSpec(200, "Events, one JSON object per line.", {"type": "string"}, JSON_LINES),
    ),
    _get(
        "lctl",
        "Export a run as an LCTL document",
        lctl,
        LctlQuery,
        ResponseSpec(200, "The document, as JSON unless YAML is accepted.", {"type": "object"}),
        ResponseSpec(200, "", {"type": "string"}, YAML),
    ),
    _get(
        "report",
        "Export a run as a page",
        report,
        ReportQuery,
        ResponseSpec(200, "One HTML file.", {"type": "string"}, "text/html"),
    ),
)
