"""Streams the events of a run as server-sent events; the id of each is its number in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from callsheet.apps.hosting import RunState
from callsheet.apps.http import bodies
from callsheet.apps.http.endpoint import ApiRequest, Empty, Endpoint, ResponseSpec
from callsheet.apps.http.problems import Problem, json_bytes, problem_json, status_of
from callsheet.apps.http.state import State
from callsheet.apps.operations.json_schema import Schema
from callsheet.apps.operations.runs import shown_outcome
from callsheet.apps.rendering.runs import event_json
from callsheet.diagnostics import CallsheetError
from callsheet.store.events import Event

MEDIA_TYPE = "text/event-stream"
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": still here\n\n"


async def stream_run(req: ApiRequest[Empty, bodies.EventsQuery]) -> Response:
    """The events of a run after a number, then new ones, until it has ended.

    Events of the journal have no name. `standing` has the current status of the run; `end` closes the stream.
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
    return StreamingResponse(_lines(state, run_id, after, mark), media_type=MEDIA_TYPE)


def _after(req: ApiRequest[Empty, bodies.EventsQuery]) -> int:
    """The last event that the client has, from its header, else from its query."""
    last_id = req.request.headers.get("last-event-id", "").strip()
    if not last_id:
        return req.query.after
    if not (last_id.isascii() and last_id.isdigit() and len(last_id) <= 16):
        raise Problem("API008", "Last-Event-ID must be the number of an event")
    return int(last_id)


async def _lines(state: State, run_id: str, after: int, mark: object) -> AsyncGenerator[bytes]:
    events = state.host.watch(run_id, after)
    try:
        yield _RETRY
        async for event in _with_heartbeats(events, state):
            if event is None:
                yield _ALIVE
            elif isinstance(event, RunState):
                yield _message({"status": event.status, "events": event.events}, name="standing")
            else:
                yield _message(event_json(event), number=event.seq)
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


async def _with_heartbeats(
    events: AsyncGenerator[Event | RunState], state: State
) -> AsyncIterator[Event | RunState | None]:
    """The events, and None after each interval without one; ends when the server shuts down."""
    following: asyncio.Task[Event | RunState] | None = None
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


_SENT: Schema = {
    "type": "object",
    "description": "a message of the stream",
    "properties": {
        "event": {"type": "string", "enum": ["message", "standing", "end", "problem"]},
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "data": {"type": "string", "contentMediaType": "application/json"},
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
                "and `standing`, `end` and `problem`.",
                _SENT,
                MEDIA_TYPE,
            ),
        ),
        query=bodies.EventsQuery,
        problems=(404, 409),
        headers={"Last-Event-ID": "The number of the last event that the client has."},
    ),
)
