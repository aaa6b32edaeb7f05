"""Laws of JSON plans: they print and read back unchanged, and JSON is read as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dag_plans import dag_plans
from tests.growth import seconds
from tests.strategies import plans

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag, to_dag, to_text_order
from callsheet.frontends.dag.json_tree import Report, Unreadable, read_json
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.tree import plain
from callsheet.ir import Order, Plan, plan_from_json, plan_to_json

LAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
_SCALARS = st.none() | st.booleans() | st.integers() | _FLOATS | st.text()
JSON = st.recursive(_SCALARS, lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside))
SPACE = st.text(" \t\r\n", max_size=3)


@given(dag_plans())
@LAWS
def test_printed_text_parses_back_and_prints_same(plan: Plan) -> None:
    """parse(format(p)) == p, and format is idempotent."""
    text = format_dag(plan)
    result = parse_dag(text)
    assert result.require() == plan
    assert format_dag(result.require()) == text
    assert plan_from_json(plan_to_json(plan)) == plan


@given(JSON, st.booleans(), st.sampled_from([None, 0, 3, "\t"]), SPACE, SPACE)
@LAWS
def test_valid_json_equals_json_loads(value: Any, ascii_: bool, indent: Any, before: str, after: str) -> None:
    text = before + json.dumps(value, ensure_ascii=ascii_, indent=indent) + after
    report = Report()
    assert repr(plain(read_json(text, report))) == repr(json.loads(text))
    assert not report.diagnostics


@pytest.mark.parametrize(
    "text",
    [
        r'"\/ \ud83d\ude00 \ud83d \u0000 \b\f\n\r\t\\\""', "1e5", "1E+5", "-0", "-0.0", "1e-400", "\t[1,\t2]\r\n",  # noqa: E501
        "123456789012345678901234567890", '"\x7f\u2028\x85"', '{"": 1, " ": {"\\u0061": []}}', "[[],{}]",
    ],
)  # fmt: skip
def test_unusual_valid_json_is_read(text: str) -> None:
    assert repr(plain(read_json(text, Report()))) == repr(json.loads(text))


@given(st.text("{}[]\",:'#/ntruefalse0123456789.-+eE\\ \t\n$", max_size=12) | st.text(max_size=6))
@LAWS
def test_invalid_json_gives_diagnostics_and_never_raises(text: str) -> None:
    report = Report()
    try:
        found = plain(read_json(text, report))
    except Unreadable:
        found = None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except ValueError:
        assert report.errors
    else:
        assert not report.errors
        assert repr(found) == repr(value)


def _refuse(name: str) -> None:
    raise ValueError(name)


@given(st.text(max_size=40), st.booleans())
@LAWS
def test_any_text_is_parsed_or_refused_with_reason(text: str, is_yaml: bool) -> None:
    result = parse_dag(text, is_yaml=is_yaml)
    assert (result.plan is None) == any(d.is_error for d in result.diagnostics)
    assert all(d.span is not None and 0 <= d.span.start <= d.span.end for d in result.diagnostics)


@given(dag_plans())
@LAWS
def test_plan_is_equal_in_yaml(plan: Plan) -> None:
    """Canonical JSON is YAML too, but for characters that YAML texts do not have."""
    text = format_dag(plan)
    if text.isascii() and text.replace("\n", "").isprintable() and "\\u" not in text:
        assert parse_dag(text, is_yaml=True).require() == plan


@given(plans())
@LAWS
def test_text_plan_becomes_graph_of_same_calls_or_is_refused_with_position(plan: Plan) -> None:
    try:
        made = to_dag(plan).plan
    except CallsheetError as error:
        refused = error.diagnostics
    else:
        assert [s.action for s in made.steps] == [s.action for s in plan.steps]
        if plan.id is None:
            assert parse_dag(format_dag(made)).require() == made
        return
    assert {d.code for d in refused} == {"DAG070"}
    assert {d.step for d in refused} <= {s.id for s in plan.steps}


@given(dag_plans())
@LAWS
def test_graph_becomes_parsable_text_or_is_refused(plan: Plan) -> None:
    try:
        made = to_text_order(plan).plan
        text = format_plan(made)
    except CallsheetError as error:
        refused = error.diagnostics
    else:
        assert made.order is Order.TEXT
        assert not plan.steps or parse(text).require() == made
        return
    assert {d.code for d in refused} == {"LTP070"}


def _text(count: int) -> str:
    step = {"title": "Step", "tool": "t", "args": {"x": ["${v0.a} \n", {"y": 1}]}, "when": "$v0 != 1"}
    steps = [{"index": i, **step, "depends_on": [i - 1] if i else []} for i in range(count)]
    return json.dumps({"variables": {"v0": 1}, "steps": steps}, indent=1)


@pytest.mark.parametrize("is_yaml", [False, True])
def test_parsing_time_is_subquadratic(is_yaml: bool) -> None:
    def reading(count: int) -> float:
        text = _text(count)
        return seconds(lambda: parse_dag(text, is_yaml=is_yaml).require())

    parse_dag(_text(10))
    assert reading(1_600) < 30 * max(reading(200), 0.02)
