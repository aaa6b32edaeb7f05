"""The commands that the machine gives to a driver; each except Finish is answered by an event with its key.

A key is `step[@visit].item.attempt`, preceded by `rN/` in the N-th re-plan and followed by `/tN` or `/tNcM`
within the N-th turn of an operation. It depends only on the plan, and within turns on the answers, so a
replayed run asks for the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label
from callsheet.lazy import NamedTuple
from callsheet.machine.agents.actions import Allowance, Turn
from callsheet.machine.progress import Progress
from callsheet.machine.questions import Asked
from callsheet.machine.result import Result


class CallTool(NamedTuple):
    """Call a tool by its canonical name."""

    key: str
    step: str
    tool: str
    args: dict[str, Any]
    wants_data: bool = False
    """Whether the plan casts the result to a list or to JSON, so that data must stay data, not text."""
    delivery: str = ""
    """For a repeated delivery, the key of the first attempt, whose answer was lost; otherwise ""."""
    label: Label | None = None
    """Under a policy, the label of all data that the call sends."""


class CallModel(NamedTuple):
    """Carry out a model operation on `inputs` (in order) and `args` (by name).

    `may_fail` says that the plan handles a failure: by a retry, a jump or a message.
    """

    key: str
    step: str
    tool: str
    inputs: list[JSON]
    args: dict[str, Any]
    may_fail: bool = False


class RunAgent(NamedTuple):
    """Let a sub-agent solve a goal, given `inputs` (in order) and `args` (by name)."""

    key: str
    step: str
    tool: str
    inputs: list[JSON]
    args: dict[str, Any]


class AgentTurn(NamedTuple):
    """Ask a model for an agent's next turn: a call of its tools, or its answer.

    `inputs` and `args` come from the step, `allowed` is what the agent may do, `turns` are the turns so far.
    The model's answer, a text or data, is the value of the outcome. `may_fail` is as in `CallModel`.
    """

    key: str
    step: str
    tool: str
    inputs: list[JSON]
    args: dict[str, Any]
    allowed: Allowance
    turns: tuple[Turn, ...]
    may_fail: bool = False
    label: Label | None = None
    """Under a policy, the label of all data that the model is shown."""


class Sleep(NamedTuple):
    """Wait this many seconds, then feed TimerFired."""

    key: str
    step: str
    seconds: float


class Compile(NamedTuple):
    """Compile a new plan for this reason; the variables are data, not instructions.

    `progress` is the state of a failed graph, None for a RE-PLAN step; `goal` is the goal that the plan
    states, "" if none. Under a policy `labels` are the labels of the variables, and `context` is the label of
    the reason and of what decided that a plan is needed. `repairs` says whether the planner may be asked once
    more if its plan is invalid: the budget has room for that question. `has_blocks` says that it is the next
    part of a plan of version 2, and such a one itself. `refused` is a first answer, and why it may not run.
    """

    key: str
    step: str
    reason: str
    variables: dict[str, JSON]
    progress: Progress | None = None
    goal: str = ""
    labels: Mapping[str, Label] | None = None
    context: Label = LITERAL
    repairs: bool = True
    has_blocks: bool = False
    refused: str = ""


class Probe(NamedTuple):
    """Find out whether a call in doubt took place: feed Decided, or Doubted if that cannot be told."""

    key: str
    step: str
    call: CallTool


class Ask(NamedTuple):
    """Ask a person, for days if need be, and feed Answered."""

    key: str
    step: str
    asked: Asked


class Finish(NamedTuple):
    """The run has ended; later outcomes are ignored."""

    result: Result


Awaited: TypeAlias = "CallTool | CallModel | RunAgent | AgentTurn | Sleep | Compile | Probe | Ask"
"""A command that is answered by an event with its key."""
Command: TypeAlias = "Awaited | Finish"
