"""Laws of the text of version 2: a printed plan reads back, and no text breaks the reader."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.structured_plans import programs, trees

from callsheet.diagnostics import render_all
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.frontends.structured.json_printer import format_structured_json
from callsheet.frontends.structured.json_shapes import structured_schema
from callsheet.ir import Plan
from callsheet.ir.tree import all_statements

SCHEMA = Draft202012Validator(structured_schema())


@settings(max_examples=100, deadline=None)
@given(trees() | programs())
def test_printed_plan_is_read_back(plan: Plan) -> None:
    text = format_structured(plan)
    result = read_structured(text)
    assert result.plan is not None, render_all(result.diagnostics, result.source) + text
    assert result.plan == plan, render_all(result.diagnostics, result.source) + text
    assert not result.diagnostics
    assert format_structured(result.plan) == text
    assert result.plan.comments == plan.comments


@settings(max_examples=60, deadline=None)
@given(trees() | programs())
def test_json_plan_is_read_back(plan: Plan) -> None:
    text = format_structured_json(plan)
    result = parse_dag(text)
    assert result.plan is not None, render_all(result.diagnostics, result.source) + text
    assert result.plan == plan
    assert not result.diagnostics
    assert format_structured_json(result.plan) == text
    errors = list(SCHEMA.iter_errors(json.loads(text)))
    assert not errors, errors[0].message


@settings(max_examples=30, deadline=None)
@given(trees())
def test_no_comment_is_lost(plan: Plan) -> None:
    assert plan.tree is not None
    read = read_structured(format_structured(plan)).require().tree
    assert read is not None
    assert comments_of(read) == comments_of(plan.tree)


def comments_of(tree: object) -> list[str]:
    from callsheet.ir.tree import Tree

    assert isinstance(tree, Tree)
    said = [comment for one in all_statements(tree) for comment in (*one.comments, one.remark) if comment]
    return sorted(said)


@settings(max_examples=80, deadline=None)
@given(programs(), st.data())
def test_no_text_breaks_the_reader(plan: Plan, data: st.DataObject) -> None:
    text = format_structured(plan)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    added = data.draw(
        st.sampled_from(["", "{", "}", '"', '"""', "(", ")", "$", "ELSE", "\n", "#", "ON_FAIL", "S1: ", "${"])
    )
    broken = text[:at] + added + text[at + cut :]
    result = read_structured(broken)
    assert all(d.span is None or 0 <= d.span.start <= d.span.end <= len(broken) for d in result.diagnostics)
    if result.plan is not None and result.plan.tree is not None and result.plan.tree.body:
        again = read_structured(format_structured(result.plan)).require()
        assert again == result.plan
