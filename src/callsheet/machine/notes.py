"""The notes by which the machine tells an observer what happens to each step.

Notes carry no state: folding the same events again gives the same notes.
"""

from __future__ import annotations

from enum import StrEnum

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label
from callsheet.lazy import NamedTuple

REFUSED, ASKED = "would be refused: ", "would be asked: "
"""How the notes of a policy begin that only observes."""
IN_TURN = "its items run one after another"
"""How the note about a loop begins whose items are not told apart by what is declared of tools."""


class StepState(StrEnum):
    """How a step is."""

    EARLY = "early"
    """Its calls are under way before its turn."""
    RUNNING = "running"
    WAITING = "waiting for people"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SKIPPED = "skipped"

    @property
    def is_open(self) -> bool:
        """Whether its turn has come and it is under way."""
        return self is StepState.RUNNING or self is StepState.WAITING


class NoteKind(StrEnum):
    """What happened to a step; the table below says how people see it, and how the step is after it."""

    label: str
    """Its word on a line of progress; "" if it is not shown, or if the outcome of its step is the word."""
    state: StepState | None
    """How the step is after it, unless the note says more; None if that does not change."""
    is_remark: bool
    """Whether it only remarks on data of a call, or how that came about."""

    BEFORE = "before"
    """It was executed before the snapshot that the run was restored from."""
    EARLY = "early"
    """Its calls are issued before its turn; `started` follows in its turn."""
    STARTED = "started"
    SKIPPED = "skipped"
    SETTLED = "settled"
    """Its own calls are done, and other members of its group are not: it finishes with them."""
    FINISHED = "finished"
    FAILED = "failed"
    RETRYING = "retrying"
    TURN = "turn"
    """Within a turn-by-turn operation: what its model asks for, and the outcome."""
    JUMPED = "jumped"
    CAST_FAILED = "cast_failed"
    REPLANNED = "replanned"
    EDITED = "edited"
    """A person has set the variable `var` in a forked run; `step` is empty."""
    CUT = "cut"
    """An input or result of a call was shortened."""
    EMPTY = "empty"
    """A reference inside a text had no value."""
    FACT = "fact"
    """How an outcome was made."""
    OBSERVED = "observed"
    """What a policy that only observes would have refused or asked."""
    SAID = "said"
    """What a NOTE of the plan says."""
    ASKED = "asked"
    """A person is asked; the step waits for the answer."""
    ANSWERED = "answered"
    ENDED = "ended"

    @property
    def ends_visit(self) -> bool:
        """Whether a step's own calls, or those of one item, are done."""
        return self is NoteKind.SETTLED or self is NoteKind.FAILED or self is NoteKind.FINISHED


def _describe(
    kind: NoteKind, label: str = "", state: StepState | None = None, *, is_remark: bool = False
) -> None:
    kind.label, kind.state, kind.is_remark = label, state, is_remark


_describe(NoteKind.BEFORE, state=StepState.DONE)
_describe(NoteKind.EARLY, "early", StepState.EARLY)
_describe(NoteKind.STARTED, "started", StepState.RUNNING)
_describe(NoteKind.SKIPPED, state=StepState.SKIPPED)
_describe(NoteKind.SETTLED, state=StepState.DONE)
_describe(NoteKind.FINISHED, state=StepState.DONE)
_describe(NoteKind.FAILED, state=StepState.FAILED)
_describe(NoteKind.RETRYING, "retrying", StepState.RUNNING)
_describe(NoteKind.TURN, "working", StepState.RUNNING)
_describe(NoteKind.JUMPED, "goto")
_describe(NoteKind.CAST_FAILED, "warning")
_describe(NoteKind.REPLANNED, "new plan")
_describe(NoteKind.EDITED, "edited")
_describe(NoteKind.CUT, "warning", is_remark=True)
_describe(NoteKind.EMPTY, "warning", is_remark=True)
_describe(NoteKind.FACT, is_remark=True)
_describe(NoteKind.OBSERVED, "observed")
_describe(NoteKind.SAID, "note")
_describe(NoteKind.ASKED, "asks", StepState.WAITING)
_describe(NoteKind.ANSWERED, "answer", StepState.RUNNING)
_describe(NoteKind.ENDED)


class StepOutcome(StrEnum):
    """The outcome of a step."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """A limit ended the run within the step, or what happened beside it ended the step."""


class CallPlace(NamedTuple):
    """Which call of a step it is: the item of a FOREACH and the attempt, both from 1, and how many there are.

    `item` is 0 outside of a FOREACH; `items` is 0 there too, and where it is unknown. `attempts` is 1 for a
    step without retries. A FOREACH that starts has `items` alone.
    """

    item: int = 0
    items: int = 0
    attempt: int = 1
    attempts: int = 1

    def describe(self) -> str:
        """The place in words, "" if the step has only one call.

        >>> CallPlace(3, 50, 2, 4).describe(), CallPlace(attempt=2, attempts=4).describe()
        ('item 3 of 50, attempt 2 of 4', 'attempt 2 of 4')
        """
        if not self.item and self.items:
            return f"{self.items:,} item{'' if self.items == 1 else 's'}"
        of_all = f" of {self.items:,}" if self.items else ""
        item = f"item {self.item:,}{of_all}" if self.item else ""
        attempt = f"attempt {self.attempt} of {self.attempts}" if self.attempts > 1 else ""
        return ", ".join(filter(None, (item, attempt)))


class CallEnd(NamedTuple):
    """The key of a call that a session's client made and that is over; `why` it failed, "" if it has not.

    `seen` is the label of all that the client has read by then.
    """

    key: str
    why: str = ""
    seen: Label = LITERAL


class Note(NamedTuple):
    """One thing that happened.

    `detail` says why or where to, in words; `value` is the result of a finished step and `var` the variable
    that it was stored in. A finished step with a detail was stopped, for this reason, or `is_unused`: see
    `outcome`.
    `at` says which call of its step a note is about, None if there is only one.
    """

    kind: NoteKind
    step: str
    detail: str = ""
    var: str | None = None
    value: JSON = None
    is_secret: bool = False
    """Whether it contains secret data, by the labels of a policy."""
    is_failure: bool = False
    """Whether a finished step has failed: a loop whose ON_FAIL ended the run or led elsewhere."""
    at: CallPlace | None = None
    ended: CallEnd | None = None
    """The call of a session that is over with this note."""
    is_unused: bool = False
    """Whether the result of a finished step is not used, as it came when its task had ended."""

    @property
    def outcome(self) -> StepOutcome | None:
        """The outcome of a step that ends with this note; None for other notes.

        A loop may finish with the results so far and yet not be OK. The note of an item that failed is
        followed by that of its loop, which counts.
        """
        if self.kind is NoteKind.SETTLED:
            return None
        if self.is_failure:
            return StepOutcome.FAILED
        if self.kind is NoteKind.FINISHED and self.detail and not self.is_unused:
            return StepOutcome.STOPPED
        return _OUTCOMES.get(self.kind)

    @property
    def is_of_item(self) -> bool:
        """Whether it is about one item of a FOREACH."""
        return self.at is not None and self.at.item > 0

    @property
    def state(self) -> StepState | None:
        """How its step is after it; None if that does not change, as when one item of a loop fails."""
        if self.kind is NoteKind.FAILED and self.is_of_item:
            return None
        if self.is_failure:
            return StepState.FAILED
        return StepState.STOPPED if self.outcome is StepOutcome.STOPPED else self.kind.state


_OUTCOMES = {
    NoteKind.FINISHED: StepOutcome.OK,
    NoteKind.FAILED: StepOutcome.FAILED,
    NoteKind.SKIPPED: StepOutcome.SKIPPED,
}
