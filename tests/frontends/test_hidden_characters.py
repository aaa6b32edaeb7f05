"""A plan that may read otherwise than it is executed is reported, in strings and in comments."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import format_plan, parse

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
