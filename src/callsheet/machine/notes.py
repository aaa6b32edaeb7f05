"""The notes by which the machine tells an observer what happens to each step.

Notes carry no state: folding the same events again gives the same notes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import JSON


class NoteKind(StrEnum):
    """What happened to a step."""

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
    ASKED = "asked"
    """A person is asked; the step waits for the answer."""
    ANSWERED = "answered"
    ENDED = "ended"

    @property
    def ends_visit(self) -> bool:
        """Whether a step's own calls, or those of one item, are done."""
        return self in _ENDS_VISIT


_ENDS_VISIT = frozenset({NoteKind.SETTLED, NoteKind.FAILED, NoteKind.FINISHED})


class StepOutcome(StrEnum):
    """The outcome of a step."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    STOPPED = "stopped"
    """A limit ended the run within the step."""


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


class Note(NamedTuple):
    """One thing that happened.

    `detail` says why or where to, in words; `value` is the result of a finished step and `var` the variable
    that it was stored in. A finished step with a detail has ended the run, for this reason: see `outcome`.
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
        if self.kind is NoteKind.FINISHED and self.detail:
            return StepOutcome.STOPPED
        return _OUTCOMES.get(self.kind)


_OUTCOMES = {
    NoteKind.FINISHED: StepOutcome.OK,
    NoteKind.FAILED: StepOutcome.FAILED,
    NoteKind.SKIPPED: StepOutcome.SKIPPED,
}
