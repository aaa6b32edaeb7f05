"""Runs that undo another one: their ids, and which calls of that one they have taken back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.machine.keys import parse_key
from callsheet.store.events import EventType
from callsheet.store.journal import Journal
from callsheet.store.runs import RunInfo

UNDOES = "undoes"
"""The key in a run's start note for the run that it undoes."""
INVERSE = "undo_"
"""How the ids of its inverse calls begin, before the event of the call that is taken back."""


def undo_id(run_id: str, number: int) -> str:
    """The id of an undoing of a run, the first, second and so on.

    >>> undo_id("a1", 1), undo_id("a1", 2)
    ('undo-a1', 'undo-a1-2')
    """
    return f"undo-{run_id[:50]}{'' if number == 1 else f'-{number}'}"


def undoings(journal: Journal, run_id: str) -> Iterator[tuple[str, RunInfo | None]]:
    """The undoings of a run with their ids, in their order; last the free id of the next one.

    Raises JournalError if the first event of one cannot be read.
    """
    number = 1
    while journal.parts.reader.runs.has(name := undo_id(run_id, number)):
        number += 1
        if _undoes(journal, name) == run_id:  # otherwise somebody has called another run so
            yield name, journal.find_run(name)
    yield name, None


def taken_back(journal: Journal, run_id: str) -> frozenset[int]:
    """The events of the calls of a run that undoings have taken back, or may have."""
    found: set[int] = set()
    for name, info in undoings(journal, run_id):
        for row in () if info is None else journal.events(name):
            step = "" if row.key is None else parse_key(row.key).step
            if step.startswith(INVERSE):
                event = int(step.removeprefix(INVERSE))
                if row.type is EventType.INTENT:
                    found.add(event)
                elif row.type is EventType.ERR:
                    found.discard(event)
    return frozenset(found)


def _undoes(journal: Journal, name: str) -> object:
    first: Mapping[str, Any] = next(iter(journal.events(name))).body or {}
    launch: Mapping[str, Any] = first.get("launch") or {}
    return launch.get(UNDOES)
