"""What a driver tells the machine: outcomes by key, fired timers, decisions, new plans."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON, Plan
from callsheet.machine.limits import Limits
from callsheet.machine.program import ToolFacts
from callsheet.machine.remarks import Remark
from callsheet.machine.usage import Spent


class Started(NamedTuple):
    """The run begins, with these variables set."""

    inputs: Mapping[str, JSON]


class Succeeded(NamedTuple):
    """The call of this key gave a value.

    `remarks` say what is to be known beside it, `spent` what it took, where that is known.
    """

    key: str
    value: JSON
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None


class Failed(NamedTuple):
    """The call of this key failed, or the compilation did."""

    key: str
    error: str
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None


class TimerFired(NamedTuple):
    """The wait of this key is over."""

    key: str


class PlanCompiled(NamedTuple):
    """The new plan for a RE-PLAN, checked, with the facts about the tools it calls."""

    key: str
    plan: Plan
    facts: Mapping[str, ToolFacts]
    remarks: tuple[Remark, ...] = ()
    spent: Spent | None = None


class Decision(StrEnum):
    """What a person says of a call that started and may or may not have happened."""

    RETRY = "retry"
    SKIP = "skip"
    FAIL = "fail"


class Decided(NamedTuple):
    """The decision on a call in doubt."""

    key: str
    decision: Decision


class Doubted(NamedTuple):
    """The call of this key may or may not have happened: it stays open until it is decided."""

    key: str
    reason: str


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


Event: TypeAlias = """
    Started | Succeeded | Failed | TimerFired | PlanCompiled | Doubted | Decided | Cancelled | TimeUp
    | LimitsChanged | Reopened
"""
