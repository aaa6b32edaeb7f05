"""Values on their way out of a plan tree: to observers as JSON, and to a COMPUTE and back with their types.

JSON lacks tuples, sets, keys that are no texts, dates, datetimes, durations and numbers that are none
(decision 11). In what goes to a COMPUTE and comes back, such a value is an object with the one key `$`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.machine.expressions.values import ExpressionFailed, FailureKind, FailureRecord, to_json

_MARK = "$"
PRINTED = "$printed"
"""Beside the outputs of a COMPUTE: what it printed."""


def plain(value: Any) -> JSON:
    """A value as JSON data to look at: what JSON lacks is shown as its text."""
    if isinstance(value, FailureRecord):
        return dict(value)
    try:
        return to_json(value)
    except ExpressionFailed:
        return _shown(value)


def _shown(value: Any) -> JSON:
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {key if isinstance(key, str) else repr(key): plain(held) for key, held in members.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in cast("set[Any]", value)), key=repr)
    return repr(value)


def tagged(value: Any) -> JSON:
    """A value as JSON data from which `untagged` makes an equal one of the same types."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK: ["float", repr(value)]}
    if isinstance(value, list):
        return [tagged(one) for one in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return {_MARK: ["tuple", [tagged(one) for one in cast("tuple[Any, ...]", value)]]}
    if isinstance(value, set | frozenset):
        items = sorted((tagged(one) for one in cast("set[Any]", value)), key=repr)
        return {_MARK: ["set", items]}
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        if all(isinstance(key, str) for key in members) and _MARK not in members:
            return {key: tagged(held) for key, held in members.items()}
        return {_MARK: ["dict", [[tagged(key), tagged(held)] for key, held in members.items()]]}
    if isinstance(value, datetime):
        return {_MARK: ["datetime", value.isoformat()]}
    if isinstance(value, date):
        return {_MARK: ["date", value.isoformat()]}
    if isinstance(value, timedelta):
        return {_MARK: ["duration", [value.days, value.seconds, value.microseconds]]}
    raise ExpressionFailed(FailureKind.TYPE, f"a {type(value).__name__} cannot leave the plan")


def untagged(data: Any) -> Any:
    """The value that `tagged` gave as this data. Raises ValueError for other data."""
    if isinstance(data, list):
        return [untagged(one) for one in cast("list[Any]", data)]
    if not isinstance(data, dict):
        return data
    members = cast("dict[str, Any]", data)
    if _MARK not in members:
        return {key: untagged(held) for key, held in members.items()}
    kind, held = members[_MARK]
    match kind:
        case "float":
            return float(held)
        case "tuple":
            return tuple(untagged(one) for one in held)
        case "set":
            return {untagged(one) for one in held}
        case "dict":
            return {untagged(key): untagged(each) for key, each in held}
        case "datetime":
            return datetime.fromisoformat(held)
        case "date":
            return date.fromisoformat(held)
        case "duration":
            days, seconds, microseconds = held
            return timedelta(days, seconds, microseconds)
        case _:
            raise ValueError(f"unknown kind of value {kind!r}")


def read_outputs(value: Any) -> Mapping[str, Any]:
    """The outputs of a COMPUTE by name, from the value of its call, and under `PRINTED` what it printed."""
    return {name: untagged(held) for name, held in cast("dict[str, Any]", value).items()}
