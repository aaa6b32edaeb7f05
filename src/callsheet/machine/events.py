"""The events that a driver feeds to the machine: outcomes by key with remarks, timers, decisions, new plans.

Remarks change nothing in a run. They come from the ports with an outcome, are journaled with it, and are told
to observers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias, assert_never

from callsheet.ir import JSON, Plan
from callsheet.ir.labels import Label
from callsheet.lazy import NamedTuple
from callsheet.machine.limits import Limits
from callsheet.machine.program import ToolFacts
from callsheet.machine.usage import Spent
from callsheet.policy.model import Policy

TRACEBACK = "traceback"
"""The name of the fact that says where a tool's code raised an exception; its text has several lines."""
SAME_PLACE = "at the same place as "
"""How the text of a traceback begins that a call, named after it, has already."""
QUEUED = "queued"
"""The name of the fact that says how many seconds a call waited for others before it was sent."""
LABEL = "label"
"""The name of the fact that says which label a tool's server gives to a result."""
RESULT = "result"
"""The name of the fact that says what about a result may be taken for something else."""


class Cut(NamedTuple):
    """Something is shorter than it was.

    `what` names it, in words; of `whole` units (None where nobody counted) `kept` are left.
    """

    what: str
    kept: int
    whole: int | None
    unit: str


class Fact(NamedTuple):
    """How an outcome was made: a name and what it is, as `prompt` and `LLM_EXTRACT/2`."""

    name: str
    text: str


Remark: TypeAlias = "Cut | Fact"


def describe_remark(remark: Remark) -> str:
    """A remark in words.

    >>> describe_remark(Cut("input 1", 200_000, 250_000, "characters"))
    'input 1 cut to 200,000 of 250,000 characters'
    >>> describe_remark(Cut("facts", 10, None, "rows"))
    'facts cut to 10 rows'
    >>> describe_remark(Fact("prompt", "LLM_EXTRACT/2"))
    'prompt: LLM_EXTRACT/2'
    """
    match remark:
        case Cut(what=what, kept=kept, whole=None, unit=unit):
            return f"{what} cut to {kept:,} {unit}"
        case Cut(what=what, kept=kept, whole=whole, unit=unit):
            return f"{what} cut to {kept:,} of {whole:,} {unit}"
        case Fact(name=name, text=text):
            return f"{name}: {text}"
    assert_never(remark)


class Started(NamedTuple):
    """The run begins, with these variables set over the plan's initial values."""

    inputs: Mapping[str, JSON]


class Succeeded(NamedTuple):
    """The call with this key gave a value.

    `remarks` are notes about the value, `spent` is what the call cost, if known. `label` is given when the
    driver knows more about the value's label than the policy does, as for a file that an earlier run wrote.
    `review` says why a person must approve the value before it counts; "" if nobody must.
    """

    key: str
    value: JSON
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    label: Label | None = None
    review: str = ""


class Failed(NamedTuple):
    """The call or compilation with this key failed.

    `unsettled`: the call may have had its effect nevertheless; a retry is then another delivery of it, under
    the same idempotency key. `final`: it had its effect but its result is lost; it is not retried.
    `forbidden`: the name of the policy rule that forbids the call because of facts that only the driver
    knows, "" for none; the run ends, whatever ON_FAIL says. `kind` is TIMEOUT if no
    answer came in time, SCHEMA if it is not what the tool declares, else "". `label` is given when the driver
    knows more about the label of the error than the policy does.
    """

    key: str
    error: str
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    unsettled: bool = False
    final: bool = False
    forbidden: str = ""
    kind: str = ""
    label: Label | None = None


class TimerFired(NamedTuple):
    """The wait with this key is over."""

    key: str


class PlanCompiled(NamedTuple):
    """The new plan for a RE-PLAN or a failed graph, checked, with the facts about the tools it calls.

    `context` is the label of all data that its planner was shown; None if that is not known.
    """

    key: str
    plan: Plan
    facts: Mapping[str, ToolFacts]
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None
    context: Label | None = None


class Decision(StrEnum):
    """What a person decides about a call in doubt: one that was issued and may or may not have happened."""

    RETRY = "retry"
    SKIP = "skip"
    FAIL = "fail"


class TookPlace(NamedTuple):
    """A further decision, and a possible finding of a probe: the call took place and gave this value."""

    value: JSON


class Decided(NamedTuple):
    """The decision about a call in doubt; `by` is `probe` if a probe made it, "" for a person."""

    key: str
    decision: Decision | TookPlace
    by: str = ""


class Doubted(NamedTuple):
    """The call with this key may or may not have happened: a probe, its tool's policy or a person decides.

    Also fed when a probe could not tell, and when a model gave no answer: a model's call stays open and is
    made again when the run is resumed. `spent` is what was spent before that, if known.
    """

    key: str
    reason: str
    spent: Spent | None = None


class Verdict(StrEnum):
    """The kinds of answer to a question."""

    APPROVE = "approve"
    ANSWER = "answer"
    DENY = "deny"
    EXPIRE = "expire"
    """Nobody answered in time."""


class Answered(NamedTuple):
    """A person has answered the question with this key and digest, or its time is over.

    `by` names the person, `note` is their comment, `msg_id` the message that carried the answer.
    """

    key: str
    digest: str
    verdict: Verdict
    value: JSON = None
    by: str = ""
    note: str = ""
    msg_id: str = ""


class Cancelled(NamedTuple):
    """Somebody has cancelled the run."""

    reason: str


class Reopened(NamedTuple):
    """The failed run of a graph continues: the failed steps start again."""


class TimeUp(NamedTuple):
    """The run has used up its time; `seconds` is what it has taken, including before resumes."""

    seconds: float


class LimitsChanged(NamedTuple):
    """Other limits apply from now on; what has been used counts against them."""

    limits: Limits


class PolicyChanged(NamedTuple):
    """Another policy applies from now on; the labels of existing values do not change."""

    policy: Policy


class Edited(NamedTuple):
    """A person has set these variables, in a run forked from another.

    With `holds` they also override what the next event sets, before anything follows from that event.
    """

    values: Mapping[str, JSON]
    by: str = ""
    holds: bool = False


Event: TypeAlias = """
    Started | Succeeded | Failed | TimerFired | PlanCompiled | Doubted | Decided | Answered | Cancelled
    | TimeUp | LimitsChanged | PolicyChanged | Reopened | Edited
"""
