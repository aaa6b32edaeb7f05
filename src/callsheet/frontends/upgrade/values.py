"""Values and conditions of version 1 as expressions of version 2 with the same lenient meaning.

In: a `Value` or `Condition`, and what stands for some of its variables. Out: an `Expression`, in which the
functions `v1.…` stand where the two versions differ: paths, texts, comparisons, emptiness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, assert_never

from callsheet.ir import (
    And,
    Cast,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Not,
    NotEmpty,
    Or,
    Ref,
    Template,
    Value,
)
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Call,
    Display,
    Expression,
    Field,
    Hole,
    Kind,
    Logic,
    LogicOp,
    Text,
    Unary,
    UnaryOp,
    Variable,
)
from callsheet.ir.expression import Mapping as Pairs

Names: TypeAlias = "Mapping[str, Expression]"
"""What stands for a variable of version 1, where that is not the variable of this name."""


_COMPARED: Final = {
    CompareOp.EQ: "v1.equal",
    CompareOp.GT: "v1.greater",
    CompareOp.LT: "v1.less",
    CompareOp.GE: "v1.at_least",
    CompareOp.LE: "v1.at_most",
    CompareOp.CONTAINS: "v1.contains",
}


def expression_of(value: Value, names: Names) -> Expression:
    """The expression that has the value which version 1 gives."""
    match value:
        case Literal():
            return Literal(value.value)
        case Ref(name=name, path=path):
            variable = names.get(name) or Variable(name)
            return Call("v1.path", (variable, *map(Literal, path))) if path else variable
        case Template(parts=parts):
            return Text(
                tuple(part if isinstance(part, str) else Hole(_in_text(part, names)) for part in parts)
            )
        case ListExpr(items=items):
            return Display(Kind.LIST, tuple(expression_of(item, names) for item in items))
        case DictExpr(items=pairs):
            return Pairs(tuple((Literal(key), expression_of(held, names)) for key, held in pairs))
    assert_never(value)


def _in_text(ref: Ref, names: Names) -> Expression:
    held = names.get(ref.name)
    if isinstance(held, Field) and not ref.path:  # the text of an error
        return held
    return Call("v1.text", (names.get(ref.name) or Variable(ref.name), *map(Literal, ref.path)))


def condition_of(condition: Condition, names: Names) -> Expression:
    """The expression that is true where the condition of version 1 holds."""
    match condition:
        case Compare(op=CompareOp.NE, left=left, right=right):
            return negated(Call("v1.equal", (expression_of(left, names), expression_of(right, names))))
        case Compare(op=op, left=left, right=right):
            return Call(_COMPARED[op], (expression_of(left, names), expression_of(right, names)))
        case IsEmpty(value=value):
            return is_empty(value, names)
        case NotEmpty(value=value):
            return negated(is_empty(value, names))
        case Not(condition=inner):
            return negated(condition_of(inner, names))
        case And(conditions=inner):
            return joined(LogicOp.AND, [condition_of(one, names) for one in inner])
        case Or(conditions=inner):
            return joined(LogicOp.OR, [condition_of(one, names) for one in inner])
    assert_never(condition)


def is_empty(value: Value, names: Names) -> Expression:
    """Whether version 1 holds a value for empty."""
    return Call("v1.empty", (expression_of(value, names),))


def negated(condition: Expression) -> Expression:
    """The opposite of a condition that is a bool."""
    if isinstance(condition, Unary) and condition.op is UnaryOp.NOT:
        return condition.operand
    return Unary(UnaryOp.NOT, condition)


def joined(op: LogicOp, conditions: Iterable[Expression]) -> Expression:
    """Conditions joined by `and` or by `or`; at least one."""
    parts: list[Expression] = []
    for one in conditions:
        parts.extend(one.operands if isinstance(one, Logic) and one.op is op else [one])
    return parts[0] if len(parts) == 1 else Logic(op, tuple(parts))


def message_of(values: tuple[Value, ...], names: Names) -> Expression:
    """The text that version 1 makes of the values of a RESPOND or TERMINATE."""
    if len(values) == 1:
        made = expression_of(values[0], names)
        if isinstance(made, Text) or (isinstance(made, Literal) and isinstance(made.value, str)):
            return made
    return Call("v1.joined", tuple(expression_of(value, names) for value in values))


def may_be_silent(values: tuple[Value, ...]) -> bool:
    """Whether all values of a RESPOND may be empty, so that version 1 skips it."""
    return not any(map(_has_text, values))


def _has_text(value: Value) -> bool:
    match value:
        case Literal(value=held):
            return held is not None and (not isinstance(held, str) or bool(held.strip()))
        case Template(parts=parts):
            return any(isinstance(part, str) and bool(part.strip()) for part in parts)
        case ListExpr(items=items):
            return bool(items)
        case DictExpr(items=pairs):
            return bool(pairs)
        case Ref():
            return False
    assert_never(value)


def cast_of(cast: Cast | None, value: Expression) -> Expression:
    """A result as version 1 stores it: cast where that can be, and a failure as its text."""
    return Call("v1.value" if cast is None else f"v1.{cast.value}", (value,))
