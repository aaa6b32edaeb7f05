"""Lists the differences between two declarations of a tool, for people.

In: two declarations as sent. Out: lines without invisible characters. They contain text from the server, so
they must not be shown to a model.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, cast

from callsheet.ports.mcp.declarations import argument_order

_FIELDS = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "_meta",
)
_LONGEST = 160
_CONTEXT = 30
_MOST_LINES = 40
_ABSENT = object()


def changed_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The protocol fields that differ, and "other fields"; contains no text from the server.

    >>> changed_fields({"name": "a", "x": 1}, {"name": "a", "description": "b"})
    ('description', 'other fields')
    """
    differ = {key for key in {*old, *new} if not _same(old.get(key, _ABSENT), new.get(key, _ABSENT))}
    if argument_order(old) != argument_order(new):
        differ.add("inputSchema")
    named = tuple(field for field in _FIELDS if field in differ)
    return (*named, "other fields") if differ - set(_FIELDS) else named


def differences(old: Mapping[str, Any], new: Mapping[str, Any], *, is_whole: bool = False) -> tuple[str, ...]:
    """A line for each value that was added, removed or changed.

    At most forty lines, long texts cut around their first difference; everything if `is_whole`.

    >>> differences({"description": "Reads."}, {"description": "Reads.\\u200b", "title": "R"})
    ('description: "Reads." → "Reads.<U+200B>"', 'title: added "R"')
    """
    limit = sys.maxsize if is_whole else _LONGEST
    lines = (*_moved(old, new, limit), *_compared("", old, new, limit))
    more = 0 if is_whole else len(lines) - _MOST_LINES
    return (*lines[:_MOST_LINES], f"… and {more} more") if more > 0 else lines


def _moved(old: Mapping[str, Any], new: Mapping[str, Any], limit: int) -> Iterator[str]:
    """A line if positional values of existing calls would fill other arguments than before."""
    before, after = argument_order(old), argument_order(new)
    now = {name: place for place, name in enumerate(after)}
    if any(now.get(name, place) != place for place, name in enumerate(before)):
        was, is_now = (_shown(", ".join(names), limit) for names in (before, after))
        yield f"order of the arguments: {was} → {is_now}; values without names go to other arguments"


def visible(text: str) -> str:
    """The text with invisible and control characters escaped.

    >>> visible("a\\u202eb\\x1b[1m\\n")
    'a<U+202E>b<U+001B>[1m<U+000A>'
    """
    return "".join(c if _is_seen(c) else f"<U+{ord(c):04X}>" for c in text)


def _is_seen(char: str) -> bool:
    if char.isascii():
        return " " <= char <= "~"
    category = unicodedata.category(char)
    # Combining marks (variation selectors among them), fillers and odd blanks can hide text as well.
    return category[0] not in "CZM" and char not in _BLANK_LETTERS


_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def _compared(path: str, old: object, new: object, limit: int) -> Iterator[str]:
    if _same(old, new):
        return
    before, after = _fields_of(old), _fields_of(new)
    if before is not None and after is not None:
        for key in (*before, *(key for key in after if key not in before)):
            values = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _compared(_joined(path, key), *values, limit)
    elif isinstance(old, str) and isinstance(new, str):
        yield f"{path or 'it'}: {_texts(old, new, limit)}"
    elif old is _ABSENT:
        yield f"{path}: added {_shown(new, limit)}"
    elif new is _ABSENT:
        yield f"{path}: removed, was {_shown(old, limit)}"
    else:
        yield f"{path or 'it'}: {_shown(old, limit)} → {_shown(new, limit)}"


def _fields_of(value: object) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _items_of(value: object) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def _same(old: object, new: object) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true differ."""
    before, after = _fields_of(old), _fields_of(new)
    if before is not None and after is not None:
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    left, right = _items_of(old), _items_of(new)
    if left is not None and right is not None:
        return len(left) == len(right) and all(map(_same, left, right))
    return type(old) is type(new) and old == new


def _joined(path: str, key: str) -> str:
    name = visible(key)
    plain = name.replace("_", "").replace("-", "").isalnum()
    own = name if plain else f'"{name}"'
    return f"{path}.{own}" if path else own


def _texts(old: str, new: str, limit: int) -> str:
    """Two texts; long ones are cut around their first difference."""
    if max(len(old), len(new)) <= limit:
        return f'"{visible(old)}" → "{visible(new)}"'
    differing = (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    start = next(differing, min(len(old), len(new)))
    begin = max(0, start - _CONTEXT)
    return f"from character {start + 1}: {_part(old, begin, limit)} → {_part(new, begin, limit)}"


def _part(text: str, begin: int, limit: int) -> str:
    end = begin + limit
    head, tail = ("…" if begin else ""), ("…" if end < len(text) else "")
    return f'"{head}{visible(text[begin:end])}{tail}"'


def _shown(value: object, limit: int) -> str:
    if isinstance(value, str):
        return _part(value, 0, limit)
    text = visible(json.dumps(cast("Any", value), ensure_ascii=False))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
