"""Texts and places in them: a named source, spans of offsets, positions of line and column."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, cast


class Span(NamedTuple):
    """A stretch of a source: offsets in code points, `start` included, `end` excluded."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The stretch from the start of this span to the end of `other`."""
        return Span(self.start, other.end)


span_of: Callable[[tuple[int, int]], Span] = partial(cast("Any", tuple).__new__, Span)
"""Makes a span of its two offsets in half the time that its constructor takes, for readers of long texts."""


class Position(NamedTuple):
    """A place as people count it: line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text with the name that diagnostics show for it (a path, `<stdin>`, `<plan>`)."""

    name: str
    text: str
    _starts: list[int] = field(default_factory=list[int], init=False, repr=False, compare=False)

    def _line_starts(self) -> list[int]:
        starts = self._starts
        if not starts:
            starts.append(0)
            find = self.text.find
            at = find("\n")
            while at != -1:
                starts.append(at + 1)
                at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> Position:
        """Line and column of an offset; an offset past the end is the end."""
        offset = min(max(offset, 0), len(self.text))
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return Position(line, offset - starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its end; empty if there is no such line."""
        start, end = self.line_span(number)
        return self.text[start:end]

    def line_span(self, number: int) -> Span:
        """Where a line (from 1) stands, without its end; an empty stretch if there is no such line."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return Span(0, 0)
        start, end = starts[number - 1], len(self.text)
        if number < len(starts):
            end = starts[number] - 1
        if end > start and self.text[end - 1] == "\r":
            end -= 1
        return Span(start, end)
