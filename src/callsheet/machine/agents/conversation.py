"""The data types of an agent's conversation: its turns so far, which go into the next question."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import JSON


class CallOutcome(StrEnum):
    """The outcome of a call that an answer asked for."""

    OK = "ok"
    FAILED = "failed"
    LOST = "lost"
    """It failed but may have had its effect: the same call again is another delivery of it."""
    REFUSED = "refused"
    """It was not made, because it is not allowed or a person denied it."""


class ObservedCall(NamedTuple):
    """A call that an answer asked for, and what the model sees of it: the result, or why there is none.

    `key` is that of the call, or of its first delivery; "" if no call was made.
    """

    tool: str
    args: Mapping[str, JSON]
    value: JSON
    outcome: CallOutcome = CallOutcome.OK
    key: str = ""


class Turn(NamedTuple):
    """One turn: the model's answer, and what it led to; `fault` says why it was no action."""

    answer: JSON
    seen: tuple[ObservedCall, ...] = ()
    fault: str = ""
