"""The runs of a journal with their statuses as people are told them.

A run that is not finished, and that no process executes, is interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.machine import Outcome
from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.runs import RunInfo, RunNames, RunOutline
from callsheet.store.start import Start
from callsheet.store.writer import RunStatus

ENGINE = "engine"
"""The key in a run's launch data that describes the engine."""


def engine_of(journal: Journal, run_id: str) -> Mapping[str, Any] | None:
    """The description of the engine that executes a run; None if it is executed here."""
    start = next(iter(journal.events(run_id, lenient=True)), None)
    launch: Mapping[str, Any] = (start.body or {}).get("launch") or {} if start is not None else {}
    return launch.get(ENGINE)


def is_run_by_engine(start: Start) -> bool:
    """Whether an external engine executes a run with this start."""
    return ENGINE in start.launch


def check_here(journal: Journal, run_id: str) -> None:
    """Raise JournalError (TMP007) if an external engine executes the run, which alone can change it."""
    engine = engine_of(journal, run_id)
    if engine is not None:
        name = str(engine.get("name", "")).title()
        raise JournalError(
            "TMP007",
            f"run {run_id} is executed by {name}; this journal has a copy of it",
            hint="the commands resume, decide, approve and cancel send their request to the engine",
        )


INTERRUPTED = "interrupted"
"""The status shown for a run that is not finished and that no process executes."""


def shown_status(journal: Journal, info: RunInfo | RunOutline) -> str:
    """The status of a run as people are told it."""
    if info.status is not RunStatus.RUNNING or is_owned(place_of(journal.path), info.run_id):
        return str(info.status)
    return INTERRUPTED if engine_of(journal, info.run_id) is None else str(info.status)


def shown_outcome(info: RunInfo | RunOutline, shown: str) -> str:
    """What a run has come to: its `shown` status, unless it is done with failures."""
    return str(Outcome.DONE_WITH_FAILURES) if info.has_failures else shown


def found_runs(journal: Journal, status: str | None, limit: int | None) -> list[tuple[RunInfo, str]]:
    """At most so many runs, the newest first, each with its status; of a `status` only those.

    `done_with_failures` finds only such runs, `done` finds them too.
    """
    if status not in (RunStatus.RUNNING, INTERRUPTED):
        wanted: RunStatus | Outcome | None = None
        if status is not None:
            partial = status == Outcome.DONE_WITH_FAILURES
            wanted = Outcome.DONE_WITH_FAILURES if partial else RunStatus(status)
        return [(info, shown_status(journal, info)) for info in journal.runs(limit, wanted)]
    runs = ((info, shown_status(journal, info)) for info in journal.runs(None, RunStatus.RUNNING))
    return [(info, shown) for info, shown in runs if shown == status][:limit]


_OPEN = frozenset({"queued", INTERRUPTED, *(status for status in RunStatus if not status.is_final)})


def stored_statuses(status: str) -> tuple[RunStatus | Outcome, ...] | None:
    """The statuses that a run with this one, as people are told it, may have in the journal; None for any."""
    if status == Outcome.DONE_WITH_FAILURES:
        return (Outcome.DONE_WITH_FAILURES,)
    known = {str(each): each for each in RunStatus if each.is_final}
    if status in known:
        return (known[status],)
    if status in _OPEN and status != RunStatus.CORRUPT:  # an unknown status is told as corrupt
        return tuple(each for each in RunStatus if not each.is_final)
    return None


def plan_name(journal: Journal, info: RunInfo) -> str:
    """What a run's plan is called: its title or id, else the file it was read from, else its goal."""
    return run_names(journal, info).name


def run_names(journal: Journal, run: RunInfo | RunOutline) -> RunNames:
    """The name of a run and the goal of its plan; the hash of the plan stands for what cannot be read."""
    try:
        return journal.names(run)
    except JournalError:  # `show` reports the error
        return RunNames(f"plan {run.plan_hash[:12]}", None)
