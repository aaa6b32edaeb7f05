"""Streams the events of a run as server-sent events; the id of each is its number in the journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse

from callsheet.apps.hosting import RunState
from callsheet.apps.http import bodies
from callsheet.apps.http.page import Answer, Asked, Nothing, Page
from callsheet.apps.http.problems import Problem, json_bytes, problem_json, status_of
from callsheet.apps.http.state import State
from callsheet.apps.operations.schemas import Schema
from callsheet.apps.wording.events import event_json
from callsheet.diagnostics import CallsheetError
from callsheet.store.events import Event

MEDIA_TYPE = "text/event-stream"
_RETRY = b"retry: 1000\n\n"
_ALIVE = b": still here\n\n"


async def stream_run(asked: Asked[Nothing, bodies.EventsQuery]) -> Response:
    """The events of a run after a number, then those that come, until it has ended.

    An event of the journal comes without a name. `standing` tells how the run stands now, `end` that nothing
    more comes.
    """
    state, run_id = asked.state, asked.path["run_id"]
    after = _after(asked)
    await state.host.beside(lambda: state.host.info(run_id))
    if len(state.streams) >= state.bounds.most_streams:
        message = f"{len(state.streams)} streams are open, and no more are served"
        raise Problem("API006", message, "close others first", {"Retry-After": "5"})
    mark = object()
    state.streams.add(mark)
    return StreamingResponse(_lines(state, run_id, after, mark), media_type=MEDIA_TYPE)


def _after(asked: Asked[Nothing, bodies.EventsQuery]) -> int:
    """The last event that the client has: what it was sent last, else what its address says."""
    told = asked.request.headers.get("last-event-id", "").strip()
    if not told:
        return asked.query.after
    if not (told.isascii() and told.isdigit() and len(told) <= 16):
        raise Problem("API008", "Last-Event-ID is the number of an event")
    return int(told)


async def _lines(state: State, run_id: str, after: int, mark: object) -> AsyncGenerator[bytes]:
    events = state.host.watch(run_id, after)
    try:
        yield _RETRY
        async for told in _with_signs_of_life(events, state):
            if told is None:
                yield _ALIVE
            elif isinstance(told, RunState):
                yield _message({"status": told.status, "events": told.events}, name="standing")
            else:
                yield _message(event_json(told), number=told.seq)
        if state.stopping.is_set():
            return
        info = state.host.info(run_id)
        yield _message({"status": state.host.status(info), "events": info.events}, name="end")
    except CallsheetError as error:
        yield _message(problem_json(error, status_of(error)), name="problem")
    finally:
        state.streams.discard(mark)
        await events.aclose()


async def _with_signs_of_life(
    events: AsyncGenerator[Event | RunState], state: State
) -> AsyncIterator[Event | RunState | None]:
    """What comes, and None where nothing has come for a while; it ends when the server is stopped."""
    following: asyncio.Task[Event | RunState] | None = None
    stopping = asyncio.create_task(state.stopping.wait())
    try:
        while not state.stopping.is_set():
            if following is None:
                following = asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait(
                {following, stopping}, timeout=state.bounds.heartbeat, return_when=asyncio.FIRST_COMPLETED
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
    """A server-sent event; JSON has no line breaks of its own."""
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

PAGES = (
    Page(
        method="GET",
        path="/v1/runs/{run_id}/events",
        summary="Follow a run",
        tag="runs",
        answer=stream_run,
        answers=(
            Answer(
                200,
                "Server-sent events: those of the journal without a name, with their number as the id; "
                "`standing`, `end` and `problem` beside them.",
                _SENT,
                MEDIA_TYPE,
            ),
        ),
        query=bodies.EventsQuery,
        problems=(404, 409),
        headers={"Last-Event-ID": "The number of the last event that the client has."},
    ),
)
