"""A plan that may read otherwise than it is executed is reported, in strings and in comments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.frontends.dag import format_dag, parse_dag
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.ir import Call, Literal, Order, Plan, Step

PLAN = """# ltp: 1
PLAN_START
# {0}note
S1: @WRITE_FILE (path="a{0}txt.sh", content="x{0}y{0}") > $a
S2: @RESPOND ($a)
PLAN_END
"""


@pytest.mark.parametrize(
    "hidden", ["\u202e", "\u202a", "\u2066", "\u2069", "\u200b", "\u2060", "\ufeff", "\U000e0041"]
)
def test_first_hidden_character_of_each_line_is_reported(hidden: str) -> None:
    result = parse(PLAN.format(hidden))
    assert [(d.code, d.is_error) for d in result.diagnostics] == [("LTP071", False)] * 2
    lines = [result.source.position(d.span.start).line for d in result.diagnostics if d.span is not None]
    assert lines == [3, 4]
    assert f"U+{ord(hidden):04X}" in result.diagnostics[0].message


@pytest.mark.parametrize("text", ["", "é", "日本", "שלום", "👩‍👩‍👧", "نمی‌خواهم", "a\u00adb", "\u200e"])
def test_letters_of_any_script_and_what_joins_them_are_not(text: str) -> None:
    assert parse(PLAN.format(text)).diagnostics == ()


def test_byte_order_mark_is_accepted_and_formatting_escapes_bidirectional_controls() -> None:
    assert parse("\ufeff" + PLAN.format("")).diagnostics == ()
    plan = parse('PLAN_START\nS1: @RESPOND ("a\u202eb")\nPLAN_END\n').require()
    assert "\\u202e" in format_plan(plan)
    assert parse(format_plan(plan)).diagnostics == ()
    assert len(parse("# \u202e\n" * 1_000 + PLAN.format("")).diagnostics) == 20


GRAPH = {
    "title": "A{0}",
    "steps": [{"index": "1", "title": "", "tool": "read", "args": {"p{0}": "x{0}y{0}"}, "depends_on": []}],
}


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\u206a", "\ufff9", "\U000e0041"])
def test_every_form_of_plan_reports_hidden_characters(hidden: str) -> None:
    graph = json.dumps(GRAPH, ensure_ascii=False, indent=1).replace("{0}", hidden)
    block = f"steps:\n- {{index: 1, title: '', tool: read, depends_on: [], args: {{path: 'a{hidden}'}}}}\n"
    micro = f'search "te{hidden}a" > hits\nrespond hits'
    told = (parse_dag(graph), parse_dag(block, is_yaml=True), parse_micro(micro))
    assert [[d.code for d in result.diagnostics] for result in told] == [
        ["LTP071"] * 2,
        ["LTP071"],
        ["LTP071"],
    ]
    assert all(result.plan is not None for result in told)


def test_byte_order_mark_of_json_is_accepted() -> None:
    assert parse_dag("\ufeff" + json.dumps(GRAPH).replace("{0}", "")).diagnostics == ()


TEXTS = st.text(
    st.sampled_from('a"\\$\n\t\x7f\x85\u061c\u200b\u200d\u200e\u2028\u202e\u2060\u206f\ufeff\ufffb')
    | st.sampled_from(["\U000e0001", "\U000e0041", "\U000e007f", "\ud83d", "\ude00", "\U0001f600"]),
    max_size=8,
)


@given(TEXTS)
def test_canonical_text_of_every_form_hides_nothing_and_keeps_the_value(text: str) -> None:
    call = Call("READ", named=(("path", Literal(text)),))
    plan = Plan((Step("S1", call),))
    graph = Plan((Step("S1", call, depends_on=(), title=""),), Order.DAG)
    for written, again, formatted in (
        (format_plan(plan), parse, format_plan),
        (format_micro(plan), parse_micro, format_micro),
        (format_dag(graph), parse_dag, format_dag),
    ):
        result = again(written)
        assert [d.code for d in result.diagnostics if d.code == "LTP071"] == []
        action = result.require().steps[0].action
        assert isinstance(action, Call)
        assert dict(action.named)["path"] == Literal(text)
        assert formatted(result.require()) == written
