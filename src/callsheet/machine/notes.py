"""What the machine tells an observer beside its commands: the story of each step.

Notes carry no state: folding the same events again gives the same notes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import JSON


class NoteKind(StrEnum):
    """What happened to a step."""

    BEFORE = "before"
    """It was executed in a part of the run that is not told again."""
    EARLY = "early"
    """Its calls leave before its turn; `started` follows in its turn."""
    STARTED = "started"
    SKIPPED = "skipped"
    FINISHED = "finished"
    FAILED = "failed"
    RETRYING = "retrying"
    TURN = "turn"
    """Within an operation that goes turn by turn: what its model asks for, and what came of it."""
    JUMPED = "jumped"
    CAST_FAILED = "cast_failed"
    REPLANNED = "replanned"
    EDITED = "edited"
    """Somebody has set the variable `var`, in a run that was forked; it is of no step."""
    CUT = "cut"
    """Something that went into a call or came out of it is shorter than it was."""
    FACT = "fact"
    """How an outcome was made."""
    ASKED = "asked"
    """A person is asked; the step waits for the answer."""
    ANSWERED = "answered"
    ENDED = "ended"


class Note(NamedTuple):
    """One thing that happened.

    `detail` says why or where to, in words; `value` is the result of a finished step and `var`
    the variable that took it. A finished step with a detail is a loop that a limit cut off, for this reason.
    """

    kind: NoteKind
    step: str
    detail: str = ""
    var: str | None = None
    value: JSON = None
    is_secret: bool = False
    """Whether nobody may read what it tells, by the labels of a policy."""

    @property
    def is_cut_off(self) -> bool:
        """Whether the step has ended with the items that it had done, for a limit let no others begin."""
        return self.kind is NoteKind.FINISHED and bool(self.detail)
