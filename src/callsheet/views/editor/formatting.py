"""Formats a document or a range of its lines, as edits to the canonical form.

In: a `PlanDocument`. Out: edits; none if the text is canonical or cannot be formatted. The formatted document
equals the output of `callsheet fmt`.
"""

from __future__ import annotations

from difflib import SequenceMatcher

from callsheet.diagnostics import CallsheetError, Edit, Span
from callsheet.frontends.spelling import OUTSIDE_CODES, Syntax, format_as
from callsheet.views.editor.document import PlanDocument

_MOST_LINES = 2_000
"""With more lines between the first and the last change, they are replaced by one edit."""


def canonical_text(document: PlanDocument) -> str | None:
    """Returns the canonical form of a text, or None if it has an error or content that would be lost.

    >>> from callsheet.views.editor.document import open_document
    >>> print(canonical_text(open_document("s1: respond 'x'")), end="")
    # ltp: 1
    PLAN_START
    s1: @RESPOND ("x")
    PLAN_END
    """
    if document.plan is None or any(d.code in OUTSIDE_CODES for d in document.diagnostics):
        return None
    if document.syntax is Syntax.DAG and not document.text.lstrip().startswith("{"):
        return None  # YAML, whose comments would be lost
    try:
        return format_as(document.syntax, document.plan)
    except CallsheetError:
        return None


def formatting(document: PlanDocument, within: Span | None = None) -> tuple[Edit, ...]:
    """Returns the edits that make the text canonical; with `within`, only those that touch that span."""
    wanted = canonical_text(document)
    if wanted is None or wanted == document.text:
        return ()
    edits = line_edits(document.text, wanted)
    if within is None:
        return edits
    return tuple(e for e in edits if e.span.start <= within.end and within.start <= e.span.end)


def line_edits(before: str, after: str) -> tuple[Edit, ...]:
    """Returns edits of whole lines that convert one text to the other; one edit if the changed part is long.

    >>> line_edits("a\\nb\\nc\\n", "a\\nB\\nc\\n")
    (Edit(span=Span(start=2, end=4), text='B\\n'),)
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    first = _common_prefix(old, new)
    most = min(len(old), len(new)) - first
    last = min(most, _common_prefix(old[::-1], new[::-1]))
    ends = len(old) - last, len(new) - last
    if max(ends) - first > _MOST_LINES:
        changed = [(first, ends[0], first, ends[1])]
    else:
        matcher = SequenceMatcher(None, old[first : ends[0]], new[first : ends[1]], autojunk=False)
        changed_ranges = (code[1:] for code in matcher.get_opcodes() if code[0] != "equal")
        changed = [(i1 + first, i2 + first, j1 + first, j2 + first) for i1, i2, j1, j2 in changed_ranges]
    return tuple(Edit(Span(starts[i1], starts[i2]), "".join(new[j1:j2])) for i1, i2, j1, j2 in changed)


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Returns the number of common lines at the beginning."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
