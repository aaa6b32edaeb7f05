"""Edits that an editor offers: fixes for findings, missing arguments, loose spellings, formatting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError, Diagnostic, Edit, Fix, Severity, Span, fixes_of
from callsheet.frontends.spelling import OUTSIDE_CODES, Syntax, format_as
from callsheet.views.editor import knowledge
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import NOTHING, Knowledge

_MISSING = "CHK042"


class Repair(NamedTuple):
    """A fix, and the finding that it repairs."""

    fix: Fix
    of: Diagnostic


def repairs_in(
    document: PlanDocument, diagnostics: Sequence[Diagnostic], span: Span, known: Knowledge = NOTHING
) -> tuple[Repair, ...]:
    """Returns the repairs of the findings that touch a range.

    >>> from callsheet.views.editor.document import open_document
    >>> document = open_document("PLAN_START\\nS1: respond 'x'\\nPLAN_END")
    >>> [repair.fix.title for repair in repairs_in(document, document.diagnostics, Span(15, 15))]
    ['write @RESPOND']
    """
    return tuple(
        Repair(fix, diagnostic)
        for diagnostic in diagnostics
        if diagnostic.span is not None and _touch(diagnostic.span, span)
        for fix in repairs_of(document, diagnostic, known)
    )


def repairs_of(document: PlanDocument, diagnostic: Diagnostic, known: Knowledge = NOTHING) -> tuple[Fix, ...]:
    """Returns the repairs of a finding."""
    return (*fixes_of(diagnostic, document.text), *_arguments(document, diagnostic, known))


def fix_all(document: PlanDocument, diagnostics: Iterable[Diagnostic]) -> Fix | None:
    """Returns one fix for all loose spellings whose edits do not overlap, or None if there are none."""
    edits: list[Edit] = []
    for diagnostic in diagnostics:
        if diagnostic.severity is Severity.HINT and diagnostic.fix is not None:
            more = diagnostic.fix.edits
            if not any(_overlap(edit.span, other.span) for edit in more for other in edits):
                edits.extend(more)
    return (
        Fix("write all loose spellings canonically", tuple(sorted(edits, key=lambda e: e.span)))
        if edits
        else None
    )


def _arguments(document: PlanDocument, diagnostic: Diagnostic, known: Knowledge) -> Iterator[Fix]:
    """Yields a fix that adds the missing arguments of a call after the given ones."""
    step = document.partial.step(diagnostic.step or "")
    call = step.call if step is not None else None
    if diagnostic.code != _MISSING or document.syntax is not Syntax.LTP or call is None:
        return
    if call.span is None or call.span != diagnostic.span:
        return
    parameters = knowledge.parameters_of(call.tool, known.tools.get(call.tool))
    taken = {name for name, _ in call.named} | {p.name for p in parameters[: len(call.positional)]}
    missing = [p for p in parameters if p.is_required and p.name not in taken]
    if not missing:
        return
    written = ", ".join(
        f'{p.name}=""' if p.schema.get("type") == "string" else f"{p.name}=null" for p in missing
    )
    names = ", ".join(p.name for p in missing)
    end = call.span.end
    if document.text[end - 1] != ")":
        yield Fix(f"add {names}", (Edit(Span(end, end), f" ({written})"),))
    else:
        comma = ", " if call.positional or call.named else ""
        yield Fix(f"add {names}", (Edit(Span(end - 1, end - 1), f"{comma}{written}"),))


def _touch(one: Span, other: Span) -> bool:
    return one.start <= other.end and other.start <= one.end


def _overlap(one: Span, other: Span) -> bool:
    """Whether two edits change the same text or begin at the same offset."""
    return (one.start < other.end and other.start < one.end) or one.start == other.start


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
    if document.syntax is Syntax.PYTHON:
        return None  # formatters of Python do that
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
