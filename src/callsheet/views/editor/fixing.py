"""Code actions: fixes for findings, missing arguments, all loose spellings at once.

In: a `PlanDocument`, findings, a range. Out: fixes with their edits, each with the finding it repairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span, fixes_of
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Call
from callsheet.views.editor import tooltext
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
        for fix in (*fixes_of(diagnostic, document.text), *_arguments(document, diagnostic, known))
    )


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
    call = step.action if step is not None else None
    if diagnostic.code != _MISSING or document.syntax is not Syntax.LTP or not isinstance(call, Call):
        return
    if call.span is None or call.span != diagnostic.span:
        return
    parameters = tooltext.parameters_of(call.tool, known.tools.get(call.tool))
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
