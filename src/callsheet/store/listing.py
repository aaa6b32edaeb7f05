"""The runs of a journal with their statuses as people are told them.

A run that is not finished, and that no process executes, is interrupted.
"""

from __future__ import annotations

from typing import Any

from callsheet.machine import Outcome
from callsheet.store.external_runs import engine_of
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import place_of
from callsheet.store.ownership import is_owned
from callsheet.store.runs import RunInfo
from callsheet.store.writer import RunStatus

INTERRUPTED = "interrupted"
"""The status shown for a run that is not finished and that no process executes."""


def shown_status(journal: Journal, info: RunInfo) -> str:
    """The status of a run as people are told it."""
    if info.status is not RunStatus.RUNNING or is_owned(place_of(journal.path), info.run_id):
        return str(info.status)
    return INTERRUPTED if engine_of(journal, info.run_id) is None else str(info.status)


def shown_outcome(info: RunInfo, shown: str) -> str:
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


def plan_name(journal: Journal, info: RunInfo) -> str:
    """What a run's plan is called: its title or id, else the file it was read from."""
    return info.title or info.plan_id or _launched(journal, info).get("plan") or info.plan_hash[:12]


def _launched(journal: Journal, info: RunInfo) -> dict[str, Any]:
    """What the face that started the run noted."""
    start = next(iter(journal.events(info.run_id, lenient=True)), None)
    return {} if start is None or start.body is None else dict(start.body.get("launch") or {})
