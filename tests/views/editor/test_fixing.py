"""Fixes: a proposed edit removes the finding."""

from __future__ import annotations

import pytest

from callsheet.api.checking import check_plan
from callsheet.diagnostics import Diagnostic, Severity, Span, WordFix, fixes_of
from callsheet.passes import ToolSignature, check
from callsheet.views.editor.document import PlanDocument, open_document
from callsheet.views.editor.edits import fix_all, repairs_in
from views.editor.marks import KNOWN, TOOLS, applied

SIGNATURES = {name: ToolSignature.from_schema(spec.parameters, spec.effect) for name, spec in TOOLS.items()}


def found(document: PlanDocument) -> tuple[Diagnostic, ...]:
    if document.plan is None:
        return document.diagnostics
    return (*document.diagnostics, *check(document.plan, tools=SIGNATURES))


@pytest.mark.parametrize(
    ("text", "code", "title", "after"),
    [
        ("S1: @ADDD (a=1)", "CHK040", "write ADD", "S1: @ADD (a=1)"),
        ("S1: @ADD (a=1) > $page\nS2: @RESPOND ($pagee)", "CHK001", "write page", "$page)"),
        ('S1: @ADD (a=1) > $page\nS2: @RESPOND ("x ${pagee.k}")', "CHK001", "write page", "${page.k}"),
        ("step: @ADD (a=1)\nS2: GOTO stepp", "CHK012", "write step", "GOTO step"),
        ("S1: @ADD (a=1) ON_FAIL GOTO S22\nS2: @ADD (a=2)", "CHK012", "write S2", "ON_FAIL GOTO S2\n"),
        ('S1: @SEND (to="me", text="x", noww=true)', "CHK041", "write now", "now=true"),
        ("S1: @ADD ()", "CHK042", "add a", "@ADD (a=null)"),
        ("S1: @ADD", "CHK042", "add a", "@ADD (a=null)"),
        ('S1: @SEND ("me")', "CHK042", "add text", '@SEND ("me", text="")'),
        ("S1: @ADD (a=True)", "LTP105", "write true", "a=true"),
        ("S1: @ADD (a=1) -> $x", "LTP052", "write >", "> $x"),
    ],
)
def test_fix_removes_finding(text: str, code: str, title: str, after: str) -> None:
    text = f"PLAN_START\n{text}\nPLAN_END\n"
    document = open_document(text)
    everywhere = Span(0, len(text))
    repairs = [r for r in repairs_in(document, found(document), everywhere, KNOWN) if r.of.code == code]
    (fix,) = [r.fix for r in repairs if r.fix.title == title]
    repaired = applied(text, fix.edits)
    assert after in repaired
    assert code not in {d.code for d in found(open_document(repaired))}


def test_each_suggestion_is_separate_fix() -> None:
    wrong = Diagnostic("CHK040", Severity.ERROR, "", Span(4, 12), swap=WordFix("FILE", ("FILL", "FILM")))
    assert [fix.title for fix in fixes_of(wrong, "S1: @FILE (1)")] == ["write FILL", "write FILM"]


def test_word_without_clear_position_has_no_fix() -> None:
    wrong = Diagnostic("CHK001", Severity.WARNING, "", Span(0, 20), swap=WordFix("x", ("y",)))
    assert fixes_of(wrong, "      x and x here   ") == ()


def test_all_loose_spellings_are_fixed_at_once() -> None:
    text = "respond 'a'\ns2: @add (A=True)\ngoto(s2)"
    document = open_document(text)
    fix = fix_all(document, document.diagnostics)
    assert fix is not None
    repaired = open_document(applied(text, fix.edits))
    assert repaired.plan is not None
    assert len(repaired.diagnostics) < len(document.diagnostics)


def test_canonical_plan_has_no_fixes() -> None:
    document = open_document('# ltp: 1\nPLAN_START\nS1: @RESPOND ("x")\nPLAN_END\n')
    assert fix_all(document, document.diagnostics) is None
    assert check_plan(document.plan, None) == ()
