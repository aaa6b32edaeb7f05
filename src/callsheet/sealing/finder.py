"""Finds secrets in texts: known secrets, and texts that look like a secret.

In: texts and the JSON of whole values. Out: the secret spans, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from callsheet.sealing.known import Known
from callsheet.sealing.shapes import Shapes

NAMED = "its name says so"
"""The reason given for a text that is secret because of the name of its field."""


class Span(NamedTuple):
    """A secret part of a text, and the reason: `declared`, `configured`, or `looks like …`."""

    start: int
    end: int
    why: str


_SHORTEST = 8


class Finder:
    """The known secrets and the credential patterns to search for; immutable.

    `shapes` is None if nothing counts as a secret merely because it looks like one.
    """

    def __init__(self, known: Known | None = None, shapes: Shapes | None = None) -> None:
        self.known = known or Known()
        self.shapes = shapes

    def knowing(self, more: Known) -> Finder:
        """A finder that knows these secrets as well."""
        return Finder(self.known + more, self.shapes) if more else self

    def without_shapes(self) -> Finder:
        """A finder for the known secrets only."""
        return Finder(self.known)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to search for."""
        return self.shapes is None and not self.known

    def may_find(self, data: bytes) -> bool:
        """A quick check: False only if the value with this JSON text contains no secret."""
        if self.known and self.known.may_be_in(data):
            return True
        return self.shapes is not None and self.shapes.may_be_in(data)

    def spans(self, text: str) -> list[Span]:
        """The secret spans of a text, in order; spans that overlap or touch are merged."""
        spans = [Span(*place) for place in self.known.found_in(text)]
        if self.shapes is not None:
            spans += [
                Span(start, end, f"looks like {name}") for start, end, name in self.shapes.found_in(text)
            ]
        return _merged(spans)

    def whole(self, name: str, text: str) -> str | None:
        """The reason why a whole text is secret given the name of its field; None if it is not."""
        if self.shapes is not None and self.shapes.names_a_secret(name, text):
            return NAMED
        return None


def known_by_name(texts: Iterable[str]) -> Known:
    """Texts that were secret because of their field name, as known secrets to find elsewhere as well.

    Texts without a digit are left out: `token: "identifier"` names no secret and would match everywhere.
    """
    telling = (text for text in texts if any(map(str.isdigit, text)))
    return Known.of(telling, NAMED, shortest=_SHORTEST)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Merges spans that overlap or touch; the reason is that of the first (of several, the longest)."""
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start <= merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.why)
        else:
            merged.append(span)
    return merged
