"""What a condition that turned out true or false tells about the paths in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Bound,
    Call,
    Compared,
    Comparison,
    Expression,
    Field,
    Index,
    Logic,
    LogicOp,
    Unary,
    UnaryOp,
    Variable,
)
from callsheet.passes.structured.shapes import ANY, FAILURE, NULL, Shape, Special

Path: TypeAlias = "tuple[str | int, ...]"
"""A variable, as `$name`, or a bound name, and the literal keys that follow it."""
Change: TypeAlias = "Callable[[Shape], Shape]"


def _not_null(shape: Shape) -> Shape:
    rest = shape.without(Special.NULL)
    return rest if rest.kinds else ANY


def _succeeded(shape: Shape) -> Shape:
    rest = shape.without(Special.FAILURE)
    return rest if rest.kinds else ANY


def tests_of(node: Expression, truth: bool) -> Iterator[tuple[Expression, Change]]:  # noqa: PLR0912
    """What a condition tells if it is true, or false: parts of it, and how their shapes change."""
    match node:
        case Unary(op=UnaryOp.NOT, operand=operand):
            yield from tests_of(operand, not truth)
        case Logic(op=op, operands=operands):
            if truth == (op is LogicOp.AND):
                for operand in operands:
                    yield from tests_of(operand, truth)
        case Call(function=function, arguments=(argument,)) if function.upper() == "FAILED":
            yield argument, (lambda shape: FAILURE) if truth else _succeeded
        case Call(function=function, arguments=(argument,)) if function.upper() == "IS_EMPTY":
            if not truth:
                yield from _there(argument)
        case Compared(first=first, rest=((op, right),)):
            is_null = isinstance(right, Literal) and right.value is None
            if is_null and op in (Comparison.IS, Comparison.EQ, Comparison.IS_NOT, Comparison.NE):
                if truth == (op in (Comparison.IS, Comparison.EQ)):
                    yield first, lambda shape: NULL
                else:
                    yield from _there(first)
            elif truth and op is Comparison.EQ and isinstance(right, Literal):
                yield from _there(first)
            elif (
                truth and op is Comparison.IN and isinstance(first, Literal) and isinstance(first.value, str)
            ):
                yield Field(right, first.value, is_optional=True), lambda shape: shape
        case Variable() | Bound() | Field() | Index() if truth:
            yield from _there(node)
        case _:
            pass


def _there(node: Expression) -> Iterator[tuple[Expression, Change]]:
    """A path that is not null, and so is each part before a step of it."""
    yield node, _not_null
    while isinstance(node, Field | Index):
        node = node.target
        yield node, _not_null


def can_be(condition: Expression, *, truth: bool) -> bool:
    """Whether a condition can turn out so: a constant is always true, or always false."""
    return not isinstance(condition, Literal) or bool(condition.value) is truth


def path_of(node: Expression) -> Path | None:
    """The variable or bound name and the literal keys that a path consists of; None for anything else."""
    keys: list[str | int] = []
    while True:
        match node:
            case Field(target=target, name=name):
                keys.append(name)
                node = target
            case Index(target=target, index=Literal(value=str() | int() as key)):
                keys.append(key)
                node = target
            case Variable(name=name):
                return (f"${name}", *reversed(keys))
            case Bound(name=name):
                return (name, *reversed(keys))
            case _:
                return None
