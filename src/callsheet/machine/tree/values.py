"""The values of a plan tree at its borders: checked against types, and on their way out and back.

A cast checks, by the same rule as the inputs of a plan (`ir/inputs.read_value`). Of the result of a tool it
also reads JSON text, where a list, a dict or JSON is wanted.

JSON lacks tuples, sets, keys that are no texts, dates, datetimes, durations, decimals, bytes, what a program
keeps of its own (`Kept`) and numbers that are none (decision 11). In what goes to a COMPUTE and comes back,
such a value is an object with the one key `$`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple, cast

from callsheet.ir import JSON
from callsheet.ir.inputs import NotOfType, read_value
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, Record, Type
from callsheet.machine.expressions.encoding import json_key, to_json
from callsheet.machine.expressions.values import ExpressionFailed, FailureKind, FailureRecord, Kept

Checked = tuple[Any, str]
"""A value of the type, and what is wrong otherwise."""


def conformed(value: Any, of: Type, named: Mapping[str, Record], *, reads_text: bool = False) -> Checked:
    """The value as one of a type, and "", or the value and why it is none.

    With `reads_text`, as for the result of a tool, JSON text is read where the type is none of texts.

    >>> conformed("[1]", ListOf(Basic.INT), {}, reads_text=True), conformed(2.0, Basic.INT, {})
    (([1], ''), (2, ''))
    >>> conformed({"id": "x"}, Record((("id", Basic.INT),)), {})[1]
    ".id: an int is needed, not the string 'x'"
    """
    if isinstance(value, FailureRecord):
        return value, f"{value.get('step')} has failed"
    if reads_text and isinstance(value, str):
        inner = of.of if isinstance(of, Maybe) else of
        if isinstance(inner, ListOf | DictOf | Named | Record) or inner is Basic.JSON:
            value = _read(value)
    try:
        return read_value(of, value, named, in_run=True), ""
    except NotOfType as error:
        return value, f"{error.path}: {error}" if error.path else str(error)


def _read(text: str) -> Any:
    """What JSON text says, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


SCALARS = frozenset({str, int, bool, type(None)})
"""The types of values that are JSON data whatever they are."""


def is_data(value: Any) -> bool:
    """Whether a value is JSON data, with finite numbers and texts as keys."""
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        kind = cast("type[Any]", type(one))
        if kind in SCALARS:
            continue
        if kind is list:
            if not SCALARS.issuperset(map(type, one)):
                stack.extend(one)
        elif kind is dict:
            if not all(type(key) is str for key in one):
                return False
            stack.extend(one.values())
        elif kind is not float or one - one != 0:
            return False
    return True


_MARK = "$"
PRINTED = "$printed"
"""Beside the outputs of a COMPUTE: what it printed."""


def plain(value: Any) -> JSON:
    """A value as JSON data to look at: what JSON lacks is shown as its text. What it shares is shared."""
    if isinstance(value, FailureRecord):
        return dict(value)
    try:
        return to_json(value)
    except ExpressionFailed:
        return _shown(value, {})


def _shown(value: Any, made: dict[int, JSON]) -> JSON:
    if value is None or isinstance(value, str | int):
        return value
    if id(value) not in made:
        made[id(value)] = _shown_anew(value, made)
    return made[id(value)]


def _shown_anew(value: Any, made: dict[int, JSON]) -> JSON:
    if isinstance(value, FailureRecord):
        return dict(value)
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_shown_key(key): _shown(held, made) for key, held in members.items()}
    if isinstance(value, list | tuple):
        return [_shown(one, made) for one in cast("list[Any]", value)]
    if isinstance(value, set | frozenset):
        return sorted((_shown(one, made) for one in cast("set[Any]", value)), key=repr)
    try:
        return to_json(value)
    except ExpressionFailed:
        return repr(value)


def _shown_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    try:
        return json_key(key)
    except ExpressionFailed:
        return repr(key)


class _Form(NamedTuple):
    """How values of a type are written as data and read again."""

    type: type[Any]
    name: str
    write: Callable[[Any], JSON]
    read: Callable[[Any], Any]


def _parts(value: timedelta) -> JSON:
    return [value.days, value.seconds, value.microseconds]


def _duration(parts: Any) -> timedelta:
    return timedelta(*cast("list[int]", parts))


def _offset(value: timezone) -> JSON:
    return _parts(value.utcoffset(None))


def _zone(parts: Any) -> timezone:
    return timezone(_duration(parts))


_FORMS: Final = (
    _Form(
        datetime, "datetime", datetime.isoformat, datetime.fromisoformat
    ),  # before date, of which it is one
    _Form(date, "date", date.isoformat, date.fromisoformat),
    _Form(time, "time", time.isoformat, time.fromisoformat),
    _Form(timedelta, "duration", _parts, _duration),
    _Form(timezone, "timezone", _offset, _zone),
    _Form(float, "float", repr, float),
    _Form(Decimal, "decimal", str, Decimal),
    _Form(bytes, "bytes", bytes.hex, bytes.fromhex),
)
_READERS: Final = {form.name: form.read for form in _FORMS}


def tagged(value: Any, *, tells_failures: bool = False) -> JSON:
    """A value as JSON data from which `untagged` makes an equal one of the same types.

    A failure becomes the dict of its fields, unless it `tells_failures` from dicts.
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    part = partial(tagged, tells_failures=tells_failures)
    if isinstance(value, list):
        return [part(one) for one in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return {_MARK: ["tuple", [part(one) for one in cast("tuple[Any, ...]", value)]]}
    if isinstance(value, set | frozenset):
        items = sorted((part(one) for one in cast("set[Any]", value)), key=repr)
        return {_MARK: ["frozenset" if isinstance(value, frozenset) else "set", items]}
    if isinstance(value, Kept):
        return {_MARK: ["kept", [value.kind, *(part(one) for one in value.parts)]]}
    if tells_failures and isinstance(value, FailureRecord):
        return {_MARK: ["failure", {key: part(held) for key, held in value.items()}]}
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        if all(isinstance(key, str) for key in members) and _MARK not in members:
            return {key: part(held) for key, held in members.items()}
        return {_MARK: ["dict", [[part(key), part(held)] for key, held in members.items()]]}
    form = next((one for one in _FORMS if isinstance(value, one.type)), None)
    if form is None:
        raise ExpressionFailed(FailureKind.TYPE, f"a {type(value).__name__} cannot leave the plan")
    return {_MARK: [form.name, form.write(value)]}


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
        case "tuple":
            return tuple(untagged(one) for one in held)
        case "set" | "frozenset":
            items = [untagged(one) for one in held]
            return set(items) if kind == "set" else frozenset(items)
        case "kept":
            return Kept(held[0], tuple(untagged(one) for one in held[1:]))
        case "dict":
            return {untagged(key): untagged(each) for key, each in held}
        case "failure":
            return FailureRecord({key: untagged(each) for key, each in held.items()})
        case _ if kind in _READERS:
            return _READERS[kind](held)
        case _:
            raise ValueError(f"unknown kind of value {kind!r}")


def read_outputs(value: Any) -> Mapping[str, Any]:
    """The outputs of a COMPUTE by name, from the value of its call, and under `PRINTED` what it printed."""
    return {name: untagged(held) for name, held in cast("dict[str, Any]", value).items()}
