"""Encoded texts that programs break into lines: of base64 and the like, a secret may stand on two.

In: a text, or the bytes of a JSON text. Out: the same with such lines put together, and where its parts were.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from importlib import import_module
from typing import Any

_LINE = r"[A-Za-z0-9+/_-]{40}"
"""How a line ends that a program has broken off: of PEM it has 64 characters, of MIME 76, of `xxd -p` 60."""
_BREAK = r"((?:(?:\\+r)?\\+n|\r?\n)[ \t>]*)[A-Za-z0-9+/_-]"
"""The end of a line, also as it stands in a JSON text, and what is put before the next one."""
LINES = (_LINE + _BREAK).encode()
"""What is found in the bytes of a text in which there are encoded lines."""


def joined(data: bytes) -> bytes | None:
    """The bytes of a JSON text with encoded lines put together; None where there are none."""
    breaks = _breaks(data, _bytes_pattern())
    return b"".join(data[start:end] for start, end in _kept(breaks, len(data))) if breaks else None


class Joined:
    """A text with encoded lines put together."""

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
        """Where the character that stands here stood in the text with its lines."""
        return at + self._moved[bisect_right(self._begins, at) - 1]


def joined_text(text: str) -> Joined | None:
    """A text with encoded lines put together; None where there are none."""
    breaks = _breaks(text, _text_pattern())
    return Joined(text, breaks) if breaks else None


def _breaks(text: Any, pattern: Any) -> list[tuple[int, int]]:
    """Where lines are broken off: from the end of one to the beginning of the next."""
    return [match.span(1) for match in pattern.finditer(text)]


def _kept(breaks: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    begins = (0, *(end for _, end in breaks))
    ends = (*(start for start, _ in breaks), length)
    return [*zip(begins, ends, strict=True)]


@cache
def _text_pattern() -> Any:
    re2: Any = import_module("re2")  # by its name: it has no types that a checker could find
    return re2.compile(_LINE + _BREAK)


@cache
def _bytes_pattern() -> Any:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile((_LINE + _BREAK).encode(), options)
