"""Limits of the work of a query or expression, and the errors in one, with their places in its text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from callsheet.ports.calls import ToolFailed

_BEFORE, _AFTER = 48, 40


class Fault(Exception):
    """A query or expression is invalid or failed.

    `at` is the offset of the character concerned, None if there is no single one.
    """

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at

    def failure(self, text: str) -> ToolFailed:
        """The call's failure: the message, followed by the place in `text` with a caret."""
        return ToolFailed(self.message if self.at is None else f"{self.message}\n{pointed(text, self.at)}")


class TooMuchWork(Fault):
    """The limit on work is exceeded."""


def pointed(text: str, at: int) -> str:
    """The part of a text around an offset, with a caret below that character.

    >>> print(pointed("rows[?a", 7))
      rows[?a
             ^
    """
    at = min(max(at, 0), len(text))
    start, end = max(0, at - _BEFORE), min(len(text), at + _AFTER)
    left, right = "…" if start else "", "…" if end < len(text) else ""
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    return f"  {left}{shown}{right}\n  {' ' * (len(left) + at - start)}^"


ENOUGH = 5_000_000
"""The limit of one query; some seconds on a slow machine."""
AT_ONCE = 20_000
"""Work that is short enough to be done on the event loop."""
_CHARACTERS = 16
"""The number of characters that count as one step."""


class Work:
    """Counts work; raises TooMuchWork when the limit is exceeded."""

    __slots__ = ("_left",)

    def __init__(self, limit: int = ENOUGH) -> None:
        self._left = limit

    def charge(self, steps: int) -> None:
        """Count steps before they are done."""
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork("the query is too expensive for one step; filter the data first")

    def charge_text(self, length: int) -> None:
        """Count a text of this length before it is read or built."""
        self.charge(length // _CHARACTERS + 1)

    def charge_values(self, values: Iterable[object]) -> None:
        """Count values with everything in them; a value that occurs several times counts each time."""
        stack = list(values)
        while stack:
            value = stack.pop()
            if type(value) is str:
                self.charge_text(len(value))
                continue
            self.charge(1)
            if isinstance(value, list):
                items = cast("list[Any]", value)
                self.charge(len(items))
                stack += items
            elif isinstance(value, dict):
                pairs = cast("dict[Any, Any]", value)
                self.charge(len(pairs))
                stack += pairs.values()
