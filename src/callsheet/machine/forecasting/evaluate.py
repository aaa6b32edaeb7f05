"""Evaluates values and conditions of a plan over variables of which some are unknown.

If everything they read is known, the result is that of `machine.closures`; otherwise as much of it as is
certain. A condition whose result depends on unknown values is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, assert_never

from callsheet.ir import (
    And,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Ref,
    Template,
    Value,
)
from callsheet.machine.forecasting.partial_values import (
    Foreseen,
    Unknown,
    at_path,
    dict_of,
    emptiness,
    is_known,
    list_of,
    parts_of_text,
    text_of,
)
from callsheet.machine.values import compare

Scope: TypeAlias = "Callable[[str], Foreseen]"
"""Returns the value of a variable by name, null if it is not set."""


def evaluate(value: Value, scope: Scope) -> Foreseen:
    """The value as far as it is known."""
    match value:
        case Literal(value=scalar):
            return scalar
        case Ref(name=name, path=path):
            return at_path(scope(name), path)
        case Template(parts=parts):
            return text_of([text for part in parts for text in _texts(part, scope)])
        case ListExpr(items=items):
            return list_of([evaluate(item, scope) for item in items])
        case DictExpr(items=pairs):
            return dict_of([(key, evaluate(item, scope)) for key, item in pairs])
    assert_never(value)


def _texts(part: str | Ref, scope: Scope) -> tuple[str | Unknown, ...]:
    return (part,) if isinstance(part, str) else parts_of_text(evaluate(part, scope))


def decide(condition: Condition, scope: Scope) -> bool | None:
    """Whether the condition holds; None if that depends on unknown values."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return _compare(op, evaluate(left, scope), evaluate(right, scope))
        case IsEmpty(value=value):
            return emptiness(evaluate(value, scope))
        case NotEmpty(value=value):
            return opposite(emptiness(evaluate(value, scope)))
        case Not(condition=inner):
            return opposite(decide(inner, scope))
        case And(conditions=inner):
            return all_hold(decide(c, scope) for c in inner)
        case Or(conditions=inner):
            return opposite(all_hold(opposite(decide(c, scope)) for c in inner))
    assert_never(condition)


def _compare(op: CompareOp, left: Foreseen, right: Foreseen) -> bool | None:
    if not is_known(left) or not is_known(right):
        return None
    return compare(op, left, right)  # pyright: ignore[reportArgumentType]


def opposite(verdict: bool | None) -> bool | None:
    """The negation; None stays None."""
    return None if verdict is None else not verdict


def all_hold(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all hold, in three-valued logic: False if one is False, else None if one is None."""
    result: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        if verdict is None:
            result = None
    return result
