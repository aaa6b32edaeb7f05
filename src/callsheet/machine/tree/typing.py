"""Checks values against the types of version 2: inputs, casts and results of sub-plans (decision 10).

A cast checks. It converts JSON text where a list, a dict or JSON is wanted, and numbers without loss; dates,
datetimes and durations are read from their text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, assert_never, cast

from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type, type_text
from callsheet.machine.expressions.functions import FUNCTIONS
from callsheet.machine.expressions.values import Environment, ExpressionFailed, FailureRecord, type_name

Checked = tuple[Any, str]
"""A value of the type, and what is wrong otherwise."""


def conformed(value: Any, of: Type, named: Mapping[str, Record], *, reads_text: bool = False) -> Checked:
    """The value as one of a type, and "", or the value and why it is none.

    With `reads_text`, as for the result of a tool, JSON text is read where the type is none of texts.

    >>> conformed("[1]", ListOf(Basic.INT), {}, reads_text=True), conformed(2.0, Basic.INT, {})
    (([1], ''), (2, ''))
    >>> conformed({"id": "x"}, Record((("id", Basic.INT),)), {})[1]
    '.id: "x" is no int'
    """
    if isinstance(value, FailureRecord):
        return value, f"{value.get('step')} has failed"
    if reads_text and isinstance(value, str):
        inner = of.of if isinstance(of, Maybe) else of
        if isinstance(inner, ListOf | DictOf | Named | Record) or inner is Basic.JSON:
            value = _read(value)
    return _conformed(value, of, named)


def _read(text: str) -> Any:
    """What JSON text says, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _conformed(value: Any, of: Type, named: Mapping[str, Record]) -> Checked:
    match of:
        case Basic():
            return _basic(value, of)
        case Maybe(of=inner):
            return (None, "") if value is None else _conformed(value, inner, named)
        case OneOf(values=values):
            if any(type(value) is type(each) and value == each for each in values):
                return value, ""
            return value, f"{_shown(value)} is none of {type_text(of)}"
        case ListOf(item=item):
            return _list(value, item, named)
        case DictOf(value=inner):
            return _dict(value, inner, named)
        case Named(name=name):
            return _record(value, named[name], named)
        case Record():
            return _record(value, of, named)
    assert_never(of)


def _basic(value: Any, of: Basic) -> Checked:
    match of:
        case Basic.JSON:
            return value, ""
        case Basic.STR:
            fits, made = isinstance(value, str), value
        case Basic.BOOL:
            fits, made = isinstance(value, bool), value
        case Basic.INT:
            is_whole = isinstance(value, float) and value.is_integer()
            fits = is_whole or (isinstance(value, int) and not isinstance(value, bool))
            made = int(value) if is_whole else value
        case Basic.FLOAT:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            made = float(value) if fits and abs(value) <= _EXACT else value
        case Basic.DATE | Basic.DATETIME | Basic.DURATION:
            return _time(value, of)
        case _:
            assert_never(of)
    return (made, "") if fits else (value, f"{_shown(value)} is no {of.value}")


_EXACT = 2**53
_TIMES: dict[Basic, type] = {Basic.DATETIME: datetime, Basic.DATE: date, Basic.DURATION: timedelta}


def _time(value: Any, of: Basic) -> Checked:
    if type(value) is _TIMES[of]:
        return value, ""
    if isinstance(value, str):
        read: Callable[..., Any] = FUNCTIONS[of.value]
        try:
            return read(Environment(datetime.min), value), ""
        except (ExpressionFailed, ValueError, TypeError, OverflowError):
            pass
    return value, f"{_shown(value)} is no {of.value}"


def _list(value: object, item: Type, named: Mapping[str, Record]) -> Checked:
    if isinstance(value, tuple):
        value = list(cast("tuple[Any, ...]", value))
    if not isinstance(value, list):
        return value, f"{_shown(value)} is no list"
    items, made = cast("list[Any]", value), list[Any]()
    for index, each in enumerate(items):
        one, wrong = _conformed(each, item, named)
        if wrong:
            return items, f"[{index}]{_joined(wrong)}"
        made.append(one)
    return made, ""


def _dict(value: object, inner: Type, named: Mapping[str, Record]) -> Checked:
    if not isinstance(value, dict):
        return value, f"{_shown(value)} is no dict"
    members, made = cast("dict[Any, Any]", value), dict[Any, Any]()
    for key, each in members.items():
        one, wrong = _conformed(each, inner, named)
        if wrong:
            return members, f"[{key!r}]{_joined(wrong)}"
        made[key] = one
    return made, ""


def _record(value: object, of: Record, named: Mapping[str, Record]) -> Checked:
    if not isinstance(value, dict):
        return value, f"{_shown(value)} is no record"
    made = {**cast("dict[Any, Any]", value)}
    for name, kind in of.fields:
        if name not in made:
            if isinstance(kind, Maybe):
                continue
            there = ", ".join(str(key) for key in list(made)[:12]) or "nothing"
            return made, f"there is no field {name}; there is {there}"
        made[name], wrong = _conformed(made[name], kind, named)
        if wrong:
            return made, f".{name}{_joined(wrong)}"
    return made, ""


def _joined(wrong: str) -> str:
    return wrong if wrong.startswith((".", "[")) else f": {wrong}"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value[:60], ensure_ascii=False)
    return f"a {type_name(value)}"
