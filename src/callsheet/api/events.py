"""What a run tells as it goes: typed, immutable events, numbered from 1 without a gap.

A step that runs is told of by `StepStarted`, then any number of `StepRetrying` (and a
`StepFailed` for each call that fails for good), then `StepFinished`, unless it failed and is no
FOREACH. A step whose guard does not hold is told of by `StepSkipped` alone. `RunEnded` is the
last event of a run that ended, fell into doubt or waits for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from callsheet.api.result import RunResult
from callsheet.ir import JSON
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.sealing.veiled import Veiled


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Event(Veiled):
    """What all events have. Their `repr` shows no secret; the values are as they are.

    `replayed` is True for what happened before a resumed run went on: it is told again from the
    journal, and so is what follows at once from the decision on calls in doubt.
    """

    run_id: str
    number: int
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _StepEvent(_Event):
    """What all events of a step have: its id, and what it does (`@FETCH_PAGE`, `GOTO`)."""

    step: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepStarted(_StepEvent):
    """A step begins; a FOREACH once for all its items."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepSkipped(_StepEvent):
    """A step does nothing this time; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepFinished(_StepEvent):
    """A step has its result; `variable` (without `$`) took it, None if the step names none.

    `value` is a copy: it may be changed without changing the run.
    """

    variable: str | None
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepRetrying(_StepEvent):
    """A call failed with `error` and is made again after a wait."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepTurned(_StepEvent):
    """Within an agent, or a refinement: `text` says what its model asked for in a turn, and what failed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepFailed(_StepEvent):
    """A call failed for good."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepDiverted(_StepEvent):
    """The run goes on at the step `target`: a GOTO, or a failure that leads there."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CastFailed(_StepEvent):
    """A result does not fit the type of its variable and stays as it was."""

    reason: str
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepRemarked(_StepEvent):
    """Something to know of a step: that something was cut on the way, how its result was made, or that its
    calls leave before its turn."""

    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Replanned(_StepEvent):
    """The run goes on with a new plan; `detail` says how large it is."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VariableEdited(_Event):
    """A run that was forked has a variable that somebody has set; `value` is a copy."""

    variable: str
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CallInDoubt(_StepEvent):
    """A call left and gave no answer; the run waits until it is decided what becomes of it."""

    call: DoubtfulCall


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonAsked(_StepEvent):
    """A person is asked: a step's question, or whether a call may be made. `text` is it in words.

    `Runtime.inbox` has all of it.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonAnswered(_StepEvent):
    """The answer has come, or its time is over; `text` says which and by whom."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunEnded(_Event):
    """The run has its result, and the journal holds it; or it waits for a decision."""

    result: RunResult


RunEvent: TypeAlias = (
    StepStarted
    | StepSkipped
    | StepFinished
    | StepRetrying
    | StepTurned
    | StepFailed
    | StepDiverted
    | CastFailed
    | StepRemarked
    | Replanned
    | VariableEdited
    | CallInDoubt
    | PersonAsked
    | PersonAnswered
    | RunEnded
)
"""Everything that a run tells."""
