"""The journal: the append-only, hash-chained record of every run, committed before anything depends on it.

Nothing else stores the state of a run. Events are written by a run's one owner; everybody else only reads.
"""

from callsheet.store.chain import BadEvent
from callsheet.store.errors import Fenced, JournalError, JournalWriteFailed, NotStorable, WrongProcess
from callsheet.store.events import Event, EventType
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import check_run_id, default_journal_path, new_run_id
from callsheet.store.runs import RunInfo
from callsheet.store.schema import Durability
from callsheet.store.writer import RunStatus, RunWriter

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
