"""Laws of the text of version 2: a printed plan reads back, and no text breaks the reader."""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.structured_plans import programs, trees

from callsheet.diagnostics import CODES, render_all
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.expressions import format_expression, read_expression
from callsheet.frontends.structured import blocks, cursor, format_structured, read_structured
from callsheet.frontends.structured.json_form import structured_schema
from callsheet.frontends.structured.json_printer import format_structured_json
from callsheet.ir import Literal, Plan
from callsheet.ir.tree import all_statements

WORDS = [
    "S1: ", "@A (", "@PARALLEL {", "?IF (", "?FOREACH ($x IN ", "?REPEAT (max=3", "TRY {", "ELSE {", "}", ")",
    "{", "\n", "\n", "\n", " > $x", ":list[str]", " ON_FAIL ", "CONTINUE", "@RETRY(2)", "TOOL", "FINALLY {",
    "UNTIL (", "LET $x = ", "SET ", "YIELD (", "$x.y", "1", '"a ${x}"', '"', "'", '"""', "INPUT $n: int",
    "TYPE T = {a: int", "PLAN p (", "USE p FROM ", "COMPUTE (reads=[$x]) > $y ", "RETURN", "REQUIRE ", "#",
    " # why", "THEN ", "\r", "$", "```", "PLAN_START", "\x00", "é", "\\",
]  # fmt: skip
SCHEMA = Draft202012Validator(structured_schema())
NEVER = re.compile(r"(?!)")


@settings(max_examples=100, deadline=None)
@given(trees() | programs(stops=True))
def test_a_plan_is_the_same_in_every_spelling(plan: Plan) -> None:
    text = format_structured(plan)
    result = read_structured(text)
    assert result.plan is not None, render_all(result.diagnostics, result.source) + text
    assert result.plan == plan, render_all(result.diagnostics, result.source) + text
    assert not result.diagnostics
    assert format_structured(result.plan) == text
    assert result.plan.comments == plan.comments
    assert comments_of(result.plan) == comments_of(plan)
    assert read_structured(text.replace("\n", "\r\n")).plan == plan

    data = format_structured_json(plan)
    from_json = parse_dag(data)
    assert from_json.plan is not None, render_all(from_json.diagnostics, from_json.source) + data
    assert from_json.plan == plan
    assert not from_json.diagnostics
    assert format_structured_json(from_json.plan) == data
    errors = list(SCHEMA.iter_errors(json.loads(data)))
    assert not errors, errors[0].message


def comments_of(plan: Plan) -> list[str]:
    """All comments of statements, sorted: one inside brackets moves before its statement."""
    assert plan.tree is not None
    found = (comment for one in all_statements(plan.tree) for comment in (*one.comments, one.remark))
    return sorted(comment for comment in found if comment)


LINES = st.lists(
    st.sampled_from([*'\n\n"\\$#}\t', " ", '"""', "x", "${", "\u00a0", "\r"]), min_size=1, max_size=8
).map("".join)


@settings(max_examples=100, deadline=None)
@given(LINES, LINES)
def test_a_text_of_several_lines_is_printed_as_it_will_be_read(before: str, after: str) -> None:
    text = "".join(json.dumps(part)[1:-1].replace("$", "\\$") + "${x['a']}" for part in (before, after))
    plan = read_structured(
        f'# ltp: 2\nINPUT $x: json\n?IF ($x) {{\n@A (b="{text}", c=1) > $y  # why\n}}'
    ).plan
    assert plan is not None
    printed = format_structured(plan)
    again = read_structured(printed)
    assert again.plan == plan, printed
    assert format_structured(again.plan) == printed
    assert comments_of(again.plan) == ["why"]
    is_long = (before + "$" + after).count("\n") > 1
    hides_blanks = " \n" in before + "$" + after
    assert ('"""\n' in printed) == (is_long and not hides_blanks), printed


@given(LINES)
def test_a_text_reads_back_as_it_was_also_where_it_is_printed_raw(text: str) -> None:
    printed = format_expression(Literal(text))
    assert read_expression(printed).expression == Literal(text)
    is_pattern = "\\" in text and text.isprintable() and text[-1] != "\\" and not {'"', "$"} & set(text)
    assert printed.startswith("r") == is_pattern


@settings(max_examples=50, deadline=None)
@given(programs(stops=True))
def test_fast_paths_read_what_the_general_reader_reads(plan: Plan) -> None:
    text = format_structured(plan)
    usual = read_structured(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_USUAL_CALL", NEVER)
        patch.setattr(cursor, "_USUAL_ARGUMENT", NEVER)
        general = read_structured(text)
    assert usual.plan == general.plan
    assert spans_in(usual.plan) == spans_in(general.plan)


def spans_in(node: Any) -> list[Any]:
    """All spans of a plan, in the order of its fields."""
    if isinstance(node, tuple) and not hasattr(node, "_fields"):
        return [span for one in node for span in spans_in(one)]
    if not is_dataclass(node):
        return []
    own = [(type(node).__name__, getattr(node, "span", None))]
    return own + [span for part in fields(node) for span in spans_in(getattr(node, part.name))]


@settings(max_examples=80, deadline=None)
@given(programs(stops=True, fuel=6), st.data())
def test_no_change_to_a_text_breaks_the_reader(plan: Plan, data: st.DataObject) -> None:
    text = format_structured(plan)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    broken = text[:at] + data.draw(st.sampled_from(["", *WORDS])) + text[at + cut :]
    result = read_structured(broken)
    assert all(d.span is None or 0 <= d.span.start <= d.span.end <= len(broken) for d in result.diagnostics)
    if result.plan is not None and result.plan.tree is not None and result.plan.tree.body:
        assert read_structured(format_structured(result.plan)).require() == result.plan


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14).map("".join))
def test_any_text_is_read_or_told_why_not(text: str) -> None:
    result = read_structured("# ltp: 2\n" + text)
    assert result.plan is not None or any(d.is_error for d in result.diagnostics)
    assert {d.code for d in result.diagnostics} <= set(CODES)
