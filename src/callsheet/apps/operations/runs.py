"""The runs of a journal as rows of a list, with the status shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.apps.operations.outcomes import doubt_json
from callsheet.apps.rendering.values import iso

if TYPE_CHECKING:
    from callsheet.machine import Outcome
    from callsheet.runtime.doubt import DoubtfulCall
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo, RunNames, RunOutline
    from callsheet.store.writer import RunStatus

STATUSES = [
    "running",
    "interrupted",
    "waiting",
    "in_doubt",
    "done",
    "done_with_failures",
    "failed",
    "refused",
    "cancelled",
    "corrupt",
]
"""The statuses that are shown for runs, and that lists can be filtered by."""
INTERRUPTED = "interrupted"
"""The status shown for a run that has not ended and that no process is running."""


def run_row(journal: Journal, info: RunInfo, shown: str) -> dict[str, Any]:
    """A run as a row of a list; `shown` is its status as shown to people."""
    return {
        "run_id": info.run_id,
        "status": shown,
        "outcome": shown_outcome(info, shown),
        "plan": plan_name(journal, info),
        "plan_hash": info.plan_hash,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "events": info.events,
        "parent": None if info.forked_at is None else info.parent_run,
        "forked_at": info.forked_at,
        "in_doubt": [doubt_json(call) for call in _doubts(journal, info, shown)],
    }


def _doubts(journal: Journal, info: RunInfo, shown: str) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of a run that no process is running; none if its events cannot be read."""
    if shown not in (INTERRUPTED, "in_doubt"):
        return ()
    from callsheet.runtime.inbox import doubts_of  # noqa: PLC0415 - only for such runs

    return doubts_of(journal, info.run_id)


def shown_status(journal: Journal, info: RunInfo | RunOutline) -> str:
    """The status of a run as shown to people."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.shown_status(journal, info)


def shown_outcome(info: RunInfo | RunOutline, shown: str) -> str:
    """What a run has come to: its `shown` status, unless it is done with failures."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.shown_outcome(info, shown)


def plan_name(journal: Journal, info: RunInfo) -> str:
    """The name of a run's plan: its title or id, else the file it was read from, else its goal."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.plan_name(journal, info)


def found_runs(journal: Journal, status: str | None, limit: int) -> list[tuple[RunInfo, str]]:
    """At most `limit` runs, newest first, each with its status; with `status`, only such runs."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.found_runs(journal, status, limit)


def run_names(journal: Journal, run: RunInfo | RunOutline) -> RunNames:
    """The name of a run and the goal of its plan, as it is searched by them."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.run_names(journal, run)


def stored_statuses(status: str) -> tuple[RunStatus | Outcome, ...] | None:
    """The statuses that a run with this one, as people are told it, may have in the journal; None for any."""
    from callsheet.store import listing  # noqa: PLC0415 - brings sqlite3

    return listing.stored_statuses(status)
