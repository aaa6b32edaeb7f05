"""Writes plain data as YAML that has the same meaning in YAML 1.1, YAML 1.2 and for this library.

In: a mapping of scalars, lists and mappings. Out: its text. Short mappings and lists are written on one line,
multi-line strings as literal blocks; strings that could be read as another type are quoted.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./()-]+)*")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_UNSAFE = "\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff"
_ESCAPED = re.compile(f"[{_UNSAFE}]")
_BLOCK = re.compile(rf"[^\s\x00-\x1f{_UNSAFE}][^\x00-\x09\x0b-\x1f{_UNSAFE}]*")
_WIDE = 100
_MOST_ON_A_LINE = 6


def to_yaml(data: Mapping[str, Any]) -> str:
    r"""The text of a mapping; raises TypeError for a value that is not plain data.

    >>> print(to_yaml({"a": "no", "b": [1, 2.0], "c": {"d": "two\nlines"}}), end="")
    a: "no"
    b: [1, 2.0]
    c:
      d: |-
        two
        lines
    """
    return "".join(f"{line}\n" for line in _lines(data, 0))


def _lines(data: Mapping[str, Any], indent: int) -> Iterator[str]:
    for key, value in data.items():
        yield from _field(f"{' ' * indent}{_quoted(key)}:", value, indent)


def _field(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and _is_block(value):
        yield f"{head} |" + ("" if value.endswith("\n") else "-")
        margin = " " * (indent + 2)
        yield from (margin + line if line else "" for line in value.removesuffix("\n").split("\n"))
        return
    on_a_line = not isinstance(value, dict | list) or not value
    if not on_a_line and _is_flat(value):
        on_a_line = len(head) + len(_flow(value)) < _WIDE
    if on_a_line:
        yield f"{head} {_flow(value)}"
    elif isinstance(value, dict):
        yield head
        yield from _lines(cast("dict[str, Any]", value), indent + 2)
    else:
        yield head
        for item in cast("list[Any]", value):
            yield from _item(item, indent + 2)


def _item(item: Any, indent: int) -> Iterator[str]:
    if isinstance(item, dict) and item:
        inner = list(_lines(cast("dict[str, Any]", item), indent + 2))
        yield f"{' ' * indent}- {inner[0][indent + 2 :]}"
        yield from inner[1:]
    else:
        yield f"{' ' * indent}- {_flow(item)}"


def _is_flat(value: Any) -> bool:
    """Whether a list or mapping can be written on one line: without nesting, blocks or many keys."""
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
        return len(inner) <= _MOST_ON_A_LINE and not any(map(_has_parts, inner))
    return not any(map(_has_parts, cast("list[Any]", value)))


def _has_parts(value: Any) -> bool:
    if isinstance(value, str):
        return "\n" in value and _is_block(value)
    return isinstance(value, dict | list) and bool(cast("list[Any]", value))


def _is_block(text: str) -> bool:
    """Whether a string can be written as a literal block."""
    is_even = not text.endswith(("\n\n", " ")) and " \n" not in text
    return is_even and _BLOCK.fullmatch(text) is not None


def _flow(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _quoted(value)
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return "{" + ", ".join(f"{_quoted(key)}: {_flow(inner)}" for key, inner in pairs) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, cast("list[Any]", value))) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} is not plain data")


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return _ESCAPED.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
