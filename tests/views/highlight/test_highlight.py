"""Highlighting agrees with the parser: each part of a plan has the class of the table."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from tests.structured_plans import programs

from callsheet.diagnostics import Span
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir import Call, CallKind, DictExpr, ListExpr, Literal, Plan, Ref, Template, Value
from callsheet.ir.expr import refs_of
from callsheet.ir.expression import Variable, nodes
from callsheet.ir.tree import all_statements, operands
from callsheet.views.editor.document import open_document
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.highlight.pygments_lexer import TOKENS, LtpLexer
from callsheet.views.highlight.rules import NAMES, RULES, Scope, scan, textmate_grammar
from strategies import plans
from views.highlight.textmate_reader import scopes

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "frontends" / "corpus"
GOOD = sorted((FOLDER / "good").glob("*.ltp"))
ALL = sorted(FOLDER.rglob("*.ltp"))


def painted(text: str) -> list[Scope | None]:
    """The class of each character."""
    out: list[Scope | None] = [None] * len(text)
    for span, scope in scan(text):
        out[span.start : span.end] = [scope] * (span.end - span.start)
    return out


def literals(value: Value) -> Iterator[Literal]:
    match value:
        case Literal():
            yield value
        case ListExpr(items=items):
            for item in items:
                yield from literals(item)
        case DictExpr(items=pairs):
            for _, item in pairs:
                yield from literals(item)
        case Ref() | Template():
            pass


def expected(text: str, plan: Plan) -> Iterator[tuple[Span, set[Scope]]]:
    """The parser's view of a text: spans and the scopes that their characters may have."""
    for step in plan.steps:
        if isinstance(step.action, Call) and step.action.span is not None:
            start = step.action.span.start
            kind = Scope.TOOL if step.action.kind is CallKind.TOOL else Scope.OPERATION
            yield Span(start, start + 1 + len(step.action.tool)), {kind}
        values = [*step.values(), *step.failure_values()]
        values += [] if step.foreach is None else [step.foreach.source]
        for value in values:
            yield from (found for literal in literals(value) for found in of_literal(text, literal))
        for node in (*values, *([] if step.condition is None else [step.condition])):
            for ref in refs_of(node):
                yield ref.span or Span(0, 0), {Scope.VARIABLE, Scope.PATH}
        if step.output is not None and step.output.span is not None:
            yield step.output.span, {Scope.OPERATOR, Scope.VARIABLE, Scope.BRACKET, Scope.CAST}
    for found in occurrences(open_document(text)):
        if found.entity.kind is Kind.STEP:
            yield found.span, {Scope.LABEL}
        elif found.role is Role.WRITE:
            yield found.span, {Scope.VARIABLE}


def of_literal(text: str, literal: Literal) -> Iterator[tuple[Span, set[Scope]]]:
    span = literal.span or Span(0, 0)
    if isinstance(literal.value, str):
        if text[span.start] in "\"'rR":  # a number that is too large for one is kept as text
            yield span, {Scope.STRING, Scope.ESCAPE}
    else:
        is_word = literal.value is None or isinstance(literal.value, bool)
        yield span, {Scope.CONSTANT if is_word else Scope.NUMBER}


def check(text: str, plan: Plan) -> None:
    colours = painted(text)
    for span, allowed in expected(text, plan):
        seen = {
            c for c, char in zip(colours[slice(*span)], text[slice(*span)], strict=True) if char not in " \t"
        }
        assert seen <= allowed, (text[slice(*span)], seen, allowed)


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_highlighting_agrees_with_parser(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    check(text, parse(text).require())


@settings(max_examples=120)
@given(plans())
def test_highlighting_of_any_printed_plan_agrees_with_parser(plan) -> None:
    """In every canonical text each tool, text, number, reference, output and id has its own class."""
    text = format_plan(plan)
    check(text, parse(text).require())


@given(st.sampled_from([*RULES]), st.text(alphabet="S1:@A(\"$x\\\n f'{=#>") | st.text(max_size=60))
def test_highlighted_pieces_are_in_order_for_any_text(syntax, text) -> None:
    """In each spelling pieces never overlap and never lie outside of the text."""
    at = 0
    for span, _ in scan(text, RULES[syntax]):
        assert at <= span.start < span.end <= len(text)
        at = span.end


@pytest.mark.parametrize("syntax", [*RULES])
def test_long_lines_take_time_in_proportion_to_their_length(syntax) -> None:
    """A server scans texts of others, and nothing else runs meanwhile."""
    begun = process_time()
    for start in ("", "- ", "{"):
        assert len([*scan(start + " " * 15_000, RULES[syntax])]) <= 1
    assert process_time() - begun < 1.5


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_textmate_grammar_gives_same_classes_by_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    names = ["" if scope is None else NAMES[scope] for scope in painted(text)]
    read = scopes(textmate_grammar(), text)
    for number, (mine, theirs) in enumerate(zip(names, read, strict=True)):
        assert mine == theirs or text[number] in "\r\n", (number, text[number - 10 : number + 10])


@settings(max_examples=100)
@given(plans())
def test_textmate_grammar_gives_same_classes_for_any_plan(plan) -> None:
    """Highlighting line by line equals the scan of the whole text."""
    text = "".join(c for c in format_plan(plan) if c not in "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    names = ["" if scope is None else NAMES[scope] for scope in painted(text)]
    read = scopes(textmate_grammar(), text)
    assert [m for m, c in zip(names, text, strict=True) if c != "\n"] == [
        r for r, c in zip(read, text, strict=True) if c != "\n"
    ]


def test_shipped_grammar_is_generated_from_table() -> None:
    shipped = ROOT / "editors" / "vscode" / "syntaxes" / "ltp.tmLanguage.json"
    assert json.loads(shipped.read_text(encoding="utf-8")) == textmate_grammar()


def test_pygments_finds_lexer_by_name_and_suffix(tmp_path, monkeypatch) -> None:
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    installed = tmp_path / "plans-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plans\nVersion: 1\n")
    lines = [f"{name} = {place}" for name, place in entries["pygments.lexers"].items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pygments.lexers]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(get_lexer_by_name("ltp"), LtpLexer)
    assert isinstance(get_lexer_for_filename("report.ltp"), LtpLexer)


@pytest.mark.parametrize("path", ALL, ids=lambda p: p.stem)
def test_pygments_keeps_whole_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "".join(value for _, _, value in LtpLexer().get_tokens_unprocessed(text)) == text


def test_every_scope_has_name_in_each_table() -> None:
    assert set(NAMES) == set(TOKENS) == set(Scope)


@settings(max_examples=25, deadline=None)
@given(programs(fuel=6))
def test_version_2_is_painted_as_the_parser_reads_it(plan: Plan) -> None:
    text = format_structured(plan)
    classes = painted(text)
    tree = read_structured(text).require().tree
    assert tree is not None
    for one in all_statements(tree):
        if one.span is not None and getattr(one, "is_named", False):
            assert set(classes[one.span.start : one.span.start + len(one.id)]) == {Scope.LABEL}
        for node in (inner for operand in operands(one) for inner in nodes(operand)):
            if isinstance(node, Variable) and node.span is not None:
                assert set(classes[slice(*node.span)]) == {Scope.VARIABLE}, text[slice(*node.span)]
    words = r"^ *(?:[\w.-]+: )?(LET|SET|NOTE|TRY|\?IF|\?FOREACH|@PARALLEL|@RESPOND|CALL)\b"
    for found in re.finditer(words, text, re.MULTILINE):
        assert set(classes[slice(*found.span(1))]) == {Scope.KEYWORD}
    for found in re.finditer(r"@(?:READ|KEEP|WRITE|FAULTY)\b", text):
        assert set(classes[slice(*found.span())]) == {Scope.TOOL}


@settings(max_examples=25, deadline=None)
@given(programs(fuel=6))
def test_textmate_grammar_gives_same_classes_in_version_2(plan: Plan) -> None:
    more = '?IF ($n[0].a ?? 1 > 2) {\n  @A (x="a ${n.b} ${[r for r in $n]}\\n", y=r"\\d") > $m:int?\n}\n'
    text = format_structured(plan) + more
    names = ["" if scope is None else NAMES[scope] for scope in painted(text)]
    read = scopes(textmate_grammar(), text)
    assert [m for m, c in zip(names, text, strict=True) if c != "\n"] == [
        r for r, c in zip(read, text, strict=True) if c != "\n"
    ]
