"""The events of a run as they come, from its journal, whoever carries it on.

In: a journal, a run's id, the number of the last event that is known. Out: events in their order, each once,
and how the run stands whenever that changes. A reader that goes away or is slow holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from itertools import islice
from typing import NamedTuple

from callsheet.apps.hosting.carried import Carried
from callsheet.runtime.beside import Beside
from callsheet.store import Journal
from callsheet.store.events import Event

_PAGE = 200
"""So many events are read at a time."""
_POLL = 0.5
"""Seconds between two looks at a run that this process does not carry."""
_REST = 0.02
"""Seconds in which what is written is read together."""


class Standing(NamedTuple):
    """How a run stands: its status as people are told it, how many events it has, whether it has ended."""

    status: str
    events: int
    is_final: bool


class Sight(NamedTuple):
    """What a watcher looks through."""

    journal: Journal
    beside: Beside
    carried: Callable[[str], Carried | None]
    standing: Callable[[str], Standing]


async def follow(sight: Sight, run_id: str, after: int = 0) -> AsyncGenerator[Event | Standing]:
    """The events of a run after a number, then those that come, until it has ended.

    `run_id` is the whole id. First comes how the run stands, and again whenever that has changed, behind
    the events that led to it. A run that stands still (it waits for people, it was interrupted) is followed
    on: it may be carried on by anybody. Raises JournalError as `Journal.events` does.
    """
    told: str | None = None
    while True:
        carried = sight.carried(run_id)
        rung = None if carried is None else carried.bell.hear()
        standing = await sight.beside(lambda: sight.standing(run_id))
        if told is None:
            yield standing
            told = standing.status
        while page := await sight.beside(partial(_page, sight.journal, run_id, after)):
            for event in page:
                yield event
            after = page[-1].seq
        if standing.status != told:
            yield standing
            told = standing.status
        if standing.is_final and after >= standing.events:
            return
        await _wait(rung)


def _page(journal: Journal, run_id: str, after: int) -> list[Event]:
    return list(islice(journal.events(run_id, after, lenient=True), _PAGE))


async def _wait(rung: asyncio.Event | None) -> None:
    """Wait until something is written, or a while."""
    if rung is None:
        await asyncio.sleep(_POLL)
        return
    try:
        async with asyncio.timeout(_POLL):
            await rung.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_REST)
