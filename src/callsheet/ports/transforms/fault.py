"""What is wrong with a query or an expression, and at which character of it."""

from __future__ import annotations

from callsheet.ports.calls import ToolFailed

_BEFORE, _AFTER = 48, 40


class Fault(Exception):
    """A query or an expression that cannot be carried out.

    `at` is the offset of the character concerned, None where no single one is.
    """

    def __init__(self, message: str, at: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at

    def failure(self, text: str) -> ToolFailed:
        """The failure of the call: the message, and under it the place in `text` with a caret."""
        return ToolFailed(self.message if self.at is None else f"{self.message}\n{pointed(text, self.at)}")


class TooMuchWork(Fault):
    """The work allowed is used up."""


def pointed(text: str, at: int) -> str:
    """The part of a text around an offset, with a caret below the character there.

    >>> print(pointed("rows[?a", 7))
      rows[?a
             ^
    """
    at = min(max(at, 0), len(text))
    start, end = max(0, at - _BEFORE), min(len(text), at + _AFTER)
    left, right = "…" if start else "", "…" if end < len(text) else ""
    shown = "".join(c if c.isprintable() else " " for c in text[start:end])
    return f"  {left}{shown}{right}\n  {' ' * (len(left) + at - start)}^"
