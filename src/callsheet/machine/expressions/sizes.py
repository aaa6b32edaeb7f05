"""Which expressions can make values larger than their variables, and how much larger at most.

`$rows + [$row]` in a loop costs what its new part costs: what is known of `$rows` is not measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Bound,
    Call,
    Clause,
    Coalesce,
    Compared,
    Comprehension,
    Conditional,
    Display,
    Expression,
    Field,
    Index,
    Kind,
    Logic,
    Mapping,
    Method,
    Slice,
    Text,
    Unary,
    Variable,
)
from callsheet.machine.expressions.values import PART, Size, Sizes, scalar_units

_SAME_PARTS: Final = frozenset({"sorted", "list", "tuple", "reversed", "set", "min", "max"})
"""The functions whose value has no more parts than their arguments."""
_JOINING: Final = frozenset(
    {BinaryOp.ADD, BinaryOp.SUBTRACT, BinaryOp.UNION, BinaryOp.INTERSECTION, BinaryOp.DIFFERENCE}
)
"""The operators whose value has no more parts than both operands."""

SizeOf: TypeAlias = "Callable[[list[Any], Sizes], Size | None]"
"""From the variables' slots: what an expression's value does not exceed in size; None if that is unknown."""


def unbounded(slots: list[Any], sizes: Sizes) -> None:
    """The `SizeOf` of an expression of whose value nothing is known."""


def size_of(node: Expression, slot_of: Callable[[str], int]) -> SizeOf | None:  # noqa: PLR0911 - a case each
    """What bounds the size of an expression's value; None if it is no larger than a part of a variable."""
    match node:
        case Literal() | Variable() | Bound() | Compared() | Unary() | Text():
            return None
        case Field(target=target) | Index(target=target) | Slice(target=target):
            return size_of(target, slot_of) and unbounded
        case Conditional(then=then, otherwise=otherwise):
            return _any((then, otherwise), slot_of)
        case Coalesce(left=left, right=right):
            return _any((left, right), slot_of)
        case Logic(operands=operands):
            return _any(operands, slot_of)
        case Method(target=target, arguments=arguments, named=named):
            return _any((target, *arguments, *(value for _, value in named)), slot_of)
        case Call(function=name, arguments=arguments) if name in _SAME_PARTS:
            return _any(arguments, slot_of)
        case Binary(op=op, left=left, right=right) if op in _JOINING:
            return _sum((left, right), slot_of, 0)
        case Comprehension(element=element, clauses=(Clause(source=source),), key=None) if _is_part(element):
            return size_of(source, slot_of)
        case Display(kind=Kind.LIST | Kind.TUPLE, items=items):
            return _sum(items, slot_of, 1)
        case Mapping(items=pairs):
            return _sum(tuple(one for pair in pairs for one in pair), slot_of, 1)
        case _:
            return unbounded


def _is_part(element: Expression) -> bool:
    """Whether the element of a comprehension is a part of what it goes through, or no container."""
    while isinstance(element, Field | Index):
        element = element.target
    return isinstance(element, Bound | Literal | Compared | Unary | Text)


def _any(parts: Iterable[Expression], slot_of: Callable[[str], int]) -> SizeOf | None:
    return unbounded if any(size_of(part, slot_of) is not None for part in parts) else None


def _sum(parts: tuple[Expression, ...], slot_of: Callable[[str], int], level: int) -> SizeOf:
    """The bound of what holds these parts once each, as many levels above them."""
    slots_read: list[int] = []
    others: list[SizeOf] = []
    fixed = PART
    for part in parts:
        match part:
            case Variable(name=name):
                slots_read.append(slot_of(name))
            case Literal(value=value):
                fixed += scalar_units(value)
            case _:
                inner = size_of(part, slot_of)
                if inner is None or inner is unbounded:
                    return unbounded
                others.append(inner)

    def bound(slots: list[Any], sizes: Sizes) -> Size | None:
        total, deepest = fixed, 0
        for slot in slots_read:
            units, levels = sizes.of(slots[slot])
            total += units
            deepest = max(deepest, levels)
        for other in others:
            held = other(slots, sizes)
            if held is None:
                return None
            units, levels = held
            total += units
            deepest = max(deepest, levels)
        return total, deepest + level

    return bound
