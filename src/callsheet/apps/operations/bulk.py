"""One action on many runs: those that a filter finds, or that were picked; first a preview, then the deed.

In: a journal, the runs, an action. Out: the runs that it can be done to, and for the others why not.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypedDict, assert_never

from callsheet.apps.operations.schema import Count
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunFilter, RunInfo, RunOutline

MOST_AT_ONCE = 1_000
"""The most runs of one action; for more it is repeated."""
STILL_UNDER_WAY = "calls are still under way; it makes no other, and is paused when they have ended"
"""Why a run is not paused yet."""


class BulkAction(StrEnum):
    """What can be done to many runs."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    """Let a paused run go on."""
    RERUN = "rerun"
    """Run again from the step that it failed at, else from the beginning, as a new run."""
    DELETE = "delete"


class Target(NamedTuple):
    """A run that something is done to; `step` is where it is run again from."""

    run_id: str
    outcome: str
    step: str


class Skipped(NamedTuple):
    """A run that nothing is done to, and why."""

    run_id: str
    why: str


class Selection(NamedTuple):
    """The runs of an action, and those that it cannot be done to; `more` says that others follow."""

    targets: tuple[Target, ...]
    skipped: tuple[Skipped, ...]
    more: bool


class TargetRow(TypedDict):
    """A run that the action is for."""

    run_id: str
    outcome: str
    step: Annotated[str, "for rerun: the step that it begins with"]


class SkippedRow(TypedDict):
    """A run that nothing was done to."""

    run_id: str
    why: str


class BulkRow(TypedDict):
    """An action on many runs, and what came of it."""

    action: Literal["cancel", "pause", "resume", "rerun", "delete"]
    runs: list[TargetRow]
    skipped: list[SkippedRow]
    more: Annotated[bool, "whether more runs fit: at most 1,000 are taken at once"]
    done: Annotated[Count, "the number of runs that it was done to"]
    new_runs: Annotated[list[str], "for rerun: the ids of the new runs"]


def bulk_row(action: BulkAction, chosen: Selection, done: int, new_runs: list[str]) -> BulkRow:
    """An action on many runs as data."""
    return {
        "action": action.value,
        "runs": [
            TargetRow(run_id=each.run_id, outcome=each.outcome, step=each.step) for each in chosen.targets
        ],
        "skipped": [{"run_id": each.run_id, "why": each.why} for each in chosen.skipped],
        "more": chosen.more,
        "done": done,
        "new_runs": new_runs,
    }


def selected_for(
    journal: Journal,
    action: BulkAction,
    which: RunFilter | list[str],
    told: Callable[[RunInfo | RunOutline], str] | None = None,
    most: int = MOST_AT_ONCE,
) -> Selection:
    """The runs that an action is for: those that fit a filter, or those with these ids.

    Raises JournalError (JRN002) for an id that there is not.
    """
    from callsheet.store.listing import (  # noqa: PLC0415 - brings sqlite3
        RunQuery,
        listed_runs,
        shown_outcome,
        shown_status,
    )

    if isinstance(which, list):
        runs = [journal.find_run(run_id) for run_id in dict.fromkeys(which)]
        found = [(info, told(info) if told else shown_status(journal, info)) for info in runs]
    else:
        found = listed_runs(journal, RunQuery(which, limit=most + 1), told)
    targets, skipped = list[Target](), list[Skipped]()
    for info, status in found[:most]:
        why, step = _why_not(action, info), ""
        if not why and action is BulkAction.RERUN:
            try:
                step = _rerun_from(journal, info)
            except CallsheetError as error:
                why = reason_in(error)
        if why:
            skipped.append(Skipped(info.run_id, why))
        else:
            targets.append(Target(info.run_id, shown_outcome(info, status), step))
    return Selection(tuple(targets), tuple(skipped), len(found) > most)


def _why_not(action: BulkAction, info: RunInfo) -> str:
    from callsheet.store import RunStatus  # noqa: PLC0415 - brings sqlite3

    has_ended, is_paused = info.status.is_final, info.status is RunStatus.PAUSED
    match action:
        case BulkAction.CANCEL:
            return "it has ended" if has_ended else ""
        case BulkAction.PAUSE:
            return "it has ended" if has_ended else "it is paused already" if is_paused else ""
        case BulkAction.RESUME:
            return "" if is_paused else "it is not paused"
        case BulkAction.RERUN | BulkAction.DELETE:
            return "" if has_ended else "it has not ended"
    assert_never(action)


def _rerun_from(journal: Journal, info: RunInfo) -> str:
    """The step or place that it failed at, if it is one of the run's plan; else the plan's first step.

    Raises CallsheetError (API030) for a plan without any, and if the plan cannot be read.
    """
    from callsheet.ir.tree import all_statements  # noqa: PLC0415 - only for this action
    from callsheet.store.kept_calls import segments_of  # noqa: PLC0415 - as above

    plan, failed = journal.plan_of(info.plan_hash), info.failed_step
    if plan.tree is None:
        first = [step.id for step in plan.steps]
        known = failed in first
    else:
        first = [statement.id for statement in plan.tree.body]
        ids = {statement.id for statement in all_statements(plan.tree)}
        parts = segments_of(failed or "")
        known = parts is not None and all(each.id in ids for each in parts)
    if failed is not None and known:
        return failed
    if not first:
        raise CallsheetError.single("API030", "its plan has no step to run again from")
    return first[0]


def reason_in(error: CallsheetError) -> str:
    """Why something could not be done to one of many runs, and how to do it to a run of another engine."""
    first = error.diagnostics[0]
    return f"{first.message} ({first.help})" if first.code == "TMP007" else first.message
