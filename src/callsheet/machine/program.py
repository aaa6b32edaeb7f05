"""A plan ready to run: steps by number, variables by slot, values as functions, the graph of dependencies.

Built by `compiling`, then only read. `ToolFacts` is what is known of a tool that a plan calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from callsheet.diagnostics import CallsheetError
from callsheet.ir import (
    Cast,
    Effect,
    Literal,
    OnInDoubt,
    Onward,
    Plan,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import names_in
from callsheet.ir.operations import ORDERED, Independence
from callsheet.lazy import NamedTuple
from callsheet.machine.closures import (
    Eval,
    SlotOf,
    Slots,
    Test,
)
from callsheet.machine.keys import name_in_key

if TYPE_CHECKING:
    from callsheet.machine.tree.program import TreeProgram


class Graph(NamedTuple):
    """The dependencies of a plan, by the numbers of its steps.

    `waits` counts the dependencies of a step, `dependents` are the steps that depend on it. Of the ready
    steps the one with the lowest `place` starts first: the one with the highest rank, or the first in the
    plan if ranks are equal. By default, the rank is the number of steps on the longest path to an end,
    including the step itself. `order` has the steps by place.
    """

    waits: tuple[int, ...]
    dependents: tuple[tuple[int, ...], ...]
    place: tuple[int, ...]
    order: tuple[int, ...]


def compile_graph(plan: Plan, ranks: Mapping[str, int] | None = None) -> Graph:
    """The dependency graph of a plan.

    `ranks`, by step id, are used only if they name every step. Linear in steps and dependencies, but for
    sorting. Raises CallsheetError (RUN001) for duplicate ids, unknown dependencies and cycles.
    """
    number_of = {step.id: number for number, step in enumerate(plan.steps)}
    if len(number_of) < len(plan.steps):
        raise _unrunnable("two of its steps have the same index")
    dependents: list[list[int]] = [[] for _ in plan.steps]
    waits: list[int] = []
    for number, step in enumerate(plan.steps):
        before = set(step.depends_on or ())
        waits.append(len(before))
        for name in before:
            if name not in number_of:
                raise _unrunnable(f"step {step.id} waits for {name}, which is not a step")
            dependents[number_of[name]].append(number)
    for followers in dependents:
        followers.sort()
    order = topological(waits, dependents)
    if len(order) < len(waits):
        raise _unrunnable("some of its steps wait for one another in a cycle")
    if ranks and all(step.id in ranks for step in plan.steps):
        rank = [ranks[step.id] for step in plan.steps]
    else:
        rank = [1] * len(waits)
        for number in reversed(order):
            rank[number] += max((rank[follower] for follower in dependents[number]), default=0)
    first = sorted(range(len(rank)), key=rank.__getitem__, reverse=True)  # keeps the plan's order of equals
    place = [0] * len(rank)
    for at, number in enumerate(first):
        place[number] = at
    return Graph(tuple(waits), tuple(map(tuple, dependents)), tuple(place), tuple(first))


def topological(waits: Sequence[int], dependents: Sequence[Sequence[int]]) -> list[int]:
    """The steps in topological order; steps in cycles, or behind them, are left out."""
    unfinished = list(waits)
    order = [number for number, count in enumerate(unfinished) if not count]
    for number in order:
        for follower in dependents[number]:
            unfinished[follower] -= 1
            if not unfinished[follower]:
                order.append(follower)
    return order


def _unrunnable(why: str) -> CallsheetError:
    return CallsheetError.single(
        "RUN001", f"this plan cannot be run: {why}", help="`callsheet check` shows the details"
    )


CallForm: TypeAlias = "tuple[Hashable, ...]"
Written: TypeAlias = "tuple[tuple[str, Value], ...]"
"""Arguments by name, as written in the plan."""

_TEMPLATE, _TEXT, _MEMBERS = -1, -2, -3
"""In a form: the argument is a template, it has text of the plan, it is a list or a dict."""


def form_of(tool: str, retries: int, written: Written, slot_of: SlotOf) -> tuple[CallForm, tuple[int, ...]]:
    """The form of a call, and the slots that its arguments read: each once, in the order of their use.

    A form has the tool, the number of retries, and for each argument its name and the variables in it,
    numbered in the order of their use.

    >>> slots = {"a": 7}
    >>> url = Template(("https://c.example/", Ref("a")))
    >>> form_of("SEND", 0, (("to", Literal("x")), ("url", url), ("body", Ref("a"))), slots.__getitem__)
    (('SEND', 0, 'to', 'url', -1, 0, -2, 'body', 0), (7,))
    """
    places: dict[str, int] = {}
    form: list[Hashable] = [tool, retries]
    for name, value in written:
        form.append(name)
        if type(value) is Ref:  # nearly all values are references, templates or literals
            form.append(places.setdefault(value.name, len(places)))
        elif type(value) is Template:
            form.append(_TEMPLATE)
            before = len(form)
            for part in value.parts:
                if type(part) is Ref:
                    form.append(places.setdefault(part.name, len(places)))
            if len(form) - before < len(value.parts):
                form.append(_TEXT)
        elif type(value) is not Literal:
            form.append(_MEMBERS)
            form += [places.setdefault(read, len(places)) for read in names_in((value,))]
    return tuple(form), tuple([slot_of(name) for name in places])


_T = TypeVar("_T")
_MOST_KEPT = 32
"""The size of `cache.kept`; a program runs under a handful of policies, so overflowing it is rare."""
NOWHERE = -1
"""Stands for no step or no slot."""
IN_TREE = -2
"""The place of a call of a plan tree: its activation knows it."""
FIRST = "0.1"
"""The end of the key of a visit's first call: item 0, attempt 1."""


class Loop(NamedTuple):
    """Says that the machine drives an operation turn by turn, and which tools it may call.

    `tools` are the default for a step that names none; with `is_most` no step may name others. With
    `is_session` a client outside makes the calls instead of a model (`agents.turns.take_calls`).
    """

    tools: tuple[str, ...] = ()
    is_most: bool = False
    is_session: bool = False


class ToolFacts(NamedTuple):
    """What running a plan needs to know of a tool; recorded in the run's first event.

    `parameters` are the parameter names that positional arguments fill, in order; `on_in_doubt` says what to
    do about a call that may have happened. `loop` is given for an operation that the machine drives turn by
    turn; without it the port carries out the operation as a whole. `independence` is what is declared of the
    order of calls.
    """

    effect: Effect = Effect.UNSAFE
    parameters: tuple[str, ...] = ()
    on_in_doubt: OnInDoubt = OnInDoubt.ASK
    loop: Loop | None = None
    independence: Independence = ORDERED


class Kind(IntEnum):
    """What a step does."""

    TOOL = 0
    MODEL = 1
    AGENT = 2
    RESPOND = 3
    TERMINATE = 4
    GOTO = 5
    REPLAN = 6
    ASK = 7


class LoopCode(NamedTuple):
    """The tools that a turn-by-turn operation may call, by name.

    `fault` says why they cannot be determined; "" if they can. `is_session` is as in `Loop`.
    """

    tools: Mapping[str, StepCode]
    fault: str = ""
    is_session: bool = False


class _HotFields:
    """The fields read for every step that runs.

    The slots of a base class lie first and side by side in memory, which keeps the cache lines that a long
    plan needs few.
    """

    __slots__ = (
        "arguments",
        "cast",
        "condition",
        "first_key",
        "form",
        "group",
        "id",
        "identity",
        "is_plain",
        "leaves",
        "number",
        "out_slot",
        "read_slots",
        "reads",
        "source",
        "tool",
        "wants_data",
    )


def _no_arguments(slots: Slots) -> dict[str, Any]:
    return {}


class StepCode(_HotFields):
    """A step ready to run. Built by `compile_plan`, then only read."""

    __slots__ = (
        "backoff",
        "concurrent",
        "delay",
        "effect",
        "fail_target",
        "fail_values",
        "goto_name",
        "group_end",
        "handles_failure",
        "inputs",
        "kind",
        "leads_on",
        "loop",
        "loop_slot",
        "may_skip",
        "on_in_doubt",
        "prefix",
        "probes",
        "recurs",
        "retries",
        "target",
        "texts",
        "written",
    )

    def __init__(self, number: int, step: Step) -> None:
        self.number = number
        self.id = step.id
        self.identity = number
        self.prefix = f"{name_in_key(step.id)}."
        self.first_key = self.prefix + FIRST
        """The key of its first call, in the first plan of a run."""
        self.may_skip = step.condition is not None or step.course.onward is Onward.IF_EMPTY
        self.kind = Kind.TOOL
        self.is_plain = False
        """Whether it calls a tool, and no jump can lead back to it."""
        self.leaves = False
        """Whether it is plain and has no FOREACH, as nearly all steps; see `starting.leave`."""
        self.tool = ""
        self.arguments: Callable[[Slots], dict[str, Any]] = _no_arguments
        self.written: Written = ()
        """The arguments of a call by name, as written in the plan; positional ones of a model by number."""
        self.form = NOWHERE
        """The number of its call's form, the same for all steps of the program with an equal form."""
        self.read_slots: tuple[int, ...] = ()
        """The slots that the arguments of its call read: each once, in the order of their use."""
        self.inputs: tuple[Eval, ...] = ()
        self.texts: tuple[tuple[str, Eval], ...] = ()
        """The references inside texts of its arguments or its answer, as written, each once."""
        self.condition: Test | None = None
        self.source: Eval | None = None
        self.loop: LoopCode | None = None
        """Set for an operation that the machine drives turn by turn."""
        self.loop_slot = NOWHERE
        self.concurrent = False
        self.out_slot = NOWHERE
        self.cast: Cast | None = None
        self.wants_data = False
        self.effect = Effect.UNSAFE
        self.probes = False
        self.on_in_doubt = OnInDoubt.ASK
        self.reads: tuple[tuple[int, str], ...] = ()
        """In a graph: the variables that it reads and that may be unset when it starts, with their slots."""
        self.recurs = False
        self.retries = 0
        self.delay: float | None = None
        self.backoff: float | None = None
        self.leads_on = step.after_failure.leaves
        """Whether a failure leads elsewhere than to the next step."""
        self.fail_target: str | None = None
        self.fail_values: tuple[Eval, ...] = ()
        """What is read when it has failed for good: the message if that ends the plan."""
        self.handles_failure = step.on_fail is not None
        self.goto_name, self.target = "", NOWHERE
        self.group = NOWHERE if step.group is None else step.group
        self.group_end = number + 1

    def heeds_failure(self, attempt: int) -> bool:
        """Whether the plan handles a failure of this attempt: by a retry, a jump or an own message."""
        return attempt <= self.retries or self.leads_on


class Program(NamedTuple):
    """A plan ready to run."""

    plan: Plan
    steps: Sequence[StepCode]
    number_of: dict[str, int]
    slot_of: dict[str, int]
    names: tuple[str, ...]
    """The variables' names in the order of their slots."""
    cache: dict[object, Any]
    """Cached results for all runs of the program; see `cached`."""
    graph: Graph | None = None
    """The dependencies, in a plan that is a graph."""
    tree: TreeProgram | None = None
    """The operations, in a plan of version 2; `steps` are then the codes of its calls."""

    def cached(self, key: object, make: Callable[[], _T]) -> _T:
        """The result of `make`, cached under `key` for all runs of the program.

        It must depend only on the program and `key`, and several runs may read it at once.
        """
        value = self.cache.get(key)
        if value is None:
            if len(self.cache) >= _MOST_KEPT:
                self.cache.clear()
            value = self.cache[key] = make()
        return value
