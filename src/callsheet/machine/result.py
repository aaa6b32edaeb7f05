"""How a run ended: its status, answer, variables and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

from callsheet.ir import JSON
from callsheet.lazy import dataclass
from callsheet.machine.budget import Refusal
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


class Outcome(StrEnum):
    """What a run has come to, as every interface shows it: its status, with failures told apart.

    A run has failures if it is done and a step failed on the way without anything that handles it: the plan
    just went on, or another member of its group led elsewhere. An attempt that is repeated and succeeds is no
    failure, nor is one that ON_FAIL handles, by GOTO or TERMINATE.
    """

    DONE = "done"
    DONE_WITH_FAILURES = "done_with_failures"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    WAITING = "waiting"
    IN_DOUBT = "in_doubt"
    RUNNING = "running"

    @classmethod
    def of(cls, status: str, *, has_failures: bool) -> Outcome:
        """The outcome of a run with this status."""
        return cls.DONE_WITH_FAILURES if has_failures and status == Status.DONE else cls(status)

    @property
    def words(self) -> str:
        """The outcome as people read it.

        >>> Outcome.DONE_WITH_FAILURES.words
        'done with failures'
        """
        return self.value.replace("_", " ")


class PolicyRefusal(NamedTuple):
    """What a policy refused during a run.

    `rule` is one of `policy.calls.Rule`; `argument` is the name of the offending argument, None if it is the
    call as a whole. `label` is that of the argument, or of all arguments; `decided_by` is the label of what
    decided that the call is made. `flow` are the steps that the data came from, then the step itself. `help`
    is the suggested fix, if one is known.
    """

    step: str
    tool: str
    rule: str
    message: str
    argument: str | None = None
    label: str = ""
    decided_by: str = ""
    flow: tuple[str, ...] = ()
    help: str | None = None

    def describe(self) -> str:
        """The refusal in one line.

        >>> PolicyRefusal("S4", "SEND", "flow", "private data would reach the outside").describe()
        'the policy refuses S4 @SEND: private data would reach the outside'
        """
        return f"the policy refuses {self.step} @{self.tool}: {self.message}"

    def explain(self) -> str:
        """The refusal of one call of a session: the rule, where its data came from, and the way out.

        >>> PolicyRefusal("SEND", "SEND", "flow", "private data would leave", flow=("READ", "SEND")).explain()
        'the policy refuses @SEND: private data would leave (rule flow; flow @READ -> @SEND)'
        """
        flow = " -> ".join(f"@{tool}" for tool in self.flow)
        text = f"the policy refuses @{self.tool}: {self.message} (rule {self.rule}; flow {flow})"
        return f"{text}; help: {self.help}" if self.help else text

    def reason(self) -> str:
        """What is refused and why, without saying that it was.

        >>> PolicyRefusal("S4", "SEND", "flow", "private data would leave", flow=("S1", "S4")).reason()
        '@SEND: private data would leave (rule flow; flow S1 -> S4)'
        """
        return f"@{self.tool}: {self.message} (rule {self.rule}; flow {' -> '.join(self.flow)})"

    def to_json(self) -> dict[str, Any]:
        """The refusal as JSON data."""
        return {**self._asdict(), "flow": list(self.flow)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PolicyRefusal:
        """The refusal from JSON data; raises TypeError or KeyError if it is malformed."""
        given = {**data}
        return cls(flow=tuple(given.pop("flow")), **given)


class RefusedByPolicy(Exception):
    """Unwinds the machine to `Machine.feed`, which ends the run; no part of a plan can catch it."""

    def __init__(self, refusal: PolicyRefusal) -> None:
        super().__init__(refusal.describe())
        self.refusal = refusal


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
    failed_steps: tuple[str, ...] = ()
    """The steps that failed in some visit, or of which an item failed, without anything that handles it.

    Handled is a failure that ends the plan or leads elsewhere by ON_FAIL. In the order in which they failed;
    in a graph, all steps that failed; after a RE-PLAN, steps of the last plan.
    """
    answer: JSON = None
    """The answer of a plan of version 2 as data; `response` is it as text."""

    @property
    def outcome(self) -> Outcome:
        """How the run ended, with failures that the plan went past."""
        return Outcome.of(self.status, has_failures=bool(self.failed_steps))

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
            self.failed_steps,
            self.answer,
        )


class _Unfinished(Result):
    """A result whose fields are still set, which takes a tenth of the time here."""

    __slots__ = ()
    __setattr__, __delattr__ = object.__setattr__, object.__delattr__


def result_of(
    end: tuple[Status, str, bool, str | None, str | None, Refusal | None, JSON],
    variables: dict[str, JSON],
    steps_executed: int,
    objection: PolicyRefusal | None,
    usage: Usage,
    secret: frozenset[str],
    failed_steps: tuple[str, ...],
) -> Result:
    """The result of a run that has ended so; every run makes one, and of a short run that is felt."""
    result: Any = _new(_Unfinished)
    # fmt: off
    (result.status, result.response, result.terminated, result.error, result.ended_at, result.refusal,
     result.answer) = end
    # fmt: on
    result.variables = variables
    result.steps_executed = steps_executed
    result.objection = objection
    result.usage = usage
    result.secret = secret
    result.failed_steps = failed_steps
    result.__class__ = Result
    return result


_new = object.__new__
