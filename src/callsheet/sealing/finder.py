"""Finds what is secret in values: known secrets first, then what looks like one.

In: texts and whole JSON values. Out: the parts that are secret, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from callsheet.sealing.known import Known
from callsheet.sealing.shapes import Shapes

NAMED = "its name says so"
"""Why a text is secret that stands under a telling name."""


class Span(NamedTuple):
    """A part of a text that is secret, and why: `declared`, `configured`, or `looks like …`."""

    start: int
    end: int
    why: str


_SHORTEST = 8


class Finder:
    """What is known of secrets, and the shapes that are looked for; immutable.

    `shapes` is None where nothing is taken for a secret because it looks like one.
    """

    def __init__(self, known: Known | None = None, shapes: Shapes | None = None) -> None:
        self.known = known or Known()
        self.shapes = shapes

    def knowing(self, more: Known) -> Finder:
        """The same finder, which knows these as well."""
        return Finder(self.known + more, self.shapes) if more else self

    def without_shapes(self) -> Finder:
        """The same finder, for known secrets alone."""
        return Finder(self.known)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is ever found."""
        return self.shapes is None and not self.known

    def may_find(self, data: bytes) -> bool:
        """Whether something may be found in the value with this JSON text."""
        if self.known and self.known.may_be_in(data):
            return True
        return self.shapes is not None and self.shapes.may_be_in(data)

    def spans(self, text: str) -> list[Span]:
        """The secret parts of a text, in order, none touching another."""
        found = [Span(*place) for place in self.known.found_in(text)]
        if self.shapes is not None:
            found += [
                Span(start, end, f"looks like {name}") for start, end, name in self.shapes.found_in(text)
            ]
        return _merged(found)

    def whole(self, name: str, text: str) -> str | None:
        """Why a text that stands under this name is secret as a whole; None where it is not."""
        if self.shapes is not None and self.shapes.names_a_secret(name, text):
            return NAMED
        return None


def known_by_name(texts: Iterable[str]) -> Known:
    """The secrets that were found by their names, to be looked for elsewhere as well.

    Words are left out: `token: "identifier"` names no secret, and would be found everywhere.
    """
    telling = (text for text in texts if any(map(str.isdigit, text)))
    return Known.of(telling, NAMED, shortest=_SHORTEST)


def _merged(found: Iterable[Span]) -> list[Span]:
    """Parts that overlap or touch as one; it has the reason of the first, the longest of those."""
    merged: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if merged and span.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.why)
        else:
            merged.append(span)
    return merged
