"""How a run ended: its status, answer, variables and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from callsheet.ir import JSON
from callsheet.machine.budget import Refusal
from callsheet.machine.monitor.refusal import PolicyRefusal
from callsheet.machine.usage import Usage


class Status(StrEnum):
    """The end of a run."""

    DONE = "done"
    """The plan came to its end, by an answer, a TERMINATE or its last step."""
    FAILED = "failed"
    """A failure ended it: ON_FAIL TERMINATE, a budget, a jump to nowhere, a refused re-plan."""
    REFUSED = "refused"
    """The policy of the run refused what it was about to do."""
    CANCELLED = "cancelled"
    """Somebody ended it."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended.

    `response` is the answer or the message; `terminated` says that TERMINATE (or a bound that
    stands for it) ended the plan; `error` says what failed, where something did.
    """

    status: Status
    response: str
    variables: dict[str, JSON]
    steps_executed: int
    terminated: bool = False
    error: str | None = None
    ended_at: str | None = None
    """The step at which the run ended."""
    refusal: Refusal | None = None
    """The limit that the run would have gone over, where one ended it."""
    objection: PolicyRefusal | None = None
    """What the policy refused, where that ended the run."""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)
    """What the run has used: no part of what it led to, so that equal results are equal."""
    secret: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """The variables that nobody may read, by the labels of a policy."""

    def timed(self, seconds: float) -> Result:
        """The result of a run that has taken so long."""
        return Result(
            self.status,
            self.response,
            self.variables,
            self.steps_executed,
            self.terminated,
            self.error,
            self.ended_at,
            self.refusal,
            self.objection,
            self.usage._replace(seconds=seconds),
            self.secret,
        )
