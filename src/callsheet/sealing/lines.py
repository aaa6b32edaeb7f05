"""Joins the lines of encoded data (PEM, MIME, hex dumps), in which a secret may span two lines.

In: a text, or the bytes of a JSON text. Out: the same with such lines joined, and a mapping back to the
original positions.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from importlib import import_module
from typing import Any

_LINE = r"[A-Za-z0-9+/_-]{40}"
"""The end of a wrapped line of encoded data: PEM wraps at 64 characters, MIME at 76, `xxd -p` at 60."""
_BREAK = r"((?:(?:\\+r)?\\+n|\r?\n)[ \t>]*)[A-Za-z0-9+/_-]"
"""A line break, plain or escaped in a JSON text, and any quoting or indentation before the next line."""
LINES = (_LINE + _BREAK).encode()
"""The pattern that matches bytes with lines of encoded data in them."""


def joined(data: bytes) -> bytes | None:
    """The bytes of a JSON text with lines of encoded data joined; None if there are none."""
    breaks = _breaks(data, _bytes_pattern())
    return b"".join(data[start:end] for start, end in _kept(breaks, len(data))) if breaks else None


class Joined:
    """A text with lines of encoded data joined, and the mapping to positions in the original text."""

    def __init__(self, text: str, breaks: list[tuple[int, int]]) -> None:
        self.text = ""
        self._begins = list[int]()
        self._moved = list[int]()
        parts = list[str]()
        length = 0
        for start, end in _kept(breaks, len(text)):
            self._begins.append(length)
            self._moved.append(start - length)
            parts.append(text[start:end])
            length += end - start
        self.text = "".join(parts)

    def place_of(self, at: int) -> int:
        """The position in the original text of the character at this position of the joined one."""
        return at + self._moved[bisect_right(self._begins, at) - 1]


def joined_text(text: str) -> Joined | None:
    """A text with lines of encoded data joined; None if there are none."""
    breaks = _breaks(text, _text_pattern())
    return Joined(text, breaks) if breaks else None


def _breaks(text: Any, pattern: Any) -> list[tuple[int, int]]:
    """The spans of the line breaks: from the end of a line to the beginning of the next."""
    return [match.span(1) for match in pattern.finditer(text)]


def _kept(breaks: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    begins = (0, *(end for _, end in breaks))
    ends = (*(start for start, _ in breaks), length)
    return [*zip(begins, ends, strict=True)]


@cache
def _text_pattern() -> Any:
    re2: Any = import_module("re2")  # imported by name: it has no types for the type checker
    return re2.compile(_LINE + _BREAK)


@cache
def _bytes_pattern() -> Any:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile((_LINE + _BREAK).encode(), options)
