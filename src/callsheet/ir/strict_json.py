"""Strict JSON: refuses duplicate keys, numbers out of range, deep nesting, and all but the wanted fields.

`json.loads` silently takes the last of duplicate keys, accepts NaN and Infinity, and turns 1e999 into an
infinity.

A reader is a function from data to what it represents. It raises `Refused`, and each reader around it adds
the key or index of the place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast


class NotJson(ValueError):
    """The text is not valid JSON; `at` is the character offset of the error, if known."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason)
        self.at = at


def read_json(text: str) -> Any:
    """The value of a JSON text; raises NotJson.

    >>> read_json('{"a": [1, 2.5, null]}')
    {'a': [1, 2.5, None]}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    callsheet.ir.strict_json.NotJson: the key 'a' occurs twice in one object
    """
    try:
        return _decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(error.msg[:1].lower() + error.msg[1:], error.pos) from None
    except RecursionError:
        raise NotJson("it is nested too deep") from None
    except NotJson:
        raise
    except ValueError:
        raise NotJson("a number in it has too many digits") from None


def finite(text: str) -> float:
    """The value of a JSON number; raises NotJson if it exceeds the range of a float."""
    value = float(text)
    if not math.isfinite(value):
        raise NotJson(f"a number cannot be as large as {text[:40]}")
    return value


def refuse_constant(name: str) -> NoReturn:
    """Raises NotJson; the parser calls it for NaN and infinities."""
    raise NotJson(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    object_ = dict(pairs)
    if len(object_) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise NotJson(f"the key {twice[:60]!r} occurs twice in one object")
    return object_


_decode = json.JSONDecoder(object_pairs_hook=_once, parse_float=finite, parse_constant=refuse_constant).decode


Json = Any
_T = TypeVar("_T")

SHOWN = 60
"""How many characters of a string an error shows."""
_MUCH = 10**20
"""From this absolute value on an error does not show a number."""


class Refused(Exception):
    """Data of another form than expected; `at` has the keys and indexes of its place, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at: list[str | int] = []

    def within(self, key: str | int) -> Refused:
        """This error, with the key or index of the object or array around its place."""
        self.at.append(key)
        return self

    def pointer(self) -> str:
        """The place as a JSON pointer (RFC 6901); empty for the whole document."""
        keys = (str(key).replace("~", "~0").replace("/", "~1") for key in reversed(self.at))
        return "".join(f"/{key}" for key in keys)


def read_object(data: object, names: frozenset[str] | None = None) -> Mapping[str, Json]:
    """An object; with `names`, one that has no other fields."""
    if type(data) is not dict and not isinstance(data, Mapping):
        raise Refused(f"expected an object, found {described(data)}")
    fields = cast("Mapping[str, Json]", data)
    if names is not None:
        refuse_unknown(fields, names)
    return fields


def refuse_unknown(fields: Mapping[str, Json], names: frozenset[str]) -> None:
    """Refuses an object that has other fields than these."""
    if not fields.keys() <= names:
        unknown = min(str(name) for name in fields.keys() - names)
        raise Refused(f"unknown field {unknown[:SHOWN]!r}")


def read_field(read: Callable[[Any], _T], fields: Mapping[str, Json], name: str) -> _T:
    """A field that must be there, read; errors have its name in their place."""
    try:
        if name not in fields:
            raise Refused("the field is missing")
        return read(fields[name])
    except Refused as refused:
        refused.within(name)
        raise


def read_optional(read: Callable[[Any], _T], fields: Mapping[str, Json], name: str) -> _T | None:
    """A field, read, or None if there is none; null is not a missing field."""
    return read_field(read, fields, name) if name in fields else None


def read_each(read: Callable[[Any], _T], items: list[Json], *, first: int = 0) -> tuple[_T, ...]:
    """All items, read; errors have the index in their place. `first` is the index of the first item."""
    done: list[_T] = []
    try:
        for item in items:
            done.append(read(item))
    except Refused as refused:
        refused.within(first + len(done))
        raise
    return tuple(done)


def read_array(data: object) -> list[Json]:
    """An array."""
    if not isinstance(data, list):
        raise Refused(f"expected an array, found {described(data)}")
    return cast("list[Json]", data)


def read_filled(data: object) -> list[Json]:
    """An array of a field that is left out rather than empty."""
    items = read_array(data)
    if not items:
        raise Refused("expected a field that is left out when it is empty, found an empty array")
    return items


def read_one_of(known: Mapping[str, _T], data: object) -> _T:
    """What one of the known strings stands for."""
    if not isinstance(data, str) or data not in known:
        raise Refused(f"expected {' or '.join(known)}, found {described(data)}")
    return known[data]


def read_text(data: object) -> str:
    """A string."""
    if not isinstance(data, str):
        raise Refused(f"expected a string, found {described(data)}")
    return data


def read_natural(data: object) -> int:
    """A whole number from 0 on, without a decimal point."""
    if type(data) is not int or data < 0:
        raise Refused(f"expected a whole number of at least 0, found {described(data)}")
    return data


def read_amount(data: object) -> float:
    """A finite number from 0 on."""
    if isinstance(data, bool) or not isinstance(data, int | float) or not 0 <= data < math.inf:
        raise Refused(f"expected a number of at least 0, found {described(data)}")
    return data


def described(data: object) -> str:
    """How an error names data: numbers and constants as JSON writes them, anything else by its type."""
    match data:
        case None:
            return "null"
        case bool():
            return "true" if data else "false"
        case float() if not math.isfinite(data):
            return str(data)
        case int() | float():
            return f"the number {data}" if abs(data) < _MUCH else "a large number"
        case str():
            return f"the string {data[:SHOWN]!r}"
        case list():
            return "an array"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(data).__name__}, which JSON does not have"
