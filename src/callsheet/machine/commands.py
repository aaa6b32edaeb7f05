"""What the machine asks of a driver; each but the last is answered by an event of its key.

A key is `step[@visit].item.attempt`, with `rN/` before it in the N-th re-plan, and `/tN` or `/tNcM` behind
it within the N-th turn of an operation. It is made from the plan, and within turns from the answers, so a
repeated run of the same plan asks for the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label
from callsheet.machine.agents.allowance import Allowance
from callsheet.machine.agents.conversation import Turn
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
    """Whether the plan casts the result to a list or to JSON, so that data must not become text."""
    delivery: str = ""
    """The key of the first attempt of this delivery, where it was not this one: its answer was lost."""
    label: Label | None = None
    """Under a policy, the label of all that the call takes along."""


class CallModel(NamedTuple):
    """Carry out a model operation: the inputs in order, and the named arguments.

    `may_fail` says that the plan tells what to do where no answer comes: try again, or go elsewhere.
    """

    key: str
    step: str
    tool: str
    inputs: list[JSON]
    args: dict[str, Any]
    may_fail: bool = False


class RunAgent(NamedTuple):
    """Let a sub-agent solve a goal: the inputs in order, and the named arguments."""

    key: str
    step: str
    tool: str
    inputs: list[JSON]
    args: dict[str, Any]


class AgentTurn(NamedTuple):
    """Ask a model what an agent does next: a call of its tools, or its answer.

    `inputs` and `args` are what the step gives it, `allowed` is what it may do, `turns` are those
    before this one. The model's answer, a text or data, is the value of the outcome. `may_fail` is as in
    `CallModel`.
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
    """Under a policy, the label of all that the model is told."""


class Sleep(NamedTuple):
    """Wait this many seconds, then feed TimerFired."""

    key: str
    step: str
    seconds: float


class Compile(NamedTuple):
    """Compile a new plan for this reason; the variables are data, not instructions.

    `progress` is where a graph stands that has failed, None for a RE-PLAN of a text; `goal` is the one
    that the plan says it is for, empty where it says none. Under a policy `labels` are those of the
    variables, and `context` that of the reason and of what decided that there is one. `repairs` says
    whether a plan that is wrong may be asked for once more: the budget has room for that question.
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


class Probe(NamedTuple):
    """Find out whether a call in doubt took place: feed Decided, or Doubted where nobody can tell."""

    key: str
    step: str
    call: CallTool


class Ask(NamedTuple):
    """Ask a person, for days if need be, and feed Answered."""

    key: str
    step: str
    asked: Asked


class Finish(NamedTuple):
    """The run has ended; nothing that comes later counts."""

    result: Result


Awaited: TypeAlias = "CallTool | CallModel | RunAgent | AgentTurn | Sleep | Compile | Probe | Ask"
"""A command that an event of its key answers."""
Command: TypeAlias = "Awaited | Finish"
