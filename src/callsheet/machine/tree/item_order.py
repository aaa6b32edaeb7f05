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
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import CallKind, Effect
from callsheet.ir.expression import Expression, asks_time, nodes, variables_in
from callsheet.ir.operations import Independence
from callsheet.ir.plan import named_arguments
from callsheet.ir.scopes import assigned_outside, ends_early
from callsheet.ir.tree import Act, Foreach, Invoke, Statement, recovery_of, statements, variables_set
from callsheet.machine.program import ToolFacts

_Name: TypeAlias = "str | int | Decimal"
_MOST_NAMES = 1_000_000
"""How many names of things are compared when a loop begins: seconds of work, and what memory holds."""
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
    differing: tuple[tuple[Expression, ...], ...] = ()
    is_declared: bool = False


def order_of_items(loop: Foreach, facts: Mapping[str, ToolFacts]) -> ItemOrder:
    """How the items of a loop run, by facts about the tools that it calls."""
    if loop.in_order:
        return ItemOrder(False, "it says IN ORDER")
    inner = [*statements(loop.body)]
    assigned = sorted(assigned_outside(loop))
    if assigned:
        names = ", ".join(f"${name}" for name in assigned)
        return ItemOrder(False, f"it sets {names}, which the next item sees")
    if ends_early(loop.body):
        return ItemOrder(False, "an item may end it early")
    if loop.together:
        most = "" if loop.most is None else f", at most {loop.most} at a time"
        return ItemOrder(True, f"it says {loop.order.partition(' MAX')[0]}{most}")
    invoked = next((one for one in inner if isinstance(one, Invoke)), None)
    if invoked is not None:
        return ItemOrder(False, f"it calls the sub-plan {invoked.plan} ({invoked.id})")
    calls = [(one, fact_of_act(one, facts)) for one in inner if isinstance(one, Act)]
    writes = [one for one, fact in calls if not _only_reads(fact)]
    if not writes:
        return ItemOrder(True, "all its calls only read")
    return _declared_order(loop, inner, calls, writes[0])


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


def _declared_order(
    loop: Foreach, inner: Sequence[Statement], calls: Iterable[tuple[Act, ToolFacts]], writes: Act
) -> ItemOrder:
    """How the items of a loop run of which a call may write."""
    made = _made_in(inner)
    named: tuple[Act, Independence] | None = None
    differing: list[tuple[Expression, ...]] = []
    for one, fact in calls:
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
            late = [each for each in variables_in(given[name]) if each in made]
            if late or any(map(asks_time, nodes(given[name]))):
                return ItemOrder(False, f"{name} of {one.id} @{one.tool} is known only while an item runs")
        differing.append(tuple(given[name] for name in declared.resource))
    if named is None:
        return ItemOrder(True, "its calls commute", is_declared=True)
    names = named[1].resource
    why = f"while its items differ in {listed(names)}, else one after another"
    return ItemOrder(True, why, names, tuple(dict.fromkeys(differing)), is_declared=True)


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


def all_differ(items: Iterable[Iterable[Sequence[Any]]]) -> bool:
    """Whether no two items touch the same thing; each has for each of its calls the values that name it.

    Letter case, space around and how a number is written count for nothing, and a list names several things.
    What is no text, number or list of these may name anything, and so may more names than are compared.

    >>> all_differ([[("a", 1)], [("a", 2), ("b", 1)]]), all_differ([[("a",)], [("b",), ("A ",)]])
    (True, False)
    >>> all_differ([[(1,)], [([2, 1],)]]), all_differ([[(1,)], [(None,)]]), all_differ([[(1,)], [("01",)]])
    (False, False, False)
    """
    seen: set[tuple[_Name, ...]] = set()
    room = _MOST_NAMES
    for calls in items:
        own: set[tuple[_Name, ...]] = set()
        for values in calls:
            parts = [*map(_names, values)]
            count = prod(map(len, parts))
            room -= count
            if not count or room < 0:
                return False
            own.update(product(*parts))
        if not seen.isdisjoint(own):
            return False
        seen |= own
    return True


def _names(value: Any) -> list[_Name]:
    """The names in a value; none for what may name anything."""
    parts: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, bool) or not isinstance(one, str | int | float) for one in parts):
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
