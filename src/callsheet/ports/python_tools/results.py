"""Converts the return value of a function to JSON, deterministically.

In: any Python value. Out: new JSON data (the function keeps its own objects), or ToolFailed naming the type
that has no JSON form.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from callsheet.ir import JSON
from callsheet.ir.canon import canonical_bytes
from callsheet.ports.calls import ToolFailed

_PLAIN = frozenset({str, int, bool, type(None)})


def to_json(value: object) -> JSON:
    """The value as JSON data.

    Dataclasses, named tuples and pydantic models become objects; enum members their values; dates and times
    ISO 8601 strings; durations seconds; UUIDs, decimals and paths strings; bytes base64; tuples lists; sets
    lists sorted by the JSON of their items. Raises ToolFailed for anything else, for numbers that are not
    finite and for values nested too deeply.

    >>> to_json({"when": date(2026, 1, 31), "tags": {"b", "a"}})
    {'when': '2026-01-31', 'tags': ['a', 'b']}
    """
    if type(value) in _PLAIN:
        return cast("JSON", value)
    try:
        return _convert(value)
    except RecursionError:
        raise ToolFailed("the result is nested too deeply to be JSON, or contains itself") from None


def _convert(value: Any) -> JSON:
    kind = cast("Any", type(value))
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {(k if type(k) is str else _key(k)): _convert(v) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [_convert(v) for v in value]
    if kind is float:
        return _finite(value)
    return _convert_other(value)


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise ToolFailed(f"the result contains {value}, which JSON cannot represent")


def _key(key: Any) -> str:
    """An object key as a string."""
    plain = _convert(key)
    if isinstance(plain, str):
        return plain
    if plain is None or isinstance(plain, list | dict):
        raise ToolFailed(f"the result has a key of type {type(key).__name__}; a key must be a text")
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _object(value: Any) -> dict[str, JSON]:
    return {_key(k): _convert(v) for k, v in value.items()}


def _list(value: Any) -> list[JSON]:
    return [_convert(v) for v in value]


_WRITERS: tuple[tuple[Any, Callable[[Any], JSON]], ...] = (
    (Enum, lambda v: _convert(v.value)),
    (str, str.__str__),
    (int, int),
    (float, lambda v: _finite(float(v))),
    ((bytes, bytearray, memoryview), lambda v: base64.b64encode(v).decode("ascii")),
    ((datetime, date, time), lambda v: v.isoformat()),
    (timedelta, lambda v: v.total_seconds()),
    ((UUID, Decimal, PurePath), str),
    (Mapping, _object),
    ((set, frozenset), lambda v: sorted(_list(v), key=canonical_bytes)),
    ((list, tuple), _list),
)
"""Converters by type; the first that matches is used."""


def _convert_other(value: Any) -> JSON:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _convert(getattr(value, f.name)) for f in dataclasses.fields(value)}
    for method, options in (("_asdict", {}), ("model_dump", {"mode": "python", "by_alias": True})):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            return _convert(dump(**options))
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise ToolFailed(f"the result contains a value of type {_type_name(value)}, which JSON cannot represent")


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
