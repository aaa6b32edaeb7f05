"""The journal: the append-only, hash-chained record of every run, committed before anything depends on it.

Nothing else stores the state of a run. Events are written by a run's one owner; everybody else only reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.lazy import names_of

if TYPE_CHECKING:
    from callsheet.store.chain import BadEvent
    from callsheet.store.errors import Fenced, JournalError, JournalWriteFailed, NotStorable, WrongProcess
    from callsheet.store.events import Event, EventType
    from callsheet.store.journal import Journal
    from callsheet.store.journal_paths import check_run_id, default_journal_path, new_run_id
    from callsheet.store.runs import RunInfo
    from callsheet.store.schema import Durability
    from callsheet.store.writer import RunStatus, RunWriter

_PLACES = {
    "callsheet.store.chain": "BadEvent",
    "callsheet.store.errors": "Fenced JournalError JournalWriteFailed NotStorable WrongProcess",
    "callsheet.store.events": "Event EventType",
    "callsheet.store.journal": "Journal",
    "callsheet.store.journal_paths": "check_run_id default_journal_path new_run_id",
    "callsheet.store.runs": "RunInfo",
    "callsheet.store.schema": "Durability",
    "callsheet.store.writer": "RunStatus RunWriter",
}

__all__ = [
    "BadEvent",
    "Durability",
    "Event",
    "EventType",
    "Fenced",
    "Journal",
    "JournalError",
    "JournalWriteFailed",
    "NotStorable",
    "RunInfo",
    "RunStatus",
    "RunWriter",
    "WrongProcess",
    "check_run_id",
    "default_journal_path",
    "new_run_id",
]

if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` reports no misspelled name
    __getattr__ = names_of(__name__, _PLACES)
