"""A plan ready to run: steps by number, variables by slot, values as functions; and what is known of tools.

Made by `compiling`, then only read. What every step that runs is read for lies close together in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from callsheet.ir import (
    Cast,
    Effect,
    OnInDoubt,
    Plan,
    Respond,
    Step,
    Value,
)
from callsheet.machine.closures import (
    Eval,
    Slots,
    Test,
)
from callsheet.machine.graph import Graph
from callsheet.machine.keys import name_in_key

_T = TypeVar("_T")
_MOST_KEPT = 32
"""A program is run under a handful of policies; past this many results all are worked out anew."""
NOWHERE = -1
"""The number of a step or slot that does not exist."""
FIRST = "0.1"
"""What the key of a visit's first call ends with: its item and attempt."""


class Loop(NamedTuple):
    """That an operation goes turn by turn, driven by the machine, and what it may call.

    `tools` are for a step that names none itself; where they are the `most`, no step may name others.
    """

    tools: tuple[str, ...] = ()
    is_most: bool = False


class ToolFacts(NamedTuple):
    """What running a plan needs to know of a tool, recorded with the run.

    `parameters` are the names that positional arguments take, in order; `on_in_doubt` is what
    becomes of a call that may have happened. `loop` is that of an operation whose turns are the
    machine's; without it the operation is carried out as a whole.
    """

    effect: Effect = Effect.UNSAFE
    parameters: tuple[str, ...] = ()
    on_in_doubt: OnInDoubt = OnInDoubt.ASK
    loop: Loop | None = None


class Kind(IntEnum):
    """What a step does, as a number."""

    TOOL = 0
    MODEL = 1
    AGENT = 2
    RESPOND = 3
    TERMINATE = 4
    GOTO = 5
    REPLAN = 6
    ASK = 7


class LoopCode(NamedTuple):
    """The tools that an operation may call turn by turn, each ready to be called.

    `fault` says why there are none to be known.
    """

    tools: Mapping[str, StepCode]
    fault: str = ""


class _Often:
    """What is read of every step that runs: of two classes the fields of the first stand side by side in
    memory, and of a long plan no processor keeps more near.
    """

    __slots__ = (
        "arguments",
        "cast",
        "condition",
        "first_key",
        "group",
        "id",
        "identity",
        "is_plain",
        "leaves",
        "number",
        "out_slot",
        "reads",
        "source",
        "tool",
        "wants_data",
    )


class StepCode(_Often):
    """A step ready to run. Made by `compile_plan`, then only read."""

    __slots__ = (
        "backoff",
        "concurrent",
        "delay",
        "effect",
        "fail_message",
        "fail_target",
        "goto_name",
        "group_end",
        "inputs",
        "kind",
        "loop",
        "loop_slot",
        "may_skip",
        "on_in_doubt",
        "prefix",
        "probes",
        "recurs",
        "retries",
        "target",
        "written",
    )

    def __init__(self, number: int, step: Step) -> None:
        self.number = number
        self.id = step.id
        self.identity = number
        self.prefix = f"{name_in_key(step.id)}."
        self.first_key = self.prefix + FIRST
        """The key of its first call in the first plan of a run."""
        self.may_skip = step.condition is not None or isinstance(step.action, Respond)
        self.kind = Kind.TOOL
        self.is_plain = False
        """Whether it calls a tool, and no jump leads to it once more."""
        self.leaves = False
        """Whether it is plain and has no items: nearly all steps."""
        self.tool = ""
        self.arguments: Callable[[Slots], dict[str, Any]] = lambda slots: {}
        self.written: tuple[tuple[str, Value], ...] = ()
        """The arguments of a tool by name, as they stand in the plan."""
        self.inputs: tuple[Eval, ...] = ()
        self.condition: Test | None = None
        self.source: Eval | None = None
        self.loop: LoopCode | None = None
        """Of an operation that the machine drives turn by turn."""
        self.loop_slot = NOWHERE
        self.concurrent = False
        self.out_slot = NOWHERE
        self.cast: Cast | None = None
        self.wants_data = False
        self.effect = Effect.UNSAFE
        self.probes = False
        self.on_in_doubt = OnInDoubt.ASK
        self.reads: tuple[tuple[int, str], ...] = ()
        """In a graph: the variables that must be set before it starts, by slot."""
        self.recurs = False
        self.retries = 0
        self.delay: float | None = None
        self.backoff: float | None = None
        self.fail_target: str | None = None
        self.fail_message: tuple[Eval, ...] | None = None
        self.goto_name = ""
        self.target = NOWHERE
        self.group = NOWHERE if step.group is None else step.group
        self.group_end = number + 1

    def heeds_failure(self, attempt: int) -> bool:
        """Whether the plan says what to do when this attempt fails: try again, or go elsewhere."""
        return attempt <= self.retries or self.fail_target is not None or self.fail_message is not None


class Program(NamedTuple):
    """A plan ready to run."""

    plan: Plan
    steps: Sequence[StepCode]
    number_of: dict[str, int]
    slot_of: dict[str, int]
    names: tuple[str, ...]
    """The variables' names in the order of their slots."""
    kept: dict[object, Any]
    """What has been worked out of it, for all its runs; see `keep`."""
    graph: Graph | None = None
    """What waits for what, in a plan of dependencies."""

    def keep(self, key: object, make: Callable[[], _T]) -> _T:
        """What `make` gives, made once for all runs of the program.

        It has to follow from the program and `key` alone, and may be read by several runs at once.
        """
        found = self.kept.get(key)
        if found is None:
            if len(self.kept) >= _MOST_KEPT:
                self.kept.clear()
            found = self.kept[key] = make()
        return found
