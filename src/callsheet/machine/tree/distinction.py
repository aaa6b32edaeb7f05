"""Compiles what tells the items of a loop apart: the names of the things that their calls touch.

In: the order of a loop's items, the scope of an item. Out: operands over the slots of an item at its start. A
name that comes through sub-plans is computed as their calls would: each input is made one of its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.ir.expression import Expression
from callsheet.ir.types import Record, Type
from callsheet.machine.expressions import Compiled, ExpressionFailed, FailureKind
from callsheet.machine.tree.item_order import ItemOrder, Naming
from callsheet.machine.tree.program import Const, Distinction, Operand, value_of
from callsheet.machine.tree.slots import BodyScope
from callsheet.machine.tree.values import conformed

if TYPE_CHECKING:
    from callsheet.machine.expressions.values import Environment

_Compile: TypeAlias = "Callable[[Expression, BodyScope], Operand]"


def distinction_of(
    order: ItemOrder, var: str, item: BodyScope, compile_: _Compile, types: Mapping[str, Record]
) -> Distinction:
    """What tells the items of a loop apart, whose variable is `var`."""
    outer = dict.fromkeys(name for each in order.differing for name in each.reads if name != var)
    named = tuple(_operands(each, item, compile_, types) for each in order.differing)
    return Distinction(order.arguments, named, tuple(outer))


def _operands(
    naming: Naming, scope: BodyScope, compile_: _Compile, types: Mapping[str, Record]
) -> tuple[Operand, ...]:
    if not naming.through:
        return tuple(compile_(each, scope) for each in naming.arguments)
    (inputs, *deeper), inner = naming.through, BodyScope()
    given = tuple(
        (inner.own(one.name), Const(one.default) if value is None else compile_(value, scope), one.type)
        for one, value in inputs
    )
    operands = _operands(Naming(naming.arguments, tuple(deeper)), inner, compile_, types)
    passed = partial(_passed, given, inner, types)
    return tuple(Compiled(partial(passed, operand), 1) for operand in operands)


def _passed(
    given: tuple[tuple[int, Operand, Type], ...],
    inner: BodyScope,
    types: Mapping[str, Record],
    operand: Operand,
    slots: list[Any],
    env: Environment,
) -> Any:
    """What an operand of a sub-plan gives when it is called."""
    own: list[Any] = [None] * inner.body.size
    for slot, value, kind in given:
        own[slot], wrong = conformed(value_of(value, slots, env), kind, types)
        if wrong:
            raise ExpressionFailed(FailureKind.TYPE, wrong)
    return value_of(operand, own, env)
