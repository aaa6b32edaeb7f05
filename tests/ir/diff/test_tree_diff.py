"""Differences of plans with blocks: pieces matched by content through moves and renames, part by part."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.structured_plans import trees

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import parse
from callsheet.frontends.structured import read_structured
from callsheet.ir import Plan
from callsheet.ir.diff import TreeDiff, diff_plans
from callsheet.views.plan_diff import plan_diff_json, plan_diff_text

BASE = """# ltp: 2
INPUT $box: str = "inbox"
PLAN next ($x: int) -> int {
  RETURN ($x + 1)
}
S1: @LIST (folder=$box, most=5) > $mails
S2: ?FOREACH ($m IN $mails) {
  S3: @SORT ($m.body) > $kind
  S4: ?IF ($kind == "urgent") {
    S5: @REPLY (to=$m.sender) ON_FAIL @RETRY(2)
  } ELSE {
    S6: @FILE (id=$m.id)
  }
  YIELD ($kind)
} > $rows
?FOREACH ($m IN $rows) {
  YIELD ($kind)
} > $more
S9: @RESPOND ($rows)
"""


def plan(text: str) -> Plan:
    return read_structured(text).require()


def lines(old: str, new: str) -> list[str]:
    """The lines of the difference, without names and summary."""
    return plan_diff_text(diff_plans(plan(old), plan(new)), "old", "new").split("\n")[1:-1]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("most=5", "most=6", ["~ S1  @LIST", "    most: 5 → 6"]),
        ("folder=$box, most=5", "most=5, folder=$box",
         ["~ S1  @LIST", "    argument order: folder, most → most, folder"]),
        ('= "inbox"', '= "mail"', ["~ INPUT $box", '    default: "inbox" → "mail"']),
        ("$x + 1", "$x + 2", ["~ RETURN ($x + 2)  [in PLAN next]", "    argument 1: $x + 1 → $x + 2"]),
        ("($x: int)", "($x: float)", ["~ PLAN next", "    $x: int → float"]),
        ("IN $mails) {", "IN $mails) IN ORDER {", ["~ S2  ?FOREACH", "    + schedule: IN ORDER"]),
        ('== "urgent"', '== "now"',
         ["~ S4  ?IF  [in S2]", '    condition: $kind == "urgent" → $kind == "now"']),
        ("@RETRY(2)", "CONTINUE",
         ["~ S5  @REPLY  [in S2 › S4]", "    - retry: @RETRY(2)", "    + ON_FAIL: CONTINUE"]),
        ("S5: @REPLY", "S8: @REPLY", ["= S5 renamed to S8"]),
        ("S5: @REPLY", "@REPLY", ["~ @REPLY (to=$m.sender) ON_FAIL @RETRY(2)  [in S2 › S4]", "    - id: S5"]),
        ("  S3: @SORT ($m.body) > $kind\n", "", ["- S3: @SORT ($m.body) > $kind  [in S2]"]),
        ("  S4: ?IF", '  NOTE ("x")\n  S4: ?IF', ['+ NOTE ("x")  [in S2]']),
        ("    S6: @FILE (id=$m.id)\n",
         "    TRY {\n      S6: @FILE (id=$m.id)\n    } ON_FAIL {\n    }\n",
         ["+ TRY  [in S2 › S4 ELSE]",
          "> S6  @FILE  moved: at the beginning of S2 › S4 ELSE › TRY, "
          "was at the beginning of S2 › S4 ELSE"]),
    ],
)  # fmt: skip
def test_a_difference_is_told_with_its_place(old: str, new: str, shown: list[str]) -> None:
    assert old in BASE
    assert lines(BASE, BASE.replace(old, new)) == shown
    assert lines(BASE, BASE) == []


def test_a_difference_tells_whether_a_failure_stops_the_others() -> None:
    group = "# ltp: 2\nS1: @PARALLEL {\n  @A\n  @B\n}\nS2: ?FOREACH ($x IN [1]) TOGETHER MAX 2 {\n  @A\n}\n"
    stopping = group.replace("PARALLEL", "PARALLEL STOP").replace("TOGETHER", "TOGETHER STOP AS DONE")
    assert lines(group, stopping) == [
        "~ S1  @PARALLEL", "    + schedule: STOP",
        "~ S2  ?FOREACH", "    schedule: TOGETHER MAX 2 → TOGETHER STOP AS DONE MAX 2",
    ]  # fmt: skip


def test_statements_are_matched_by_content_through_moves_and_renumbering() -> None:
    reply, file = "S5: @REPLY (to=$m.sender) ON_FAIL @RETRY(2)", "S6: @FILE (id=$m.id)"
    swapped = BASE.replace(reply, "S0: @A").replace(file, reply).replace("S0: @A", file)
    assert [line[:9] for line in lines(BASE, swapped)] == ["> S6  @FI", "> S5  @RE"]
    one_more = BASE.replace("S1: @LIST", "S1: @LOGIN\nS0: @LIST")
    for number in (9, 6, 5, 4, 3, 2):
        one_more = one_more.replace(f"S{number}:", f"S{number + 1}:")
    one_more = one_more.replace("S0:", "S2:")
    assert lines(BASE, one_more) == ["= S1–S9 renamed to S2–S10", "+ S1: @LOGIN"]


def test_the_second_of_two_loops_keeps_what_is_in_it_when_the_first_goes() -> None:
    first = BASE[BASE.index("?FOREACH ($m IN $rows)") : BASE.index("S9:")]
    assert lines(BASE.replace("S9:", f"NOTE (1)\n{first.replace('$more', '$yet')}S9:"), BASE) == [
        "- NOTE (1)", "- ?FOREACH ($m IN $rows) > $yet", "- YIELD ($kind)  [in ?FOREACH]",
    ]  # fmt: skip


def test_a_plan_of_version_1_is_not_compared_with_blocks() -> None:
    flat = parse("S1: @RESPOND (1)").require()
    with pytest.raises(CallsheetError, match="version 1 is not compared with one of version 2"):
        diff_plans(flat, plan(BASE))
    empty = diff_plans(Plan(()), plan(BASE))
    assert all(step.is_added for step in empty.steps)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), trees(), st.booleans())
def test_a_difference_is_empty_only_for_equal_plans_and_lists_every_piece_once(
    old: Plan, new: Plan, is_same: bool
) -> None:
    diff = diff_plans(old, old if is_same else new)
    assert isinstance(diff, TreeDiff)
    assert diff.is_same == (diff.old == diff.new)
    assert sorted(one.old_index for one in diff.steps if one.old_index is not None) == [
        *range(len(diff.old_pieces))
    ]
    assert [one.new_index for one in diff.steps if one.new_index is not None] == [
        *range(len(diff.new_pieces))
    ]
    text = plan_diff_text(diff, "old", "new")
    assert text.replace("\n", "").isprintable()
    assert plan_diff_json(diff, "old", "new")["same"] == diff.is_same


def test_time_is_roughly_linear() -> None:
    def seconds(count: int) -> float:
        body = "".join(f"?IF ($x > {n}) {{\n  @A (n={n})\n  NOTE (1)\n}}\n" for n in range(count))
        old = plan(f"# ltp: 2\nINPUT $x: int\n{body}")
        new = plan(f"# ltp: 2\nINPUT $x: int\n@FIRST\n{body.replace('@A (n=7)', '@B (n=7)')}")
        start = time.process_time()
        assert len(list(diff_plans(old, new).different())) == 3
        return time.process_time() - start

    seconds(100)
    assert seconds(2_000) < 25 * max(seconds(200), 0.005)
