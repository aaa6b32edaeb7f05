"""Laws of LTP text: printed plans parse to the same plan, and the parser never raises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError, render_all
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.values import Reader, format_condition, format_value, read_condition, read_value
from callsheet.ir import (
    Call,
    Condition,
    ListExpr,
    Literal,
    Plan,
    Ref,
    Step,
    Template,
    Value,
    plan_to_json,
)
from callsheet.ir.canon import canonical_bytes, plan_bytes
from callsheet.ir.expr import template

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strategies import conditions, plans, refs, texts, values

LAWS = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FRAGMENTS = [
    *(
        "PLAN_START\n",
        "PLAN_END\n",
        "S1: ",
        "S2: @X (",
        "@READ_FILE (path=",
        ")",
        "(",
        "[",
        "]",
        "{",
        "}",
        ",",
    ),
    *(
        '"',
        "'",
        '"""',
        'r"',
        "\\",
        "$a",
        "$",
        "${",
        "> $x",
        ":int",
        ":",
        "?IF (",
        "?FOREACH ($i IN ",
        ") THEN ",
    ),
    *(
        "AND ",
        "NOT ",
        "== ",
        "contains ",
        "IS_EMPTY(",
        "ON_FAIL ",
        "@RETRY(2)",
        "GOTO S1",
        "TERMINATE ",
        "RE-PLAN (",
    ),
    *(
        "@PARALLEL {",
        "@PARALEL {",
        "# c",
        "\n",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "```\n",
        "- ",
        "1. ",
        "null",
        "12",
        "1.5e3",
    ),
    *("-", "=", ".", "#", "\ud800", "é", "é: @X", "Hello there\n"),
]


@LAWS
@given(values())
def test_values_round_trip(value: Value) -> None:
    """read(format(v)) == v, and nothing is left over or complained about."""
    written = format_value(value)
    reader = Reader(written)
    assert read_value(reader) == value
    assert reader.pos == len(written)
    assert not [d for d in reader.diagnostics if d.code != "LTP119"]


@LAWS
@given(conditions())
def test_conditions_round_trip(condition: Condition) -> None:
    """read(format(c)) == c."""
    written = format_condition(condition)
    reader = Reader(written)
    assert read_condition(reader) == condition
    assert reader.pos == len(written)


@LAWS
@given(plans())
def test_plans_round_trip(plan: Plan) -> None:
    """parse(format(p)) == p with equal canonical JSON, strictly and without diagnostics."""
    text = format_plan(plan)
    result = parse(text, strict=True)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    assert result.plan == plan
    assert plan_bytes(result.require()) == canonical_bytes(plan_to_json(plan))


@LAWS
@given(plans())
def test_canonical_text_with_comments_is_printed_unchanged(plan: Plan) -> None:
    """format(parse(format(p))) == format(p)."""
    text = format_plan(plan)
    assert format_plan(parse(text).require()) == text


@LAWS
@given(plans())
def test_comments_are_kept(plan: Plan) -> None:
    """Comments and remarks keep their position."""

    def said(step: Step) -> tuple[tuple[str, ...], str | None]:
        return step.comments, step.remark

    again = parse(format_plan(plan)).require()
    assert [said(s) for s in again.steps] == [said(s) for s in plan.steps]
    assert again.comments == plan.comments


@settings(max_examples=500, deadline=None)
@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
def test_parser_never_raises(text: str) -> None:
    """Any text is a plan or has an error; a plan can be printed and parsed again."""
    result = parse(text)
    assert (result.plan is None) == any(d.is_error for d in result.diagnostics)
    assert all(
        d.span is not None and 0 <= d.span.start <= d.span.end <= len(text) for d in result.diagnostics
    )
    if result.plan is None:
        with pytest.raises(CallsheetError) as caught:
            result.require()
        assert caught.value.diagnostics == result.diagnostics
        return
    assert parse(format_plan(result.plan)).plan == result.plan


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
def test_every_line_is_parsed_or_has_diagnostic(text: str) -> None:
    """No line with content is dropped silently; a lost step contains an error."""
    result = parse(text)
    starts = [d.span.start for d in result.diagnostics if d.is_error and d.span is not None]
    assert all(any(lost.start <= at <= lost.end for at in starts) for lost in result.lost)
    covered = [d.span for d in result.diagnostics if d.span is not None]
    covered += [s.span for s in result.partial.steps if s.span is not None]
    covered += result.lost
    spoken = {number for span in covered for number in _lines(text, span.start, span.end)}
    silent = [
        line
        for number, line in enumerate(text.split("\n"))
        if number not in spoken and line.strip(" \t\r\ufeff") and not _is_structure(line)
    ]
    assert not silent


def _lines(text: str, start: int, end: int) -> range:
    return range(text.count("\n", 0, start), text.count("\n", 0, max(start, end)) + 1)


def _is_structure(line: str) -> bool:
    bare = line.partition("#")[0].replace("@PARALLEL", "").replace("PLAN_START", "").replace("PLAN_END", "")
    return not bare.strip(" \t\r{}\ufeff")


@given(st.from_regex(r"-?[0-9]{1,17}(\.[0-9]{0,17})?(e[0-9])?|1\.2\.3|-", fullmatch=True))
@LAWS
def test_number_is_read_same_in_any_context(number: str):
    close, apart = (parse(f"PLAN_START\nS1: @X (a={gap}{number})\nPLAN_END") for gap in ("", " "))
    assert [d.code for d in close.diagnostics] == [d.code for d in apart.diagnostics]
    values = [
        [repr(value) for step in read.partial.steps for value in step.values()] for read in (close, apart)
    ]
    assert values[0] == values[1]


@given(st.lists(texts() | refs(), min_size=1, max_size=6).map(template))
@LAWS
def test_text_with_line_breaks_stays_triple_quoted(value: Literal | Ref | Template):
    parts = value.parts if isinstance(value, Template) else (value,)
    text = "".join("x" if isinstance(p, Ref) else p if isinstance(p, str) else str(p.value) for p in parts)
    plan = Plan((Step("S1", Call("A", (value,), (("b", ListExpr((value,))),))),))
    spelled = format_plan(plan)
    assert parse(spelled).require() == plan
    first, _, others = text.partition("\n")
    if (first.strip() and others.strip()) or "\n" in others:
        assert spelled.count('"""\n') == 2
