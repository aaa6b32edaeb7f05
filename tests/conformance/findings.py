"""Compares findings with expected ones; each difference is one text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING = object()
"""Stands for a value that is not there."""
_SHOWN = 160


def shown(value: object) -> str:
    """A value as shown in a difference: its repr, truncated with a mark."""
    if value is MISSING:
        return "nothing"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def difference(what: str, expected: object, found: object) -> str:
    """A difference on one line."""
    return f"{what}: expected {shown(expected)}, found {shown(found)}"


def is_same(left: object, right: object) -> bool:
    """Equality that keeps types apart: true is not 1, and 1 is not 1.0.

    >>> is_same([1, {"a": "x"}], (1, {"a": "x"})), is_same(True, 1), is_same(1, 1.0)
    (True, False, False)
    """
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(is_same(left[key], right[key]) for key in left)
        case ((list() | tuple()), (list() | tuple())):
            return len(left) == len(right) and all(map(is_same, left, right))
        case str(), str():
            return str(left) == str(right)
        case _:
            return type(left) is type(right) and left == right


def text_differences(what: str, found: object, expect: Mapping[str, Any], key: str) -> list[str]:
    """What speaks against a text by the expectations `key`, `key_any`, `key_contains`, …

    White space around a whole text does not count.
    """
    text = str(found)
    out: list[str] = []
    if key in expect and text.strip() != str(expect[key]).strip():
        out.append(difference(what, expect[key], text))
    choices = expect.get(f"{key}_any")
    if choices is not None and text.strip() not in {str(choice).strip() for choice in choices}:
        out.append(difference(what, f"one of {choices}", text))
    out += parts_differences(what, text, expect.get(f"{key}_contains", ()))
    for part in expect.get(f"{key}_not_contains", ()):
        if part in text:
            out.append(difference(what, f"no {part}", text))
    position = 0
    for part in expect.get(f"{key}_order", ()):
        at = text.find(part, position)
        if at < 0:
            out.append(difference(what, f"{part} at its place in the order", text))
            break
        position = at + len(part)
    return out


def parts_differences(what: str, text: str, parts: Any) -> list[str]:
    """The required parts that a text does not contain."""
    return [difference(what, f"… {part} …", text) for part in parts if part not in text]
