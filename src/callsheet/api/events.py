"""The events of a run: typed, immutable, numbered from 1 without gaps.

A step that runs emits `StepStarted`, then any number of `StepRetrying` (and a `StepFailed` for each call
that fails for good), then `StepFinished`, unless it failed and is not a FOREACH. A FOREACH goes on after an
item failed; its `StepFinished` has `failed` only if its ON_FAIL ended the plan or led elsewhere. A step whose
guard does not hold emits only `StepSkipped`. `RunEnded` is the last event of a run that ended, is in doubt or
waits for people.
"""

from __future__ import annotations

from typing import TypeAlias

from callsheet.api.result import RunResult
from callsheet.ir import JSON
from callsheet.lazy import dataclass
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.sealing.masking import MaskedRepr


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _Event(MaskedRepr):
    """The fields of all events. `repr` masks secrets; the values themselves are unchanged.

    `replayed` is True for what happened before a run was resumed: it is emitted again from the journal, as
    is what follows directly from the decision on calls in doubt.
    """

    run_id: str
    number: int
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _StepEvent(_Event):
    """The fields of all events of a step: its id, and its action (`@FETCH_PAGE`, `GOTO`)."""

    step: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepStarted(_StepEvent):
    """A step has started; a FOREACH emits this once for all its items."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepSkipped(_StepEvent):
    """A step was skipped; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepFinished(_StepEvent):
    """A step has finished with the result `value`.

    `variable` is the one that it was assigned to, without `$`; None if the step names none. `value` is a
    copy: changing it does not change the run. `failed` is True for a FOREACH that an item's failure ended, by
    its ON_FAIL; `value` is then what it has up to that item. `unused` is why the result is not used, "" if it
    is: it came too late. `stopped` is why the step ended before it had a result, "" if it had one.
    """

    variable: str | None
    value: JSON
    failed: bool = False
    unused: str = ""
    stopped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _CallFailed(_StepEvent):
    """The fields of events about a failed call: `item` is its item in a FOREACH, from 0, None elsewhere."""

    error: str
    item: int | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepRetrying(_CallFailed):
    """A call failed with `error` and will be retried; `attempt` is the number of the next attempt, from 2."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepTurned(_StepEvent):
    """A turn of an agent or a refinement: `text` says what its model asked for, and what failed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepFailed(_CallFailed):
    """A call failed for good, in the attempt with the number `attempt`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepDiverted(_StepEvent):
    """The run continues at the step `target`, after a GOTO or a failure that jumps there."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CastFailed(_StepEvent):
    """A result could not be converted to the declared type of its variable, and was kept unconverted."""

    reason: str
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StepRemarked(_StepEvent):
    """A remark about a step: data was cut (`is_cut`), how its result was made, or that it is called ahead."""

    text: str
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Replanned(_StepEvent):
    """The run continues with a new plan; `detail` says how large it is."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VariableEdited(_Event):
    """A variable that was edited when the run was forked; `value` is a copy."""

    variable: str
    value: JSON


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CallInDoubt(_StepEvent):
    """A call was sent and no answer came; the run waits for a decision about it."""

    call: DoubtfulCall


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonAsked(_StepEvent):
    """A person is asked a step's question, or to approve a call. `text` is the question in words.

    `Runtime.inbox` lists it in full.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PersonAnswered(_StepEvent):
    """A question was answered or timed out; `text` says which, and who answered."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunEnded(_Event):
    """The run has ended and its result is in the journal; or it waits for a decision or for people."""

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
"""Any event of a run."""
