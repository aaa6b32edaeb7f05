"""The operators, paths and slices of expressions, with CPython 3.12's results and errors.

In: an environment and values. Out: a value. What can make its result larger than its operands is counted, and
limited before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from datetime import date, datetime, timedelta
from typing import Any, Final, cast

from callsheet.machine.expressions.encoding import too_long
from callsheet.machine.expressions.values import (
    MAX_BITS,
    MAX_CHARACTERS,
    Environment,
    ExpressionFailed,
    FailureKind,
    FailureRecord,
    fields_of,
    ordered,
    type_name,
    type_of,
    weight,
)

MOST_ITEMS: Final = 1_000_000
"""How many items a list may have that an expression makes."""
_BITS_OF_UNIT: Final = 1 << 20
LISTS: Final[tuple[type[Any], ...]] = (list, tuple)
SEQUENCES: Final[tuple[type[Any], ...]] = (str, list, tuple)
SETS: Final[tuple[type[Any], ...]] = (set, frozenset)
CONTAINERS: Final[tuple[type[Any], ...]] = (list, tuple, dict, set, frozenset)


def is_any(value: Any, kinds: tuple[type[Any], ...]) -> bool:
    """As isinstance, for a value that stays of any type."""
    return isinstance(value, kinds)


def sequence(env: Environment, source: Any) -> list[Any]:
    """The items of something that can be gone through, as a new list, counted."""
    if is_any(source, SETS):
        return ordered(env, source)
    if isinstance(source, Sized):
        env.spend(len(source))
        return list(cast("Iterable[Any]", source))
    made: list[Any] = []
    for item in source:
        made.append(item)
        if len(made) > MOST_ITEMS:
            raise too_many()
    env.spend(len(made))
    return made


def too_many() -> ExpressionFailed:
    """The failure of a list with too many items."""
    return ExpressionFailed(FailureKind.LIMIT, f"a list may have at most {MOST_ITEMS:,} items")


# ---------------------------------------------------------------- operators


def add(env: Environment, left: Any, right: Any) -> Any:
    """`left + right`."""
    if is_any(left, SEQUENCES) and type(left) is type(right):
        size = len(left) + len(right)
        if isinstance(left, str):
            if size > MAX_CHARACTERS:
                raise too_long()
            env.spend(1 + (size >> 6))
        else:
            if size > MOST_ITEMS:
                raise too_many()
            env.spend(size)
    return left + right


def multiply(env: Environment, left: Any, right: Any) -> Any:
    """`left * right`: numbers, and a text or list as many times as the number says."""
    if is_any(left, (int,)) and is_any(right, (int,)):
        if left.bit_length() + right.bit_length() > MAX_BITS:
            raise _too_large()
        spend_on_bits(env, left.bit_length() * right.bit_length())
        return left * right
    pairs: tuple[tuple[Any, Any], ...] = ((left, right), (right, left))
    for many, count in pairs:
        if is_any(many, SEQUENCES) and is_any(count, (int,)):
            size: int = len(many) * max(count, 0)
            if size > (MAX_CHARACTERS if isinstance(many, str) else MOST_ITEMS):
                raise too_long() if isinstance(many, str) else too_many()
            env.spend(1 + (size >> 6) if isinstance(many, str) else size)
    return left * right


def power(env: Environment, left: Any, right: Any) -> Any:
    """`left ** right`."""
    if isinstance(left, int) and isinstance(right, int) and right > 0:
        bits = left.bit_length() * right
        if bits > MAX_BITS:
            raise _too_large()
        spend_on_bits(env, bits * bits)
    made = left**right
    if isinstance(made, complex):
        raise ExpressionFailed(
            FailureKind.VALUE, "a negative number has no such power among the real numbers"
        )
    return made


def remainder(env: Environment, left: Any, right: Any) -> Any:
    """`left % right` of numbers and durations; the % of texts is not taken."""
    if isinstance(left, str):
        raise ExpressionFailed(FailureKind.TYPE, 'a text has no %; write "${x:.2f}"')
    if is_any(left, (int,)) and is_any(right, (int,)):
        spend_on_bits(env, left.bit_length() * right.bit_length())
    return left % right


def quotient(env: Environment, left: Any, right: Any) -> Any:
    """`left // right` of numbers and durations."""
    if is_any(left, (int,)) and is_any(right, (int,)):
        spend_on_bits(env, left.bit_length() * right.bit_length())
    return left // right


def combined(env: Environment, op: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`|`, `&` and `^` of sets, dicts and integers."""
    env.spend(weight(left) + weight(right))
    return op(left, right)


def spend_on_bits(env: Environment, product: int) -> None:
    """Count what an operation on integers takes, whose work grows with the product of their bits."""
    if product >= _BITS_OF_UNIT:
        env.spend(product // _BITS_OF_UNIT)


def _too_large() -> ExpressionFailed:
    return ExpressionFailed(FailureKind.LIMIT, f"an integer may have at most {MAX_BITS:,} bits")


# ---------------------------------------------------------------- paths

_FIELDS: Final[dict[type, frozenset[str]]] = {
    date: frozenset({"year", "month", "day"}),
    datetime: frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond"}),
    timedelta: frozenset({"days", "seconds", "microseconds"}),
}


def field(value: Any, name: str) -> Any:
    """`value.name`: a key of a dict, or a part of a date or duration. Raises ExpressionFailed."""
    kind = type_of(value)
    if kind is dict or kind is FailureRecord:
        try:
            return value[name]
        except KeyError:
            raise absent(value, name) from None
    known = _FIELDS.get(kind, frozenset())
    if name in known:
        return getattr(value, name)
    if value is None:
        raise ExpressionFailed(
            FailureKind.TYPE, f"null has no field {name}; a path that may end here is written .{name}?"
        )
    names = f"; it has {', '.join(sorted(known))}" if known else ""
    raise ExpressionFailed(FailureKind.ATTRIBUTE, f"{type_name(value)} has no field {name}{names}")


def absent(value: dict[Any, Any], key: Any) -> ExpressionFailed:
    """The failure of a key that a dict does not have."""
    message = f"there is no field {key!r}; {fields_of(value)}"
    return ExpressionFailed(FailureKind.KEY, message, is_absent=True, words=repr(key))


def at(value: Any, index: Any) -> Any:
    """`value[index]`. Raises ExpressionFailed."""
    kind = type_of(value)
    if kind is dict or kind is FailureRecord:
        try:
            return value[index]
        except KeyError:
            raise absent(value, index) from None
    if kind in (list, tuple, str):
        if type(index) is bool:
            index = int(index)
        if type(index) is not int:
            raise ExpressionFailed(
                FailureKind.TYPE, f"the index of a {type_name(value)} is an int, not {type_name(index)}"
            )
        try:
            return value[index]
        except IndexError:
            raise ExpressionFailed(
                FailureKind.INDEX,
                f"there is no item {index}: there are {len(value)}",
                is_absent=True,
                words=f"{'string' if kind is str else kind.__name__} index out of range",
            ) from None
    if value is None:
        raise ExpressionFailed(
            FailureKind.TYPE, "null has no items; a path that may end here is written [ ]?"
        )
    raise ExpressionFailed(FailureKind.TYPE, f"{type_name(value)} has no items")


class Cut:
    """What a chain gives after `?` found nothing: the rest is null too."""


CUT: Final = Cut()


def field_or_cut(value: Any, name: str) -> Any:
    """`value.name?`: CUT where the value is null or has no such field."""
    if value is None or (is_any(value, (dict,)) and name not in value):
        return CUT
    found = field(value, name)
    return CUT if found is None else found


def at_or_cut(value: Any, index: Any) -> Any:
    """`value[index]?`: CUT where the value is null or has no such item."""
    if value is None:
        return CUT
    try:
        found = at(value, index)
    except ExpressionFailed as failure:
        if failure.is_absent:
            return CUT
        raise
    return CUT if found is None else found


def sliced(env: Environment, value: Any, start: Any, stop: Any, step: Any) -> Any:
    """`value[start:stop:step]`."""
    if not is_any(value, SEQUENCES):
        raise ExpressionFailed(FailureKind.TYPE, f"{type_name(value)} has no slices")
    made = cast("list[Any]", value[start:stop:step])
    env.spend(1 + (len(made) >> 6 if isinstance(value, str) else len(made)))
    return made


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "|": lambda left, right: left | right,
    "&": lambda left, right: left & right,
    "^": lambda left, right: left ^ right,
}
"""The operators that `combined` counts."""
