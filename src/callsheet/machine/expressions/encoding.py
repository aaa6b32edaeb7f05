"""Encodes values of expressions: as an answer, as JSON data of arguments and journals, and inside a text.

In: a value. Out: what stands for it there. Raises ExpressionFailed for what has nothing there: a set without
an order, nan, a failure, an object of a class.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from callsheet.machine.expressions.values import (
    HELD_ITEMS,
    MAX_CHARACTERS,
    Environment,
    ExpressionFailed,
    FailureKind,
    FailureRecord,
    Kept,
    in_order,
    type_name,
    type_of,
    writable,
)

_TEXT: Final[frozenset[type]] = frozenset({str})
_SAME: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
"""The types of values that are JSON as they are."""
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def answerable(value: Any) -> Any:
    """A value as an answer has it: with the list of their sorted elements in place of sets.

    Raises ExpressionFailed for a set whose elements have no order.

    >>> answerable(({3, 1}, {"tags": {"b", "a"}}))
    ([1, 3], {'tags': ['a', 'b']})
    """
    match value:
        case set() | frozenset():
            return [answerable(one) for one in in_order(cast("AbstractSet[Any]", value))]
        case list():
            return [answerable(one) for one in cast("list[Any]", value)]
        case tuple():
            return tuple(answerable(one) for one in cast("tuple[Any, ...]", value))
        case dict() if not isinstance(value, FailureRecord):
            return {key: answerable(one) for key, one in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def to_json(value: Any) -> Any:
    """A value as JSON data, as tools and answers get it: a tuple as list, a date as text.

    A part that stands in it more than once is made once. Raises ExpressionFailed for a set, nan, an infinity,
    and keys that would be the same text (decision 11).
    """
    return _to_json(value, {})


def _to_json(value: Any, made: dict[int, Any]) -> Any:
    kind = type_of(value)
    if kind in _SAME:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ExpressionFailed(FailureKind.VALUE, f"{value} is no number that JSON has")
        return value
    if kind in (list, tuple):
        found = made.get(id(value))
        if found is None:
            found = made[id(value)] = [one if type(one) in _SAME else _to_json(one, made) for one in value]
        return found
    if kind is dict:
        found = made.get(id(value))
        if found is None:
            found = made[id(value)] = _json_object(value, made)
        return found
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, FailureRecord):
        raise ExpressionFailed(
            FailureKind.TYPE,
            f"{value.get('step')} has failed, and its failure is used as data; test it with FAILED(…)",
        )
    if isinstance(value, Kept):
        if value.kind == "enum" and value.parts[3]:
            return _to_json(value.parts[2], made)
        if value.kind == "named":
            return [_to_json(one, made) for one in value.parts[2]]
        items = value.parts[HELD_ITEMS[value.kind]] if value.kind in HELD_ITEMS else None
        if isinstance(items, dict):
            return _json_object(cast("dict[Any, Any]", items), made)
    raise ExpressionFailed(
        FailureKind.TYPE, f"{type_name(value)} is nothing that JSON has; {_as_data(value)}"
    )


def _as_data(value: Any) -> str:
    if isinstance(value, Kept) and value.kind == "class":
        return "write its fields: dataclasses.asdict(…), or a dict of them"
    if isinstance(value, Kept) and value.kind == "enum":
        return "write its .value"
    return "write str(…)" if isinstance(value, (Kept, Decimal, bytes, time)) else "write list(…)"


def _json_object(members: dict[Any, Any], made: dict[int, Any]) -> dict[str, Any]:
    if _TEXT.issuperset(map(type, members)):
        return {key: one if type(one) in _SAME else _to_json(one, made) for key, one in members.items()}
    named: dict[str, Any] = {}
    for key, held in members.items():
        name = key if isinstance(key, str) else json_key(key)
        if name in named:
            raise ExpressionFailed(FailureKind.VALUE, f"two keys of this dict are {name!r} as text")
        named[name] = _to_json(held, made)
    return named


def json_key(key: Any) -> str:
    """A key of a dict as JSON has it. Raises ExpressionFailed for one that JSON lacks."""
    if isinstance(key, Kept) and key.kind == "enum" and key.parts[3]:
        return key.parts[2] if isinstance(key.parts[2], str) else json_key(key.parts[2])
    if key is None or isinstance(key, (bool, int, float)):
        return _encode(to_json(key))
    raise ExpressionFailed(FailureKind.TYPE, f"{type_name(key)} is no key that JSON has")


def to_text(env: Environment, value: Any) -> str:
    """A value inside a text: a str is itself, all else is JSON. Raises ExpressionFailed for None."""
    if isinstance(value, str):
        return value
    if value is None:
        raise ExpressionFailed(
            FailureKind.VALUE, 'null stands in a text; say what to write instead: ${… ?? "none"}'
        )
    writable(value)
    made = to_json(value)
    text = made if isinstance(made, str) else _encode(made)
    env.spend(1 + (len(text) >> 4))
    return text


def joined(env: Environment, parts: Iterable[str]) -> str:
    """The parts of a text as one."""
    text = "".join(parts)
    return limited(env, text)


def limited(env: Environment, text: str) -> str:
    """A text that was made, counted. Raises ExpressionFailed if it is too long."""
    if len(text) > MAX_CHARACTERS:
        raise too_long()
    env.spend(1 + (len(text) >> 6))
    return text


def too_long() -> ExpressionFailed:
    """The failure of a text beyond the limit."""
    return ExpressionFailed(FailureKind.LIMIT, f"a text may have at most {MAX_CHARACTERS:,} characters")
