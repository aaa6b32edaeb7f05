"""The error of a query or expression, with its place in the text."""

from __future__ import annotations

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
