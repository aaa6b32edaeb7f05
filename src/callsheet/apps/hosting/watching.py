"""Streams the events of a run from its journal, whichever process runs it.

In: a journal, a run's id, the number of the last known event. Out: events in order, each once, and the state
of the run whenever it changes. A slow or absent reader does not delay the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import islice
from typing import NamedTuple

from callsheet.apps.hosting.hosted_run import HostedRun
from callsheet.runtime.offloading import Offload
from callsheet.store import Journal
from callsheet.store.events import Event

_PAGE = 200
"""The number of events read at a time."""
_POLL = 0.5
"""Seconds between polls of a run in another process."""
_REST = 0.02
"""Seconds to wait for further events, so that they are read together."""


class RunState(NamedTuple):
    """The state of a run: its status as shown to people, the number of its events, whether it has ended."""

    status: str
    events: int
    is_final: bool


class RunSource(NamedTuple):
    """What `follow` needs to observe the runs of a host."""

    journal: Journal
    beside: Offload
    hosted: Callable[[str], HostedRun | None]
    state: Callable[[str], RunState]


async def follow(source: RunSource, run_id: str, after: int = 0) -> AsyncGenerator[Event | RunState]:
    """The events of a run after the number `after`, then new ones, until the run has ended.

    `run_id` is the complete id. The state of the run comes first, and again after the events that changed it.
    A run that has stopped (waiting for people, interrupted) is still followed, because any process may resume
    it. Raises JournalError as `Journal.events` does.
    """
    last_status: str | None = None
    while True:
        run = source.hosted(run_id)
        change = None if run is None else run.changed.next()
        state = await source.beside(lambda: source.state(run_id))
        if last_status is None:
            yield state
            last_status = state.status
        while page := await source.beside(partial(_page, source.journal, run_id, after)):
            for event in page:
                yield event
            after = page[-1].seq
        if state.status != last_status:
            yield state
            last_status = state.status
        if state.is_final and after >= state.events:
            return
        await _wait(change)


def _page(journal: Journal, run_id: str, after: int) -> list[Event]:
    return list(islice(journal.events(run_id, after, lenient=True), _PAGE))


async def _wait(change: asyncio.Event | None) -> None:
    """Wait until something is written, or until the next poll."""
    if change is None:
        await asyncio.sleep(_POLL)
        return
    try:
        async with asyncio.timeout(_POLL):
            await change.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_REST)
