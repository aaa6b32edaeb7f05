"""The root of a plan's AST: steps, execution order, initial variables and descriptive names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from callsheet.diagnostics import CallsheetError
from callsheet.ir.expr import Value
from callsheet.ir.operations import CallKind
from callsheet.ir.step import Ending, Step
from callsheet.lazy import dataclass

REPLAN = "RE-PLAN"
_V = TypeVar("_V")

if TYPE_CHECKING:
    from callsheet.ir.tree import Tree  # a plan of version 1 does not load it


class Order(StrEnum):
    """How the execution order of steps is determined."""

    TEXT = "text"
    """Sequentially as written, except for groups and jumps."""
    DAG = "dag"
    """Each step when its dependencies are done."""
    TREE = "tree"
    """As the blocks of version 2 say; the plan has a tree."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. Steps of one group are adjacent; ids should be unique.

    `variables` are initial values without references; `id`, `title` and `goal` describe the plan to people.
    `comments` are the comments after the last step; they have no meaning.

    In a plan of version 2, made by `plan_of_tree`, `tree` is the plan. `steps` only lists its calls in
    the order of the text, with those arguments that are literals: enough to name them and find their tools.
    """

    steps: tuple[Step, ...]
    order: Order = Order.TEXT
    variables: tuple[tuple[str, Value], ...] = ()
    id: str | None = None
    title: str | None = None
    goal: str | None = None
    comments: tuple[str, ...] = field(default=(), compare=False)
    tree: Tree | None = None
    in_python: bool = field(default=False, compare=False, repr=False)
    """Whether it was read from Python, so that findings about it speak of that."""
    canonical: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The canonical form, cached by `plan_bytes`."""

    @property
    def may_plan_anew(self) -> bool:
        """Whether it has a RE-PLAN: it may go on with steps that are planned during the run."""
        if self.tree is None:
            return any(step.course.ends is Ending.NEW_PLAN for step in self.steps)
        return any(getattr(one, "word", None) == REPLAN for one in self.tree.body)

    @property
    def is_open(self) -> bool:
        """Whether a model chooses during the run what is done: by a new plan, or as an agent."""
        return self.may_plan_anew or any(step.is_open for step in self.steps)

    def step(self, step_id: str) -> Step | None:
        """The first step with this id, or None."""
        return next((s for s in self.steps if s.id == step_id), None)


def flat(plan: Plan, what: str, instead: str = "") -> Plan:
    """The plan, if it is a list of steps and no tree of blocks: one of version 1.

    Whoever goes through `steps` asks for it. Raises CallsheetError (CFG023) that says, with `what`, what
    cannot be done with a plan of version 2, and `instead`, what can be done in its place.

    >>> flat(Plan(()), "drawing a plan").order.value
    'text'
    """
    if plan.tree is None:
        return plan
    raise CallsheetError.single(
        "CFG023",
        f"{what} does not know the blocks of version 2 yet",
        help=instead
        or "plans that begin with # ltp: 2 and Python plans have blocks; a plan of version 1 is a list",
    )


_TOOLS = frozenset({CallKind.TOOL, CallKind.TRANSFORM, CallKind.HUMAN})


def called_names(plan: Plan) -> tuple[str, ...]:
    """The canonical names of called tools, transforms and human operations, each once, in text order."""
    calls = (step.call for step in plan.steps)
    return tuple(dict.fromkeys(c.tool for c in calls if c is not None and c.kind in _TOOLS))


def filled_parameters(parameters: Iterable[str], named: Collection[str], count: int) -> list[str]:
    """The parameters that `count` positional arguments fill: the first ones not in `named`.

    The result is shorter than `count` if there are too few parameters.

    >>> filled_parameters(("path", "text", "mode"), {"text"}, 2)
    ['path', 'mode']
    """
    return [name for name in parameters if name not in named][:count]


def named_arguments(
    positional: Sequence[_V], named: tuple[tuple[str, _V], ...], parameters: Iterable[str]
) -> tuple[tuple[str, _V], ...]:
    """All arguments of a call of a tool by parameter name, the positional ones first.

    >>> named_arguments((1, 2), (("to", 3),), ("to", "text"))
    (('text', 1), ('arg1', 2), ('to', 3))
    """
    if not positional:
        return named
    names = filled_parameters(parameters, {name for name, _ in named}, len(positional))
    names += [f"arg{number}" for number in range(len(names), len(positional))]
    return (*zip(names, positional, strict=True), *named)
