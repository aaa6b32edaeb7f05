"""Constraints of a JSON schema on a single value: bounds, lengths, patterns, multiples, unique items.

Patterns are compiled with RE2, so they take time linear in the text; one that RE2 rejects counts as
satisfied, and so does every constraint on a value that is known only at run time. Schemas are untrusted:
long patterns, texts and lists are not looked at and count as satisfied.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from math import isfinite
from typing import Any

from callsheet.ir import JSON, ListExpr, Literal, Value

_MOST_ITEMS = 10_000
"""Longer lists are not searched for equal items."""
_LONGEST_PATTERN = 2_000
_LONGEST_TEXT = 10_000
"""Longer texts are not matched with a pattern."""
_PATTERN_MEMORY = 1 << 20


def is_multiple(number: float, of: float) -> bool:
    """Whether a number is a multiple of another as both are written: 0.3 is one of 0.1."""
    if of <= 0 or not all(
        isfinite(part) if isinstance(part, float) else abs(part) < 10**300 for part in (number, of)
    ):
        return True
    whole, step = Fraction(repr(number)), Fraction(repr(of))
    return (whole / step).denominator == 1


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "number", lambda value, bound: value >= bound),
    ("maximum", "number", lambda value, bound: value <= bound),
    ("exclusiveMinimum", "number", lambda value, bound: value > bound),
    ("exclusiveMaximum", "number", lambda value, bound: value < bound),
    ("multipleOf", "number", is_multiple),
    ("minLength", "string", lambda value, bound: value >= bound),
    ("maxLength", "string", lambda value, bound: value <= bound),
    ("minItems", "array", lambda value, bound: value >= bound),
    ("maxItems", "array", lambda value, bound: value <= bound),
)
"""Keyword, type it applies to, and whether it is satisfied; strings and lists are compared by length."""


def keeps_constraints(value: Value, schema: Mapping[str, Any], repeats: Callable[[Value], bool]) -> bool:
    """Whether a value satisfies the constraints of a schema on it, not on its items or fields.

    `repeats` tells whether a list has two equal items.
    """
    measured: int | float
    match value:
        case Literal(value=bool() | None):
            return True
        case Literal(value=str() as text):
            kind, measured = "string", len(text)
            pattern: Any = schema.get("pattern")
            if isinstance(pattern, str) and match_of(pattern, text) is False:
                return False
        case Literal(value=int() | float() as number):
            kind, measured = "number", number
        case ListExpr(items=items):
            kind, measured = "array", len(items)
            if schema.get("uniqueItems") is True and repeats(value):
                return False
        case _:
            return True
    return all(
        keeps(measured, bound)
        for name, of, keeps in _BOUNDS
        if of == kind and (bound := _bound(schema, name)) is not None
    )


def constraints_in_words(schema: Mapping[str, Any]) -> str:
    """The constraints, for messages; empty without any.

    >>> constraints_in_words({"minimum": 1, "pattern": "^[a-z]+$"})
    ' (minimum 1, pattern ^[a-z]+$)'
    """
    parts = [f"{name} {schema[name]}" for name, _, _ in _BOUNDS if _bound(schema, name) is not None]
    if isinstance(pattern := schema.get("pattern"), str):
        parts.append(f"pattern {pattern[:80]}")
    if schema.get("uniqueItems") is True:
        parts.append("no duplicates")
    return f" ({', '.join(parts)})" if parts else ""


def is_equal(option: object, literal: JSON) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0 but not true, which Python's `==` equates.

    >>> is_equal(1, 1.0), is_equal(1, True)
    (True, False)
    """
    if isinstance(option, bool) or isinstance(literal, bool):
        return option is literal
    return option == literal


def _bound(schema: Mapping[str, Any], name: str) -> int | float | None:
    """The number of a bound; None without one, and for the boolean `exclusiveMinimum` of older drafts."""
    found: Any = schema.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def has_equal_items(items: JSON) -> bool:
    """Whether a list has two items that are equal as JSON; False for a longer list than is searched.

    >>> has_equal_items([1, "1", True]), has_equal_items([{"a": 1}, {"a": 1.0}])
    (False, True)
    """
    if not isinstance(items, list) or len(items) > _MOST_ITEMS:
        return False
    seen: set[str] = set()
    for item in items:
        text = json.dumps(_plain(item), sort_keys=True)
        if text in seen:
            return True
        seen.add(text)
    return False


def _plain(data: JSON) -> JSON:
    """The data with whole floats as integers, so that equal numbers have one text."""
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if isinstance(data, list):
        return [_plain(item) for item in data]
    if isinstance(data, dict):
        return {name: _plain(item) for name, item in data.items()}
    return data


def match_of(pattern: str, text: str) -> bool | None:
    """Whether a text has a match; None if the text is too long, or RE2 rejects the pattern."""
    compiled = _compiled(pattern) if len(text) <= _LONGEST_TEXT else None
    clean = text if text.isascii() else text.encode(errors="replace").decode()
    return None if compiled is None else compiled.search(clean) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """The pattern for RE2; None if RE2 rejects it."""
    if len(pattern) > _LONGEST_PATTERN:
        return None
    re2: Any = import_module("re2")  # by name, as it has no types for the checker
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        return re2.compile(pattern.encode(errors="replace").decode(), options)
    except re2.error:
        return None
