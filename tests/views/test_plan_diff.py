"""The printed difference of two plans: short, complete, and safe on a terminal."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings

from callsheet.frontends.ltp import parse
from callsheet.ir import Call, DictExpr, Literal, Order, Plan, Respond, Step
from callsheet.ir.diff import diff_plans
from callsheet.views.diff_lines import focused, line_changes
from callsheet.views.plan_diff import plan_diff_json, plan_diff_text
from strategies import plans

OLD = """\
S1: @FETCH_PAGE (url="https://a") > $page:json ON_FAIL @RETRY(2)
S2: @LLM_SUMMARIZE ($page, format="short") > $summary
S3: ?IF ($summary contains "x") THEN @NOTIFY (text="x")
S4: @RESPOND ($summary)
"""


def shown(old: str, new: str, **options: object) -> list[str]:
    """The lines between the names and the summary."""
    diff = diff_plans(parse(old).require(), parse(new).require())
    return plan_diff_text(diff, "a", "b", **options).split("\n")[1:-1]  # type: ignore[arg-type]


def test_short_change_is_on_one_line() -> None:
    new = OLD.replace("https://a", "https://b").replace("@RETRY(2)", "@RETRY(3)")
    assert shown(OLD, new) == [
        "~ S1  @FETCH_PAGE",
        '    url: "https://a" → "https://b"',
        "    retry: @RETRY(2) → @RETRY(3)",
    ]


def test_long_change_is_on_two_lines() -> None:
    assert shown(OLD, OLD.replace("https://a", "https://b"), columns=30) == [
        "~ S1  @FETCH_PAGE",
        "    url:",
        '      - "https://a"',
        '      + "https://b"',
    ]


def test_additions_and_removals_have_signs() -> None:
    new = OLD.replace(', format="short"', "").replace("ON_FAIL @RETRY(2)", "")
    new = new.replace("S4:", 'LOG: @LOG ("x")\nS4:')
    assert shown(OLD, new) == [
        "~ S1  @FETCH_PAGE",
        "    - retry: @RETRY(2)",
        "~ S2  @LLM_SUMMARIZE",
        '    - format: "short"',
        '+ LOG: @LOG ("x")',
    ]


def test_move_shows_origin_and_target() -> None:
    lines = OLD.splitlines()
    assert shown(OLD, "\n".join([lines[1], lines[2], lines[0], lines[3]])) == [
        "> S1  @FETCH_PAGE  moved: after S3, was at the beginning"
    ]


def test_renumbering_is_one_line() -> None:
    old = 'S1: @A ()\nS2: @B ()\nS3: @C ()\nS4: @RESPOND ("x")\n'
    new = 'S1: @A ()\nS2: @N ()\nS3: @B ()\nS4: @C ()\nS5: @RESPOND ("x")\n'
    assert shown(old, new) == ["= S2–S4 renamed to S3–S5", "+ S2: @N"]


def test_multiline_texts_are_compared_by_line() -> None:
    code = [f"line {n}" for n in range(12)]
    old, new = "\n".join(code), "\n".join([*code[:6], "another", *code[7:]])
    plans = [Plan((Step("S1", Call("X", named=(("code", Literal(text)),))),)) for text in (old, new)]
    assert plan_diff_text(diff_plans(*plans), "a", "b").split("\n")[1:-1] == [
        "~ S1  @X",
        "    code:",
        "        …",
        "        line 4",
        "        line 5",
        "      - line 6",
        "      + another",
        "        line 7",
        "        line 8",
        "        …",
    ]


def test_long_text_is_truncated_around_difference() -> None:
    old, new = focused("x" * 5_000 + "old" + "y" * 5_000, "x" * 5_000 + "new" + "y" * 5_000)
    assert len(old) < 200
    assert "xoldy" in old
    assert "xnewy" in new


@pytest.mark.parametrize(("old", "new"), [(["a"], []), ([], ["a"]), (["a", "b"], ["b", "a"]), ([], [])])
def test_lines_of_both_sides_are_complete(old: list[str], new: list[str]) -> None:
    rows = list(line_changes(old, new))
    assert [line for sign, line in rows if sign != "+"] == old
    assert [line for sign, line in rows if sign != "-"] == new


def test_group_members_are_named() -> None:
    old = "@PARALLEL {\nS1: @A ()\nS2: @B ()\n}\nS3: @C ()\n"
    new = "@PARALLEL {\nS1: @A ()\nS2: @B ()\nS3: @C ()\n}\n"
    assert shown(old, new) == ["~ S3  @C", "    group: alone → @PARALLEL { S1 S2 S3 }"]


def test_reference_with_same_text_shows_changed_target() -> None:
    old = "S1: GOTO S2\nS2: @X (1)\nS3: @Y (2)\nS4: @Z ()"
    new = "S1: GOTO S2\nS2: @N (7)\nS3: @X (1)\nS4: @Y (2)\nS5: @Z ()"
    assert "    goto: GOTO S2 → GOTO S2, another step with that id" in shown(old, new)


def test_equal_plans_are_reported_equal() -> None:
    diff = diff_plans(parse(OLD).require(), parse(f"# why\n{OLD}").require())
    assert plan_diff_text(diff, "a", "b") == "a → b\nsame plan, 4 steps"


def test_steps_inexpressible_in_ltp_are_shown() -> None:
    old = Plan((Step("a step", Respond((Literal(1),)), depends_on=(), title="First"),), Order.DAG)
    new = Plan((Step("a step", Respond((Literal(2),)), depends_on=("b",)), Step("b", Call("x-y"))), Order.DAG)
    text = plan_diff_text(diff_plans(old, new), "a", "b")
    assert "    after: nothing → b" in text
    assert "    - title: First" in text
    assert "+ b: @x-y" in text


HOSTILE = "\x1b[2J\x9b31m\x07\u202eevil\r\x00\x7f"


def test_control_characters_of_plans_are_escaped() -> None:
    """Every field that can hold text contains a sequence that would clear the screen."""
    named = ((HOSTILE, DictExpr(((HOSTILE, Literal(HOSTILE)),))),)
    old = Plan((Step("S1", Call("X")),), id="a", variables=((HOSTILE, Literal(1)),))
    new = Plan(
        (Step("S1", Call("X", named=named), title=HOSTILE), Step(HOSTILE, Call(HOSTILE, (Literal("a"),)))),
        id=HOSTILE, title=HOSTILE, goal=f"{HOSTILE}\n{HOSTILE}",
    )  # fmt: skip
    for pair in ((old, new), (new, old)):
        text = plan_diff_text(diff_plans(*pair), HOSTILE, HOSTILE)
        assert all(c.isprintable() or c == "\n" for c in text)


@given(plans(), plans())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_difference_is_printable_and_json(old: Plan, new: Plan) -> None:
    diff = diff_plans(old, new)
    text = plan_diff_text(diff, "a", "b", ansi=True, columns=40)
    assert all(c.isprintable() or c == "\n" for c in re.sub(r"\x1b\[\d+m", "", text))
    data = json.loads(json.dumps(plan_diff_json(diff, "a", "b")))
    assert data["same"] == diff.is_same == (not data["head"] and not data["steps"])
    assert sum("added" in s["kinds"] for s in data["steps"]) == data["summary"]["added"]
