"""Where a machine in a pause stands: its next statement, the levels around it, values and expressions there.

In: a machine that is executed statement by statement. Out: what is seen of it; nothing here changes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from callsheet.frontends.expressions import NotAnExpression, read_expression
from callsheet.ir.expression import variables_in
from callsheet.ir.labels import Label
from callsheet.machine.expressions import Environment, ExpressionFailed, compile_expression
from callsheet.machine.frames import Frame
from callsheet.machine.program import NOWHERE
from callsheet.machine.tree.activations import Activation, Loop, Members
from callsheet.machine.tree.program import CatchOp, InvokeOp, RoundOp, UntilOp, statement_of
from callsheet.machine.tree.values import plain
from callsheet.machine.tree.variables import names_in, place_of

if TYPE_CHECKING:
    from callsheet.machine.run import Run

Where: TypeAlias = "Activation | Frame | None"
"""What executes a statement: an activation of a plan with blocks, the items of a step, or the plan (None)."""


class Point(NamedTuple):
    """The statement that a machine executes next: its id, what executes it, and its number there."""

    step: str
    where: Where
    number: int

    def is_left(self, since: Point) -> bool:
        """Whether this point is in what executed an earlier one, or around that: a step over it is done."""
        return any(self.where is where for where in _around(since.where))

    def is_outside(self, since: Point) -> bool:
        """Whether this point is around what executed an earlier one: a step out of that is done."""
        return self.where is not since.where and self.is_left(since)

    def is_again(self, since: Point) -> bool:
        """Whether this is a further operation of the statement of an earlier point, not a new visit of it."""
        return (
            self.step == since.step
            and self.where is since.where
            and isinstance(self.where, Activation)
            and self.number > since.number
        )

    @property
    def is_item(self) -> bool:
        """Whether it is an item of a step of version 1, which stands on the line of its step."""
        return isinstance(self.where, Frame)


def _around(where: Where) -> Iterator[Where]:
    yield where
    while isinstance(where, Activation):
        where = where.parent
        if where is not None:
            yield where
    if where is not None:
        yield None


def next_point(run: Run) -> Point | None:
    """The statement before which a machine pauses; None if it is between statements, or does not pause."""
    if not run.is_paused:
        return None
    if run.tree is None:
        return _next_step(run)
    first = run.tree.paused[0] if run.tree.paused else None
    if not isinstance(first, Activation) or first.pc >= len(first.body.operations):
        return None
    operation = first.body.operations[first.pc]
    if isinstance(operation, RoundOp | UntilOp | CatchOp):
        return None
    step = statement_of(operation)
    return Point(step, first, first.pc) if step else None


def _next_step(run: Run) -> Point | None:
    steps = run.program.steps
    if run.unfilled is not None:
        return Point(run.unfilled.code.id, run.unfilled, run.unfilled.next)
    if run.group is not None:
        code = steps[run.group.next]
        return Point(code.id, None, code.number)
    if run.schedule is not None:
        if not run.schedule.ready:
            return None
        code = steps[run.schedule.order[run.schedule.ready[0]]]
        return Point(code.id, None, code.number)
    if run.pc >= len(steps):
        return None
    code = steps[run.pc]
    return Point(code.id, None, code.number) if code.group == NOWHERE else None


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the stack: the main plan, a sub-plan or an item of a loop, at a statement."""

    name: str
    """What it is: `plan`, the name of a sub-plan, or `S2[4]` for an item."""
    step: str
    """The id of its statement."""
    place: str
    """The place of that in the run, as `S2[4]/S3`."""
    values: Mapping[str, Any]
    labels: Callable[[], Mapping[str, Label]]
    is_lexical: bool = False
    """Whether the variables of the next level can be seen in it."""
    now: datetime | None = None

    def variables(self) -> dict[str, Any]:
        """Its variables that are set, by name."""
        return {name: value for name, value in self.values.items() if value is not None}


def levels_of(run: Run, point: Point) -> tuple[Level, ...]:
    """The levels of the stack at a point, the innermost first."""
    if isinstance(point.where, Activation):
        return tuple(_levels(run, point.where, point.step))
    plan = Level("plan", point.step, point.step, run.scope.to_dict(), lambda: _step_labels(run))
    if not isinstance(point.where, Frame):
        return (plan,)
    return (_item_level(run, point.where, plan), plan)


def levels_at_step(run: Run, step: str) -> tuple[Level, ...]:
    """The one level of a step of version 1."""
    return levels_of(run, Point(step, None, 0))


def _item_level(run: Run, frame: Frame, plan: Level) -> Level:
    code, items = frame.code, frame.items or []
    values = {run.program.names[code.loop_slot]: items[frame.next]} if frame.next < len(items) else {}
    name = f"{code.id}[{frame.next}]"
    return Level(name, code.id, name, values, plan.labels, is_lexical=True)


def _levels(run: Run, where: Activation, step: str) -> Iterator[Level]:
    act: Activation | None = where
    while act is not None:
        holder = act
        while isinstance(holder.role, Members) and holder.parent is not None:
            holder = holder.parent
        yield Level(
            _name(holder),
            step,
            act.path + step,
            {name: act.slots[slot] for slot, name in enumerate(act.body.names) if not name.startswith("#")},
            _labels(run, holder),
            isinstance(holder.role, Loop),
            act.now,
        )
        act = holder.parent
        if act is not None:
            step = statement_of(act.body.operations[act.pc])


def _name(act: Activation) -> str:
    if isinstance(act.role, InvokeOp):
        return act.role.plan
    return place_of(act) or "plan"


def _labels(run: Run, act: Activation) -> Callable[[], Mapping[str, Label]]:
    def labels() -> Mapping[str, Label]:
        from callsheet.machine.monitor.trees import TreeMonitor  # noqa: PLC0415 - only under a policy

        if act.labels is None or not isinstance(run.monitor, TreeMonitor):
            return {}
        known = run.monitor.labels.finals(act.labels)
        return {name: known[name][0] for name in names_in(act) if name in known}

    return labels


def _step_labels(run: Run) -> Mapping[str, Label]:
    if run.monitor is None:
        return {}
    labels = run.monitor.variable_labels.labels
    return {name: labels[slot] for slot, name in enumerate(run.program.names)}


class NotEvaluated(Exception):
    """An expression that has no value where it was asked for, and why."""


def evaluate(
    levels: tuple[Level, ...], text: str, now: datetime, read: Callable[[Any], Any] = lambda value: value
) -> tuple[Any, frozenset[str]]:
    """The value of an expression of the language at a level, as JSON data, and the variables it was made of.

    The levels are that one and those around it; `read` gives what a variable counts as. Variables may be
    written without `$`. Raises NotEvaluated.
    """
    seen = _visible(levels)
    try:
        node = read_expression(text.strip(), in_brackets=True, names={*seen}).expression
        names = [*dict.fromkeys(variables_in(node))]
        unknown = [name for name in names if name not in seen]
        if unknown:
            raise NotEvaluated(f"there is no ${unknown[0]} here")
        compiled = compile_expression(node, names.index)
        value = compiled([read(seen[name]) for name in names], Environment(levels[0].now or now))
    except NotAnExpression as error:
        raise NotEvaluated(error.message) from None
    except ExpressionFailed as failed:
        raise NotEvaluated(f"{failed.kind.value}: {failed.message}") from None
    return plain(value), frozenset(names)


def misread(text: str) -> str | None:
    """Why a text is no expression wherever it is evaluated; None if it may be one.

    >>> misread("x > 1 and len($xs)"), misread("x >")
    (None, 'a value is missing here')
    """
    try:
        read_expression(text.strip(), in_brackets=True, names={*_WORD.findall(text)})
    except NotAnExpression as error:
        return error.message
    return None


_WORD = re.compile(r"\b[^\W\d]\w*\b(?!\s*\()")
"""A name that may be one of a variable: it calls no function."""


def _visible(levels: tuple[Level, ...]) -> dict[str, Any]:
    """The variables that can be read at the first of these levels; inner ones hide outer ones."""
    seen: dict[str, Any] = {}
    for level in levels:
        seen = {**level.values, **seen}
        if not level.is_lexical:
            break
    return seen


__all__ = [
    "Level",
    "NotEvaluated",
    "Point",
    "evaluate",
    "levels_at_step",
    "levels_of",
    "misread",
    "next_point",
]
