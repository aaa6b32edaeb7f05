"""Converts between offsets and editor positions: lines and characters from 0, in the negotiated encoding.

In: a text. Out: positions for offsets in code points, and back. A line ends with a newline, a carriage return
or both, as in the language server protocol.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


class Units(StrEnum):
    """The units in which the characters of a position are counted."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


class Place(NamedTuple):
    """A position: line and character from 0."""

    line: int
    character: int


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of one text.

    >>> places = Places("a\\n😀b")
    >>> places.place(3), places.offset(Place(1, 2))
    (Place(line=1, character=2), 3)
    """

    text: str
    units: Units = Units.UTF16
    _starts: list[int] = field(default_factory=list[int], init=False, repr=False, compare=False)

    def _line_starts(self) -> list[int]:
        if not self._starts:
            self._starts.append(0)
            self._starts.extend(match.end() for match in _LINE_END.finditer(self.text))
        return self._starts

    def place(self, offset: int) -> Place:
        """Returns the position of an offset, which is clamped to the text."""
        offset = min(max(offset, 0), len(self.text))
        starts = self._line_starts()
        line = bisect_right(starts, offset) - 1
        return Place(line, self._measured(self.text[starts[line] : offset]))

    def offset(self, place: Place) -> int:
        """Returns the offset of a position; a character past the end of its line is that end, as in LSP."""
        starts = self._line_starts()
        if place.line >= len(starts):
            return len(self.text)
        start = starts[place.line]
        end = starts[place.line + 1] if place.line + 1 < len(starts) else len(self.text)
        line = self.text[start:end].rstrip("\r\n")
        if line.isascii() or self.units is Units.UTF32:
            return start + min(place.character, len(line))
        left = place.character
        for at, char in enumerate(line):
            if left <= 0:
                return start + at
            left -= self._measured(char)
        return start + len(line)

    def _measured(self, text: str) -> int:
        if text.isascii() or self.units is Units.UTF32:
            return len(text)
        if self.units is Units.UTF16:
            return len(text) + len(_BEYOND.findall(text))
        return len(text.encode("utf-8", "surrogatepass"))
