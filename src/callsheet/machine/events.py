"""What a driver tells the machine: outcomes by key, fired timers, decisions, new plans."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON, Plan
from callsheet.ir.labels import Label
from callsheet.machine.limits import Limits
from callsheet.machine.program import ToolFacts
from callsheet.machine.remarks import Remark
from callsheet.machine.usage import Spent
from callsheet.policy.model import Policy


class Started(NamedTuple):
    """The run begins, with these variables set."""

    inputs: Mapping[str, JSON]


class Succeeded(NamedTuple):
    """The call of this key gave a value.

    `remarks` say what is to be known beside it, `spent` what it took, where that is known. `label` is that of
    the value where the world knows more of it than the policy says, as of a file that an earlier run wrote.
    `review` says why a person has to say yes to the value before it counts; "" where nobody has to.
    """

    key: str
    value: JSON
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    label: Label | None = None
    review: str = ""


class Failed(NamedTuple):
    """The call of this key failed, or the compilation did.

    `unsettled` says that the call may have had its effect all the same: a further attempt is
    then another delivery of it, under the same idempotency key. `final` says that it had its effect, and
    that its result cannot be had: no further attempt is made. `forbidden` is the rule of the policy of
    the run that does not let it leave, by what is known of the world: the run ends there, whatever its plan
    says.
    """

    key: str
    error: str
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    unsettled: bool = False
    final: bool = False
    forbidden: str = ""


class TimerFired(NamedTuple):
    """The wait of this key is over."""

    key: str


class PlanCompiled(NamedTuple):
    """The new plan for a RE-PLAN, checked, with the facts about the tools it calls.

    `context` is the label of all data that its planner was shown; None where that is not known.
    """

    key: str
    plan: Plan
    facts: Mapping[str, ToolFacts]
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    context: Label | None = None


class Decision(StrEnum):
    """What a person says of a call that started and may or may not have happened."""

    RETRY = "retry"
    SKIP = "skip"
    FAIL = "fail"


class TookPlace(NamedTuple):
    """The other decision, and what a probe may find: the call took place and gave this value."""

    value: JSON


class Decided(NamedTuple):
    """The decision on a call in doubt; `by` says who made it where it was no person: `probe`."""

    key: str
    decision: Decision | TookPlace
    by: str = ""


class Doubted(NamedTuple):
    """The call of this key may or may not have happened: a probe, its tool's policy or a person decides.

    It also says that a probe could not tell, or that no model has answered: such a call stays open and
    is made again when the run goes on. `spent` is what was spent before that, where it is known.
    """

    key: str
    reason: str
    spent: Spent | None = None


class Verdict(StrEnum):
    """What an answer says."""

    APPROVE = "approve"
    ANSWER = "answer"
    DENY = "deny"
    EXPIRE = "expire"
    """Nobody answered in time."""


class Answered(NamedTuple):
    """A person has answered what was asked under this key and has this digest.

    `by` names the person, `note` is what they said beside the verdict, `msg_id` the message
    in which the answer came.
    """

    key: str
    digest: str
    verdict: Verdict
    value: JSON = None
    by: str = ""
    note: str = ""
    msg_id: str = ""


class Cancelled(NamedTuple):
    """Somebody ends the run."""

    reason: str


class Reopened(NamedTuple):
    """A run of a plan of dependencies that failed goes on: what failed starts again."""


class TimeUp(NamedTuple):
    """The run has taken so many seconds, resumes included, and may take no more."""

    seconds: float


class LimitsChanged(NamedTuple):
    """Other limits hold from now on; what has been used counts against them."""

    limits: Limits


class PolicyChanged(NamedTuple):
    """Another policy holds from now on; the labels of values stay what they are."""

    policy: Policy


class Edited(NamedTuple):
    """Somebody has set these variables, in a run that was forked from another.

    With `holds` they stand against what the next event sets as well: they take its place before anything
    follows from it.
    """

    values: Mapping[str, JSON]
    by: str = ""
    holds: bool = False


Event: TypeAlias = """
    Started | Succeeded | Failed | TimerFired | PlanCompiled | Doubted | Decided | Answered | Cancelled
    | TimeUp | LimitsChanged | PolicyChanged | Reopened | Edited
"""
