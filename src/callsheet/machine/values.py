"""The semantics of values at run time: text, paths, comparison, emptiness, casts, items.

Pure functions over JSON values; the rules are those of the language reference.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from callsheet import lazy
from callsheet.ir import JSON, Cast, CompareOp, PathPart
from callsheet.ir.strict_json import finite, refuse_constant

_NUMBER = lazy.pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_MAX_NUMBER_LENGTH = 400
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_encode_spaced = json.JSONEncoder(ensure_ascii=False).encode
_TRUE_WORDS = frozenset({"true", "yes", "1"})


def parse_json(text: str) -> tuple[bool, JSON]:
    """Whether `text` is JSON, and its value. NaN, infinities and endless nesting are not."""
    try:
        return True, json.loads(text, parse_float=finite, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return False, None


def to_text(value: JSON) -> str:
    """A value inside a text: a str is itself, null is nothing, all else is compact JSON.

    What no JSON text can say (which no port lets through) is named by its type: a machine
    that is fed it goes on.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return str(value) if type(value) is int else _encode(value)
    except (ValueError, TypeError, RecursionError):
        return f"<{type(value).__name__}>"


def to_json_text(value: JSON) -> str:
    """A value inside a text of a plan of dependencies: a str is itself, all else is JSON.

    >>> to_json_text({"y": 2, "t": None})
    '{"y": 2, "t": null}'
    """
    if isinstance(value, str):
        return value
    try:
        return str(value) if type(value) is int else _encode_spaced(value)
    except (ValueError, TypeError, RecursionError):
        return f"<{type(value).__name__}>"


def walk(value: Any, path: tuple[PathPart, ...], nothing: Any = None) -> Any:
    """The value at a dot path, through dicts, lists and JSON texts; `nothing` where there is none.

    What is in the dicts and lists may be more than JSON: what is foreseen of a run has values in them that
    are not known yet.
    """
    current = value
    for part in path:
        if isinstance(current, str):
            is_json, current = parse_json(current)
            if not is_json:
                return nothing
        if isinstance(current, dict):
            name = part if isinstance(part, str) else str(part)
            current = cast("dict[str, Any]", current).get(name, nothing)
            if current is nothing:
                return nothing
        elif isinstance(current, list) and isinstance(part, int):
            items = cast("list[Any]", current)
            if not -len(items) <= part < len(items):
                return nothing
            current = items[part]
        else:
            return nothing
    return current


def read_number(value: JSON) -> int | float | None:
    """The number that a value is, or that its text says; None for anything else and for bools."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_LENGTH:
        return None
    text = value.strip()
    if _NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    return number if math.isfinite(number) else None


def equals(left: JSON, right: JSON) -> bool:
    """Numbers by value, a bool by its word in any case, everything else by text."""
    if isinstance(left, bool) or isinstance(right, bool):
        return to_text(left).strip().lower() == to_text(right).strip().lower()
    a, b = read_number(left), read_number(right)
    if a is not None and b is not None:
        return a == b
    return to_text(left) == to_text(right)


def contains(whole: JSON, part: JSON) -> bool:
    """A list has the member (by text), a dict the key, any other value the text."""
    if part is None:
        return False
    text = to_text(part)
    if isinstance(whole, list):
        return any(to_text(member) == text for member in whole)
    if isinstance(whole, dict):
        return text in whole
    return text in to_text(whole)


def compare(op: CompareOp, left: JSON, right: JSON) -> bool:
    """Whether `left op right` holds; an ordering of anything but two numbers does not."""
    match op:
        case CompareOp.EQ:
            return equals(left, right)
        case CompareOp.NE:
            return not equals(left, right)
        case CompareOp.CONTAINS:
            return contains(left, right)
        case _:
            a, b = read_number(left), read_number(right)
            if a is None or b is None:
                return False
            return _ordered(op, a, b)


def _ordered(op: CompareOp, a: int | float, b: int | float) -> bool:
    if op is CompareOp.GT:
        return a > b
    if op is CompareOp.LT:
        return a < b
    return a >= b if op is CompareOp.GE else a <= b


def is_empty(value: JSON) -> bool:
    """Null, blank text, an empty list or dict. 0 and false are not empty."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value or value.isspace()
    return isinstance(value, list | dict) and not value


def items_of(source: JSON) -> list[JSON]:
    """What FOREACH goes through: a list, the list in a JSON text, or one value."""
    if isinstance(source, str) and not is_empty(source):
        is_json, parsed = parse_json(source)
        if is_json:
            source = parsed
    if is_empty(source):
        return []
    return source if isinstance(source, list) else [source]


def cast_value(kind: Cast, value: JSON) -> tuple[JSON, bool]:
    """The value as the cast wants it, and whether it could be; if not, it stays as it was."""
    match kind:
        case Cast.INT:
            number = _number_for_cast(value)
            return (value, False) if number is None else (int(number), True)
        case Cast.FLOAT:
            number = _number_for_cast(value)
            return _as_float(value, number)
        case Cast.BOOL:
            return _as_bool(value), True
        case Cast.LIST:
            return _as_list(value), True
        case Cast.JSON:
            if not isinstance(value, str):
                return value, True
            is_json, parsed = parse_json(value)
            return (parsed, True) if is_json else (value, False)


def _number_for_cast(value: JSON) -> int | float | None:
    return int(value) if isinstance(value, bool) else read_number(value)


def _as_float(value: JSON, number: int | float | None) -> tuple[JSON, bool]:
    if number is None:
        return value, False
    try:
        return float(number), True
    except OverflowError:
        return value, False


def _as_bool(value: JSON) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _TRUE_WORDS
    return value is True or (isinstance(value, int | float) and value == 1)


def _as_list(value: JSON) -> list[JSON]:
    if isinstance(value, str):
        is_json, parsed = parse_json(value)
        if not is_json:
            return [value]
        value = parsed
    if isinstance(value, list):
        return value
    return [value]
