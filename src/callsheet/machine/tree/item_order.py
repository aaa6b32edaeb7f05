"""In which order the items of a FOREACH run, and why: the one rule, for the machine and all who explain it.

In: a loop, facts about tools. Out: whether its items may run side by side, the reason in words, and what must
differ from item to item for that. Text order is the meaning, so items run side by side only where nobody can
tell, by what is declared of the tools; or where the plan says TOGETHER. Calls that only read change nothing
for each other. Where a call of the body may write, each call of it that touches the world, also one that
reads, needs a declaration: that it commutes, or which thing it touches.

Items that stop a loop at the first failure run in order whatever is declared: those behind it must not begin.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import CallKind, Effect
from callsheet.ir.expression import Expression, asks_time, nodes, variables_in
from callsheet.ir.operations import Independence
from callsheet.ir.plan import named_arguments
from callsheet.ir.scopes import assigned_outside, ends_early
from callsheet.ir.tree import (
    Act,
    Block,
    Foreach,
    Input,
    Invoke,
    Statement,
    SubPlan,
    Tree,
    recovery_of,
    statements,
    variables_set,
)
from callsheet.machine.program import ToolFacts

_Name: TypeAlias = "str | int | Decimal"
_MOST_NAMES = 1_000_000
"""How many names of things are compared when a loop begins: seconds of work, and what memory holds."""
_MOST_CALLS = 10_000
"""How many calls of a loop's item are looked at; a plan that may run has no more."""
_UNKNOWN = ToolFacts()
_ASKS = ToolFacts(Effect.READ)
_MODEL = ToolFacts(Effect.LLM)
_ALONE = frozenset({Effect.PURE, Effect.LLM})
"""The effects of calls that neither see nor change the world."""


class ItemOrder(NamedTuple):
    """How the items of a loop run.

    `differing` has what names the thing that each call touches, for calls of which that is declared: the
    items run side by side only if these differ from item to item; `arguments` are the names of theirs.
    `is_declared` says that declarations decide.
    """

    side_by_side: bool
    why: str
    arguments: tuple[str, ...] = ()
    differing: tuple[Naming, ...] = ()
    is_declared: bool = False


class Naming(NamedTuple):
    """What names the thing that a call touches, by what is known when its item begins.

    `through` has for each sub-plan that the call is in, the outermost first, the inputs that it follows from,
    and what they are given; None for their default.
    """

    arguments: tuple[Expression, ...]
    through: tuple[tuple[tuple[Input, Expression | None], ...], ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables of the item, and of outside, that it follows from."""
        first = [value for _, value in self.through[0]] if self.through else self.arguments
        given = (each for each in first if each is not None)
        return tuple(dict.fromkeys(name for each in given for name in variables_in(each)))


class _Level(NamedTuple):
    """A body that a call is in: the variables made there, and if it is a sub-plan's, that and its inputs."""

    made: frozenset[str]
    plan: SubPlan | None = None
    given: Mapping[str, Expression] = {}


_Place: TypeAlias = "tuple[_Level, ...]"
"""The body of a loop, and those of the sub-plans in which a statement is, the outermost first."""


def order_of_items(loop: Foreach, facts: Mapping[str, ToolFacts], tree: Tree) -> ItemOrder:
    """How the items of a loop of a plan run, by facts about the tools that it calls, also in sub-plans."""
    if loop.in_order:
        return ItemOrder(False, "it says IN ORDER")
    assigned = sorted(assigned_outside(loop))
    if assigned:
        names = ", ".join(f"${name}" for name in assigned)
        return ItemOrder(False, f"it sets {names}, which the next item sees")
    if ends_early(loop.body):
        return ItemOrder(False, "an item may end it early")
    if loop.together:
        most = "" if loop.most is None else f", at most {loop.most} at a time"
        return ItemOrder(True, f"it says {loop.order.partition(' MAX')[0]}{most}")
    calls: list[tuple[Act, ToolFacts, _Place]] = []
    for one, place in _calls(loop.body, tree, ()):
        if isinstance(one, Act):
            calls.append((one, fact_of_act(one, facts), place))
        elif not place or len(calls) > _MOST_CALLS:
            return ItemOrder(False, f"it is not known what the sub-plan {one.plan} calls ({one.id})")
    writes = [one for one, fact, _ in calls if not _only_reads(fact)]
    if not writes:
        return ItemOrder(True, "all its calls only read")
    return _declared_order(calls, writes[0])


def _calls(
    body: Block, tree: Tree, around: _Place, plan: SubPlan | None = None, given: Mapping[str, Expression] = {}
) -> Iterator[tuple[Act | Invoke, _Place]]:
    """The calls of a body and, behind each call of a sub-plan, those of that.

    That of a sub-plan which is not known, or which is around it, has no place.
    """
    inner = [*statements(body)]
    place = (*around, _Level(_made_in(inner), plan, given))
    for one in inner:
        if isinstance(one, Act):
            yield one, place
        elif isinstance(one, Invoke):
            called = tree.plan(one.plan)
            is_read = called is not None and (called.body or called.origin is None)
            if called is None or not is_read or any(each.plan is called for each in place):
                yield one, ()
            else:
                yield one, place
                yield from _calls(called.body, tree, place, called, dict(one.named))


def fact_of_act(act: Act, facts: Mapping[str, ToolFacts]) -> ToolFacts:
    """The facts about what a statement calls."""
    match act.kind:
        case CallKind.HUMAN:
            return _ASKS
        case CallKind.MODEL:
            return _MODEL
        case CallKind.AGENT:
            return _UNKNOWN
        case CallKind.TOOL | CallKind.TRANSFORM:
            return facts.get(act.tool, _UNKNOWN)


def _only_reads(fact: ToolFacts) -> bool:
    return fact.effect.only_reads or fact.independence.as_reads


def _declared_order(calls: Iterable[tuple[Act, ToolFacts, _Place]], writes: Act) -> ItemOrder:
    """How the items of a loop run of which a call may write."""
    named: tuple[Act, Independence] | None = None
    differing: list[Naming] = []
    known = set[tuple[Expression, ...]]()
    for one, fact, place in calls:
        declared = fact.independence
        if fact.effect in _ALONE or declared.commutes:
            continue
        if not declared.resource:
            does = "may see what" if fact.effect.only_reads else "may write"
            what = f" {writes.id} @{writes.tool} changes" if fact.effect.only_reads else ""
            return ItemOrder(False, f"{one.id} @{one.tool} {does}{what}")
        if named is not None and named[1].resource != declared.resource:
            first, before = named
            return ItemOrder(
                False,
                f"{first.id} and {one.id} may touch the same: {first.id} names it by "
                f"{listed(before.resource)}, {one.id} by {listed(declared.resource)}",
            )
        named = named or (one, declared)
        given = dict(named_arguments(one.positional, one.named, fact.parameters))
        for name in declared.resource:
            if name not in given:
                return ItemOrder(False, f"{one.id} @{one.tool} may touch anything without {name}")
            if _naming((given[name],), place) is None:
                return ItemOrder(False, f"{name} of {one.id} @{one.tool} is known only while an item runs")
        naming = _naming(tuple(given[name] for name in declared.resource), place)
        if naming is not None and (naming.through or naming.arguments not in known):
            differing.append(naming)
            known.update(() if naming.through else (naming.arguments,))
    if named is None:
        return ItemOrder(True, "its calls commute", is_declared=True)
    names = named[1].resource
    why = f"while its items differ in {listed(names)}, else one after another"
    return ItemOrder(True, why, names, tuple(differing), is_declared=True)


def _naming(arguments: tuple[Expression, ...], place: _Place) -> Naming | None:
    """What arguments of a call at a place follow from; None for what is known only while an item runs."""
    through: list[tuple[tuple[Input, Expression | None], ...]] = []
    wanted = arguments
    for made, plan, given in reversed(place):
        names = {name for each in wanted for name in variables_in(each)}
        if not names.isdisjoint(made) or any(asks_time(node) for each in wanted for node in nodes(each)):
            return None
        if plan is None:
            continue
        inputs = [each for each in plan.inputs if each.name in names]
        through.insert(0, tuple((each, given.get(each.name)) for each in inputs))
        wanted = tuple(value for _, value in through[0] if value is not None)
    return Naming(arguments, tuple(through))


def listed(names: Iterable[str]) -> str:
    """Names of arguments in words."""
    return " and ".join(names)


def _made_in(inner: Iterable[Statement]) -> frozenset[str]:
    """The variables that statements make, those of loops and handlers among them included."""
    made: set[str] = set()
    for one in inner:
        made.update(variables_set(one))
        if isinstance(one, Foreach):
            made.add(one.var)
        recovery = recovery_of(one)
        if recovery is not None:
            made.update(handler.binds for handler in recovery.handlers)
    return frozenset(made)


def all_differ(items: Iterable[Iterable[Sequence[Any]]], unknown: Collection[str] = ()) -> bool:
    """Whether no two items touch the same thing; each has for each of its calls the values that name it.

    A text may name anything if one that is `unknown` is in it, which only stands for another.

    Letter case, space around and how a number is written count for nothing, and a list names several things.
    What is no text, number or list of these may name anything, and so may more names than are compared.

    >>> all_differ([[("a", 1)], [("a", 2), ("b", 1)]]), all_differ([[("a",)], [("b",), ("A ",)]])
    (True, False)
    >>> all_differ([[(1,)], [([2, 1],)]]), all_differ([[(1,)], [(None,)]]), all_differ([[(1,)], [("01",)]])
    (False, False, False)
    """
    touched = Touched(unknown)
    return all(map(touched.takes, items))


class Touched:
    """The things that items touch, asked one after another (`all_differ`)."""

    def __init__(self, unknown: Collection[str] = ()) -> None:
        self._unknown = unknown
        self._seen: set[tuple[_Name, ...]] = set()
        self._room = _MOST_NAMES

    def takes(self, calls: Iterable[Sequence[Any]]) -> bool:
        """Whether it is known that the next item touches nothing that one before it touches."""
        own: set[tuple[_Name, ...]] = set()
        for values in calls:
            parts = [_names(one, self._unknown) for one in values]
            count = prod(map(len, parts))
            self._room -= count
            if not count or self._room < 0:
                return False
            own.update(product(*parts))
        is_new = self._seen.isdisjoint(own)
        self._seen |= own
        return is_new


def _names(value: Any, unknown: Collection[str]) -> list[_Name]:
    """The names in a value; none for what may name anything."""
    parts: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in parts):
        return []
    if any(each in one for each in unknown for one in parts if isinstance(one, str)):
        return []
    return [*map(_name, parts)]


def _name(one: str | float) -> _Name:
    """What is equal for whatever a tool may take for the same; one for numbers takes their texts, too."""
    if isinstance(one, int):
        return one
    text = unicodedata.normalize("NFKC", str(one)).casefold().strip()
    try:
        number = Decimal(text)
    except ArithmeticError:
        return text
    return number if number.is_finite() else text
