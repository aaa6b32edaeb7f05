"""What has come of a run as data: its result or what it waits for, and the answers of cancel, pause, decide.

In: the outcome of a run. Out: JSON data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast

from callsheet.apps.operations.runs import (
    INTERRUPTED,
    PAUSED,
    AskRow,
    DoubtRow,
    FailedSteps,
    OutcomeWord,
    PausedBy,
    StatusWord,
    asks_json,
    doubt_json,
    pause_json,
)
from callsheet.apps.operations.schema import Count, DiagnosticRow, Object

if TYPE_CHECKING:
    from callsheet.runtime.doubt import DoubtfulCall, RunOutcome


class OutcomeResult(TypedDict):
    """What has come of a run."""

    run_id: str | None
    status: StatusWord
    outcome: OutcomeWord
    response: Annotated[str | None, "the answer of the plan"]
    answer: Annotated[Any, "the answer of a plan of version 2 as data; `response` is it as text"]
    variables: Object | None
    steps_executed: Count | None
    terminated: bool | None
    error: str | None
    ended_at: Annotated[str | None, "the id of a step"]
    failed_steps: FailedSteps
    refusal: Annotated[Object | None, "the exceeded limit"]
    objection: Annotated[Object | None, "the call that the policy refused"]
    usage: Object
    replanned: bool
    in_doubt: list[DoubtRow]
    waiting: list[AskRow]
    unanswered: list[DoubtRow]
    pause: PausedBy
    journal: str | None
    diagnostics: list[DiagnosticRow]


class PausedResult(TypedDict):
    """A run that was paused; while its process awaits the calls under way, `pause` is null."""

    run_id: str
    status: StatusWord
    pause: PausedBy


class CallsInDoubt(TypedDict):
    """The status of a run, with its calls in doubt."""

    run_id: str
    status: StatusWord
    in_doubt: list[DoubtRow]


def status_of(outcome: RunOutcome) -> str:
    """The status of a run with this outcome, as people are told it."""
    if outcome.result is not None:
        return str(outcome.result.status)
    if outcome.pause is not None:
        return PAUSED
    return "in_doubt" if outcome.in_doubt else "waiting" if outcome.waiting else INTERRUPTED


def outcome_json(
    outcome: RunOutcome, journal: Path | None, diagnostics: Sequence[Mapping[str, object]] = ()
) -> OutcomeResult:
    """The state of a run as data; `journal` is None if nothing was recorded.

    `diagnostics` are the warnings as JSON objects.
    """
    result = outcome.result
    variables = outcome.variables if result is None else result.variables
    return {
        "run_id": outcome.run_id if journal is not None else None,
        "status": status_of(outcome),
        "outcome": status_of(outcome) if result is None else str(result.outcome),
        "response": None if result is None else result.response,
        "answer": None if result is None else result.answer,
        "variables": variables if variables is None else dict(variables),
        "steps_executed": None if result is None else result.steps_executed,
        "terminated": None if result is None else result.terminated,
        "error": None if result is None else result.error,
        "ended_at": None if result is None else result.ended_at,
        "failed_steps": None if result is None else list(result.failed_steps),
        "refusal": None if result is None or result.refusal is None else result.refusal._asdict(),
        "objection": None if result is None or result.objection is None else result.objection.to_json(),
        "usage": outcome.usage.to_json(),
        "replanned": outcome.usage.replans > 0,
        "in_doubt": [doubt_json(call) for call in outcome.in_doubt],
        "waiting": asks_json(outcome.waiting),
        "unanswered": [doubt_json(call) for call in outcome.unanswered],
        "pause": pause_json(outcome.pause),
        "journal": None if journal is None else str(journal),
        "diagnostics": cast("list[DiagnosticRow]", list(diagnostics)),
    }


def doubts_json(run_id: str, status: str, calls: Sequence[DoubtfulCall]) -> CallsInDoubt:
    """A run with its calls in doubt, as data."""
    return {"run_id": run_id, "status": status, "in_doubt": [doubt_json(call) for call in calls]}
