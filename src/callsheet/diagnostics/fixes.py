"""The repairs of a finding as edits of its text: its own, and those of words that were misspelt."""

from __future__ import annotations

import re

from callsheet.diagnostics.diagnostic import Diagnostic, Edit, Fix
from callsheet.diagnostics.source import Span

_BEFORE = 200
"""So many characters before a span the name of the argument is looked for whose value it is."""


def fixes_of(diagnostic: Diagnostic, text: str) -> tuple[Fix, ...]:
    """The repairs of a finding in the text that its span points into; none where the place is not clear.

    >>> from callsheet.diagnostics import Severity, WordFix
    >>> wrong = Diagnostic("CHK012", Severity.ERROR, "no", Span(4, 12), swap=WordFix("S33", ("S3",)))
    >>> [fix.title for fix in fixes_of(wrong, "S1: GOTO S33")], fixes_of(wrong, "S1: GOTO  x")
    (['write S3'], ())
    """
    own = () if diagnostic.fix is None else (diagnostic.fix,)
    if diagnostic.swap is None or diagnostic.span is None:
        return own
    place = _place(text, diagnostic.swap.word, diagnostic.span)
    if place is None:
        return own
    return (*own, *(Fix(f"write {word}", (Edit(place, word),)) for word in diagnostic.swap.meant))


def _place(text: str, word: str, span: Span) -> Span | None:
    """Where the word stands, in any case: once in the span, or else last of all right before it."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    inside = [*pattern.finditer(text, *span)]
    if len(inside) == 1:
        return Span(*inside[0].span())
    if inside:
        return Span(*inside[0].span()) if inside[0].start() - span.start <= 1 else None
    before = re.compile(rf"(?<!\w)({re.escape(word)})[\"']?\s*[=:]\s*", re.IGNORECASE)
    start = max(span.start - _BEFORE, 0)
    near = [match for match in before.finditer(text, start, span.start) if match.end() == span.start]
    return Span(*near[-1].span(1)) if near else None
