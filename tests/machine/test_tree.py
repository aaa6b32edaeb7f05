"""Plans of version 2: blocks, failures, loops and sub-plans, event by event."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.driving import FACTS, Bench

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Plan
from callsheet.machine import (
    Answered,
    CallTool,
    Command,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Result,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.decision_log import DecisionLog, Decisions
from callsheet.machine.events import Verdict
from callsheet.machine.notes import NoteKind
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.passes import check


def plan(text: str) -> Plan:
    """The plan of a text without its header."""
    return read_structured(f"# ltp: 2\n{text}").require()


def bench(text: str, **inputs: JSON) -> Bench:
    return Bench(plan(text), facts={**FACTS, **OWN_FACTS}, inputs=inputs)


def done(text: str, **inputs: JSON) -> JSON:
    """The answer of a plan that calls nothing."""
    result = bench(text, **inputs).result
    assert result.status is Status.DONE, result.error
    return result.answer


def failed(text: str, **inputs: JSON) -> str:
    """The error of a plan that calls nothing."""
    result = bench(text, **inputs).result
    assert result.status is Status.FAILED
    assert result.error is not None
    return result.error


# ---------------------------------------------------------------- values


def test_answer_keeps_its_type_and_is_text_beside() -> None:
    result = bench('LET $a = 2\n@RESPOND ({"n": $a + 1})').result
    assert result.answer == {"n": 3}
    assert result.response == '{"n": 3}'


def test_several_values_are_answered_as_text() -> None:
    assert done('@RESPOND ("a", 1)') == "a 1"


def test_plan_without_respond_answers_null() -> None:
    result = bench("LET $a = 1").result
    assert (result.answer, result.response, result.variables) == (None, "", {"a": 1})
    assert done("@PARALLEL {\n}") is None


def test_return_in_an_item_of_the_main_plan_is_its_answer() -> None:
    assert done("?FOREACH ($i IN [1, 2, 3]) {\n?IF ($i == 2) {\nRETURN ($i)\n}\n}\n@RESPOND (0)") == 2


def test_loop_over_what_has_no_items_fails() -> None:
    text = "INPUT $x: json\n?FOREACH ($i IN $x) {\nNOTE ('no')\n}"
    assert failed(text, x=5) == "TYPE: int has no items to go through"
    assert failed(text, x=None) == "TYPE: None has no items to go through"


def test_inputs_have_their_types_and_defaults() -> None:
    text = "INPUT $day: date\nINPUT $n: int = 3\n@RESPOND ([$day.year, $n])"
    assert done(text, day="2024-05-06") == [2024, 3]


def test_cast_checks_and_reads_json_text() -> None:
    one = bench("S1: @READ (x=1) > $rows:list[int]\n@RESPOND (sum($rows))")
    one.ok("S1.1", "[1, 2]")
    assert one.result.answer == 3
    two = bench("S1: @READ (x=1) > $rows:list[int]\n@RESPOND (sum($rows))")
    two.ok("S1.1", ["a"])
    assert two.result.error == "CAST: $rows: [0]: an int is needed, not the string 'a'"


def test_absent_field_names_what_there_is() -> None:
    one = bench("S1: @READ (x=1) > $row\n@RESPOND ($row.titel)")
    one.ok("S1.1", {"title": "a", "id": 1})
    assert one.result.error == "KEY: there is no field 'titel'; there is title, id"


# ---------------------------------------------------------------- failures


def test_failure_stops_the_plan() -> None:
    one = bench('S1: @WRITE (x=1)\nS2: @WRITE (x=2)\n@RESPOND ("Paid.")')
    one.fail("S1.1", "no money")
    assert one.result.status is Status.FAILED
    assert one.result.error == "TOOL: no money"
    assert one.result.ended_at == "S1"


def test_continue_stores_a_failure() -> None:
    one = bench("S1: @WRITE (x=1) > $w ON_FAIL CONTINUE\n@RESPOND ([FAILED($w), $w.error, $w.kind])")
    one.fail("S1.1", "no")
    assert one.result.answer == [True, "no", "TOOL"]
    assert one.result.failed_steps == ("S1",)
    assert one.result.outcome == "done_with_failures"


def test_failure_used_as_data_fails() -> None:
    one = bench('S1: @WRITE (x=1) > $w ON_FAIL CONTINUE\nS2: @WRITE (x=$w)\n@RESPOND ("ok")')
    one.fail("S1.1", "no")
    assert one.result.error == "TYPE: S1 has failed, and its failure is used as data; test it with FAILED(…)"


def test_use_takes_the_place_of_the_result() -> None:
    one = bench("S1: @WRITE (x=1) > $w ON_FAIL USE (7)\n@RESPOND ($w)")
    one.fail("S1.1", "no")
    assert one.result.answer == 7
    assert one.result.failed_steps == ()


def test_arguments_that_have_no_value_are_the_failure_of_their_step() -> None:
    assert done("LET $a = [1]\nS1: @WRITE (x=$a[3]) > $w ON_FAIL USE (0)\n@RESPOND ($w)") == 0


def test_terminate_ends_as_failed() -> None:
    one = bench('S1: @WRITE (x=1) ON_FAIL TERMINATE ("sorry")\n@RESPOND (1)')
    one.fail("S1.1", "no")
    assert (one.result.status, one.result.response, one.result.error) == (Status.FAILED, "sorry", "no")


def test_terminate_ends_a_block_and_a_sub_plan_through_finally() -> None:
    one = bench(
        'PLAN f () {\n  FAIL ("no")\n}\nS1: CALL f () ON_FAIL TERMINATE ("sorry") FINALLY {\n'
        "  S2: @WRITE (x=1)\n}\n@RESPOND (1)"
    )
    assert one.keys == ["S2.1"]
    one.ok("S2.1")
    assert (one.result.status, one.result.response) == (Status.FAILED, "sorry")
    two = bench('TRY {\n  FAIL ("no")\n} ON_FAIL TERMINATE ("stopped")\n@RESPOND (1)')
    assert (two.result.status, two.result.response) == (Status.FAILED, "stopped")


def test_finally_comes_after_a_remedy_that_fails() -> None:
    one = bench("S1: @WRITE (x=1) > $w ON_FAIL USE (1 / 0) FINALLY {\n  S2: @WRITE (x=2)\n}\n@RESPOND ($w)")
    one.fail("S1.1")
    one.ok("S2.1")
    assert one.result.error == "ZERO: division by zero"


HANDLED = """
S1: @WRITE (x=1) > $w ON_FAIL TIMEOUT {
  S2: @WRITE (x="late")
} ON_FAIL {
  S3: @WRITE (x=$error.message)
} FINALLY {
  S4: @WRITE (x="at last")
}
@RESPOND ("on")
"""


def test_first_handler_that_fits_and_finally() -> None:
    one = bench(HANDLED)
    one.fail("S1.1", "broken")
    assert (one.keys, one.args) == (["S3.1"], [{"x": "broken"}])
    one.ok("S3.1")
    assert one.keys == ["S4.1"]
    one.ok("S4.1")
    assert one.result.answer == "on"


def test_each_handler_has_a_failure_of_its_own() -> None:
    one = 'TRY {\nFAIL ("one")\n} ON_FAIL {\n%s\nLET $one = $error.message\n}\n'
    two = 'TRY {\nFAIL ("two")\n} ON_FAIL {\nLET $two = "${error.message}"\n}'
    told = "@RESPOND ([$one, $two])"
    assert done(one % two + told) == ["one", "two"]
    group = bench("@PARALLEL {\n" + one % "S1: @READ (x=1)" + two + "\n}\n" + told)
    group.ok("S1.1", 1)
    assert group.result.answer == ["one", "two"]
    item = one % f"?FOREACH ($i IN [1]) {{\n{two}\nYIELD ([$two, $error.message])\n}} > $list"
    assert done(f"{item}@RESPOND ([$one, $list])") == ["one", [["two", "one"]]]
    assert done(f"INPUT $error: str\n{two}\n@RESPOND ([$error, $two])", error="mine") == ["mine", "two"]


def test_finally_comes_after_success_and_after_a_failed_handler() -> None:
    one = bench(HANDLED)
    one.ok("S1.1")
    assert one.keys == ["S4.1"]
    two = bench(HANDLED)
    two.fail("S1.1", "broken")
    two.fail("S3.1", "too")
    assert two.keys == ["S4.1"]
    two.ok("S4.1")
    assert two.result.error == "TOOL: too"


def test_denial_is_caught_by_its_name_alone() -> None:
    text = "S1: @WRITE (x=1) > $w ON_FAIL {tail}\n@RESPOND ($w ?? 0)"
    for tail, error in (("CONTINUE", "DENIED"), ("USE (1)", "DENIED"), ("@RETRY(3)", "DENIED")):
        assert _denied(text.replace("{tail}", tail)).error is not None, error
    caught = _denied("S1: @WRITE (x=1) ON_FAIL DENIED {\n  LET $a = 1\n}\n@RESPOND (5)")
    assert caught.answer == 5
    uncaught = _denied("S1: @WRITE (x=1) ON_FAIL {\n  LET $a = 1\n}\n@RESPOND (5)")
    assert uncaught.error == "DENIED: denied by ann"


@pytest.mark.parametrize(
    ("final", "error"),
    [
        (
            'REQUIRE (False) "no luck"',
            "DENIED: denied by ann; then try1.if1.repeat1[#1]/try1.if1.repeat1.try1.require1: no luck",
        ),
        ('@RESPOND ("paid")', "DENIED: denied by ann"),
        ("BREAK", "DENIED: denied by ann"),
        ("?REPEAT (max=2) {\nBREAK\n} UNTIL (True)", "DENIED: denied by ann"),
        ("?IF (True) {\nCONTINUE\n}", "DENIED: denied by ann"),
    ],
)
def test_nothing_that_a_finally_block_does_hides_a_denial(final: str, error: str) -> None:
    text = f"""
TRY {{
  ?IF (True) {{
    ?REPEAT (max=3) {{
      TRY {{
        S1: @WRITE (x=1)
      }} FINALLY {{
        {final}
      }}
    }} UNTIL (True)
  }}
}} ON_FAIL {{
  NOTE ("it goes on")
}}
@RESPOND ("paid")
"""
    assert _denied(text).error == error


def _denied(text: str) -> Result:
    machine = Machine(compile_plan(plan(text), FACTS), approve=["WRITE"])
    (asked,) = machine.feed(Started({}))
    assert not isinstance(asked, Finish)
    machine.feed(Answered(asked.key, asked.asked.digest, Verdict.DENY, by="ann"))  # type: ignore[union-attr]
    assert machine.result is not None
    return machine.result


def test_retried_block_is_another_delivery() -> None:
    one = bench(
        "TRY {\n  S1: @READ (x=1) > $a\n  S2: @WRITE (x=$a)\n} ON_FAIL @RETRY(1, delay=0)\n@RESPOND ($a)"
    )
    one.ok("S1.1", 1)
    one.fail("S2.1", "no")
    (key,) = one.keys
    assert key.endswith("~2/S1.1")
    one.ok(key, 2)
    one.ok(one.keys[0])
    assert one.result.answer == 2


# ---------------------------------------------------------------- branches and loops


@pytest.mark.parametrize(("n", "said"), [(0, "none"), (1, "one"), (5, "many")])
def test_branches(n: int, said: str) -> None:
    text = """
INPUT $n: int
?IF ($n == 0) {
  LET $said = "none"
} ELSE IF ($n == 1) {
  LET $said = "one"
} ELSE {
  LET $said = "many"
}
@RESPOND ($said)
"""
    assert done(text, n=n) == said


LOOP = """
S1: ?FOREACH ($m IN [1, 2, 3]) {
  S2: @READ (x=$m) > $r
  YIELD ([$m, $r])
} > $rows
@RESPOND ($rows)
"""


def test_items_that_only_read_run_side_by_side() -> None:
    one = bench(LOOP)
    assert one.keys == ["S1[0]/S2.1", "S1[1]/S2.1", "S1[2]/S2.1"]
    for number in (2, 0, 1):
        one.ok(f"S1[{number}]/S2.1", number)
    assert one.result.answer == [[1, 0], [2, 1], [3, 2]]


def test_items_that_write_run_one_after_another_unless_together() -> None:
    assert bench(LOOP.replace("READ", "WRITE")).keys == ["S1[0]/S2.1"]
    together = LOOP.replace("READ", "WRITE").replace("3]) {", "3]) TOGETHER MAX 2 {")
    assert bench(together).keys == ["S1[0]/S2.1", "S1[1]/S2.1"]


def test_loop_runs_all_items_then_fails() -> None:
    one = bench(LOOP)
    one.fail("S1[1]/S2.1", "gone")
    one.ok("S1[0]/S2.1", 0)
    assert one.machine.result is None
    one.ok("S1[2]/S2.1", 0)
    assert one.result.error == "TOOL: 1 of 3 items failed: [1] gone"


def test_skip_leaves_failed_items_out() -> None:
    one = bench(LOOP.replace("> $rows", "> $rows ON_FAIL SKIP"))
    one.fail("S1[1]/S2.1", "gone")
    one.ok("S1[0]/S2.1", 0)
    one.ok("S1[2]/S2.1", 0)
    assert one.result.answer == [[1, 0], [3, 0]]
    assert one.result.failed_steps == ("S1",)


def test_loop_in_order_stops_at_its_first_failure() -> None:
    one = bench(LOOP.replace("3]) {", "3]) IN ORDER {"))
    one.fail("S1[0]/S2.1", "gone")
    assert one.result.error == "TOOL: 1 of 3 items failed: [0] gone"


def test_set_makes_a_loop_run_in_order() -> None:
    text = """
LET $sum = 0
?FOREACH ($m IN [1, 2, 3]) {
  S2: @READ (x=$sum) > $r
  SET $sum = $sum + $r
}
@RESPOND ($sum)
"""
    one = bench(text)
    for expected in (0, 10, 20):
        assert one.args == [{"x": expected}]
        one.ok(one.keys[0], 10)
    assert one.result.answer == 30


def test_early_ends_in_a_loop_act_at_once() -> None:
    body = """
S1: ?FOREACH ($m IN [1, 2, 3]) {
  ?IF ($m == 2) {
    {end}
  }
  YIELD ($m)
} > $rows
@RESPOND ($rows)
"""
    assert done(body.replace("{end}", "BREAK")) == [1, None]
    assert done(body.replace("{end}", "CONTINUE")) == [1, None, 3]
    assert done(body.replace("{end}", '@RESPOND ("early")')) == "early"


@pytest.mark.parametrize("inner", ["?FOREACH ($k IN [1]) {{ {} }}", "?REPEAT (max=1) {{ {} }} UNTIL (True)"])
def test_break_about_the_failure_of_an_inner_loop_makes_the_outer_one_run_in_order(inner: str) -> None:
    loop = inner.format('\nFAIL ("no")\n') + " ON_FAIL {\nBREAK\n}"
    one = bench(f"S1: ?FOREACH ($m IN [1, 2]) {{\nS2: @READ (x=$m)\n{loop}\n}}\n@RESPOND (1)")
    assert one.keys == ["S1[0]/S2.1"]
    one.ok("S1[0]/S2.1")
    assert one.result.answer == 1


def test_repeat_until_counts_rounds_in_keys() -> None:
    text = 'S1: ?REPEAT (max=3) {\n  S2: @READ (x=1) > $job\n} UNTIL ($job != "running")\n@RESPOND ($job)'
    one = bench(text)
    one.ok("S1[#1]/S2.1", "running")
    one.ok("S1[#2]/S2.1", "done")
    assert one.result.answer == "done"
    two = bench(text)
    for number in (1, 2, 3):
        two.ok(f"S1[#{number}]/S2.1", "running")
    assert two.result.error == "ROUNDS: it is not over after 3 rounds"


def test_repeat_while_waits_between_rounds() -> None:
    text = (
        'LET $n = 0\nS1: ?REPEAT (max=5, every="10s") WHILE ($n < 2) {\n  SET $n = $n + 1\n}\n@RESPOND ($n)'
    )
    one = bench(text)
    (wait,) = one.waiting.values()
    assert isinstance(wait, Sleep)
    assert wait.seconds == 10
    one.fire(wait.key)
    one.fire(one.keys[0])
    assert one.result.answer == 2


def test_wait_is_a_timer() -> None:
    one = bench('WAIT ("90s")\n@RESPOND (1)')
    (wait,) = one.waiting.values()
    assert isinstance(wait, Sleep)
    assert wait.seconds == 90
    one.fire(wait.key)
    assert one.result.answer == 1


STOPS = """
PLAN later () {
  WAIT (3600)
  RETURN (1)
}
TRY {
  @PARALLEL STOP {
    S1: @READ (x=1)
    TRY {
      S2: @WRITE (x=2) > $w ON_FAIL @RETRY(1, delay=0)
      S3: @WRITE (x=3)
    } ON_FAIL CANCELLED {
      S4: @WRITE (x=$error.kind)
    } FINALLY {
      S5: @WRITE (x="end")
    }
    TRY {
      CALL later ()
    } ON_FAIL {
      S6: @WRITE (x="never")
    }
    ?FOREACH ($k IN [1, 2, 3]) TOGETHER STOP MAX 2 {
      S7: @READ (x=$k) > $r
    }
  }
} ON_FAIL ExceptionGroup {
  @RESPOND ([$error.message, [e.message for e in $error.fields.exceptions]])
}
"""


def test_a_failure_in_a_group_that_stops_ends_the_others_before_their_next_call() -> None:
    one = bench(STOPS)
    reads, (wait,) = one.keys[3:], [c.key for c in one.waiting.values() if isinstance(c, Sleep)]
    assert (one.keys[:3], len(reads)) == (["S1.1", "S2.1", wait], 2)
    one.fail("S1.1", "no")
    assert one.machine.withdrawn == [wait]
    one.fail("S2.1", "not now")  # awaited, and not tried again
    one.ok("S5.1")
    one.fail(reads[0], "neither")
    assert wait not in one.machine.open_keys()
    one.ok(reads[1])
    assert one.result.answer == [
        "unhandled errors in a TaskGroup (3 sub-exceptions)",
        ["no", "not now", "neither"],
    ]
    assert (one.result.usage.waits, one.result.usage.waited) == (0, 0)  # nothing has been waited for


@pytest.mark.parametrize("beside", ["", "  S9: @READ (x=9)\n"], ids=["alone", "beside a call"])
def test_a_loop_that_is_a_member_of_the_group_that_it_stops_ends_once(beside: str) -> None:
    text = f"""
@PARALLEL STOP {{
  ?FOREACH ($i IN [1, 2, 3]) TOGETHER STOP {{
    S1: @READ (x=$i)
    REQUIRE ($i != 2)
    WAIT (50)
  }}
{beside}}} ON_FAIL AS $e {{
  @RESPOND ($e.fields.exceptions)
}}
"""
    one = bench(text)
    for key in sorted(one.keys, key="parallel1.foreach1[1]/S1.1".__eq__):  # the others wait by then
        one.ok(key)
    failed: Any = one.result.answer
    assert [each["error"] for each in failed] == ["it does not hold that $i != 2"]


WITHIN = """
TRY WITHIN (10) {
  @PARALLEL {
    S1: @WRITE (x=1) > $w
    TRY {
      WAIT (100)
    } FINALLY {
      S2: @WRITE (x="end")
    }
  }
  S3: @WRITE (x=3)
} ON_FAIL TIMEOUT {
  @RESPOND ("late")
}
@RESPOND ($w)
"""


def test_a_time_limit_stops_what_is_inside_and_awaits_the_call_under_way() -> None:
    one = bench(WITHIN)
    limit, wait = sorted((c for c in one.waiting.values() if isinstance(c, Sleep)), key=lambda c: c.seconds)
    one.fire(limit.key)
    assert one.machine.withdrawn == [wait.key]
    one.ok("S2.1")
    assert one.machine.open_keys() == ("S1.1",)  # it is awaited, and no S3 follows
    one.ok("S1.1", 1)
    assert (one.result.answer, "w" in one.result.variables) == ("late", False)
    assert one.result.usage.waited == limit.seconds


def test_what_ends_within_its_time_limit_withdraws_the_timer() -> None:
    one = bench(WITHIN.replace("WAIT (100)", "S4: @READ (x=4)"))
    (limit,) = (c.key for c in one.waiting.values() if isinstance(c, Sleep))
    for key in ("S1.1", "S4.1", "S2.1", "S3.1"):
        one.ok(key, key)
    assert (one.machine.withdrawn, one.result.usage.waits) == ([limit], 0)
    assert one.result.answer == "S1.1"


@pytest.mark.parametrize("end", ["BREAK", "CONTINUE", 'RETURN ("inside")', '@RESPOND ("inside")'])
def test_a_block_with_a_time_limit_may_be_left_early(end: str) -> None:
    one = bench(f"""
LET $n = 0
?REPEAT (max=3) {{
  SET $n = $n + 1
  TRY WITHIN (5) {{
    S1: @READ (x=$n)
    {end}
  }}
}} UNTIL ($n == 2)
@RESPOND ($n)
""")
    while one.machine.result is None:
        one.ok(next(c.key for c in one.waiting.values() if not isinstance(c, Sleep)))
    assert one.result.answer == {"BREAK": 1, "CONTINUE": 2}.get(end, "inside")
    assert one.result.usage.waited == 0


@pytest.mark.parametrize(
    ("limit", "kind"),
    [
        ("null", ""),
        ("-3", "TIMEOUT"),
        ('"2 moons"', "TYPE"),
        ("duration('1m')", ""),
        ('"2h"', ""),
        ("int('9' * 400)", "TYPE"),
    ],
)
def test_a_time_limit_is_seconds_a_duration_or_null(limit: str, kind: str) -> None:
    one = bench(f"TRY WITHIN ({limit.replace('null', 'None')}) {{\n  S1: @READ (x=1)\n}}\n@RESPOND (1)")
    if "S1.1" in one.waiting:
        one.ok("S1.1")
    assert (one.result.error or "").partition(":")[0] == kind


@pytest.mark.parametrize("group", ["TRY WITHIN (50) {", "?FOREACH ($i IN [1]) TOGETHER {"])
def test_a_group_in_a_finally_block_runs_to_its_end(group: str) -> None:
    one = bench(f"""
@PARALLEL STOP {{
  S1: @READ (x=1)
  TRY {{
    S2: @READ (x=2)
  }} FINALLY {{
    {group}
      WAIT (20)
      S3: @WRITE (x="end")
    }}
  }}
}} ON_FAIL {{
  @RESPOND ("stopped")
}}
""")
    one.ok("S2.1")
    one.fail("S1.1", "no")
    one.fire(next(c.key for c in one.waiting.values() if isinstance(c, Sleep) and c.seconds == 20))
    one.ok(next(key for key in one.waiting if key.endswith("S3.1")))
    assert one.result.answer == "stopped"


def test_an_undo_under_way_runs_to_its_end_when_its_group_stops() -> None:
    one = bench("""
@PARALLEL STOP {
  TRY {
    S1: @WRITE (x=1)
    S2: @WRITE (x=2)
    FAIL ("no")
  } ON_FAIL UNDO (write="keep(x=call.x)")
  S3: @READ (x=3)
}
""")
    one.ok("S1.1")
    one.ok("S2.1")
    one.fail("S3.1", "neither")
    undone = list[JSON]()
    while one.machine.result is None:
        undone += one.args
        one.ok(*one.keys)
    assert undone == [{"x": 2}, {"x": 1}]
    assert one.result.error == "ExceptionGroup: 2 failed: no, neither"


def test_what_is_not_undone_in_time_is_not_tried_again() -> None:
    one = bench("""
TRY WITHIN (10) {
  TRY {
    WAIT (100)
  } ON_FAIL CANCELLED {
    FAIL ("left", kind="NOT_UNDONE")
  }
} ON_FAIL @RETRY (3)
""")
    one.fire(next(c.key for c in one.waiting.values() if isinstance(c, Sleep) and c.seconds == 10))
    assert one.result.error == "NOT_UNDONE: left"


@pytest.mark.parametrize("skips", [False, True])
def test_the_first_item_that_is_done_stops_the_others(skips: bool) -> None:
    one = bench(
        """
?FOREACH ($i IN [1, 2, 3]) TOGETHER FIRST {
  S1: @READ (x=$i) > $r
  ?IF ($i == 3) {
    WAIT (60)
  }
  S2: @WRITE (x=$r) > $w
  YIELD ($w)
} > $l"""
        + (" ON_FAIL SKIP" if skips else "")
        + "\n@RESPOND ($l)"
    )
    one.ok("foreach1[2]/S1.1")
    (wait,) = (c.key for c in one.waiting.values() if isinstance(c, Sleep))
    one.ok("foreach1[1]/S1.1")
    if skips:
        one.fail("foreach1[1]/S2.1", "not this one")
        one.ok("foreach1[0]/S1.1")
        one.ok("foreach1[0]/S2.1", "first")
        assert one.machine.withdrawn == [wait]
    else:
        one.ok("foreach1[1]/S2.1", "first")
        assert one.machine.withdrawn == [wait]
        one.ok("foreach1[0]/S1.1")  # awaited, and no S2 follows
    assert one.result.answer == ["first"]


@pytest.mark.parametrize("units", [1, 1_000])
def test_members_that_begin_after_a_failure_in_their_group_make_one_call(units: int) -> None:
    text = """
@PARALLEL STOP {
  ?FOREACH ($i IN [1]) TOGETHER STOP {
    FAIL ("no")
  }
  S1: ?FOREACH ($k IN [1, 2]) {
    S2: @WRITE (x=$k)
    S3: @WRITE (x=$k)
  }
}
"""
    machine = Machine(compile_plan(plan(text), FACTS))
    commands = machine.feed(Started({}), units)
    while machine.is_paused:
        commands += machine.go_on(units)
    assert [c.key for c in commands if not isinstance(c, Finish)] == ["S1[0]/S2.1"]
    machine.feed(Succeeded("S1[0]/S2.1", 1))
    assert machine.result is not None
    assert machine.result.error == "ExceptionGroup: 1 failed: no"


def test_members_of_a_group_start_together_and_all_end_before_a_failure() -> None:
    one = bench("@PARALLEL {\n  S1: @WRITE (x=1) > $a\n  S2: @WRITE (x=2) > $b\n}\n@RESPOND ([$a, $b])")
    assert one.keys == ["S1.1", "S2.1"]
    one.fail("S1.1", "no")
    assert one.machine.result is None
    one.ok("S2.1")
    assert one.result.error == "TOOL: no"


# ---------------------------------------------------------------- sub-plans

SUB_PLAN = """
PLAN first ($rows: list[int]) -> int {
  TRY {
    ?FOREACH ($m IN $rows) {
      S1: @READ (x=$m) > $is_it
      ?IF ($is_it) {
        RETURN ($m)
      }
    }
  } FINALLY {
    S2: @WRITE (x="end")
  }
  RETURN (0)
}
S9: CALL first (rows=[4, 5]) > $found
@RESPOND ($found)
"""


def test_return_in_a_loop_leaves_the_sub_plan_through_finally() -> None:
    one = bench(SUB_PLAN)
    (key,) = one.keys
    one.ok(key, True)
    assert one.keys == ["S9/S2.1"]
    one.ok("S9/S2.1")
    assert one.result.answer == 4


def test_failure_of_a_sub_plan_is_that_of_its_call() -> None:
    one = bench(SUB_PLAN.replace("> $found", "> $found ON_FAIL USE (-1)"))
    one.fail(one.keys[0], "no")
    one.ok("S9/S2.1")
    assert one.result.answer == -1


def test_result_of_a_sub_plan_has_its_type() -> None:
    assert failed('PLAN f () -> int {\n  RETURN ("x")\n}\nS1: CALL f () > $a\n@RESPOND ($a)').startswith(
        "CAST: "
    )


# ---------------------------------------------------------------- clock, pure code, limits


def test_statement_has_one_recorded_time() -> None:
    one = bench("LET $t = now()\n@RESPOND ($t)")
    (asked,) = one.waiting.values()
    assert isinstance(asked, CallTool)
    assert asked.tool == "callsheet.clock"
    one.ok(asked.key, "2026-03-02T09:00:00+00:00")
    assert one.result.answer == datetime.fromisoformat("2026-03-02T09:00:00+00:00").isoformat()


def test_values_of_pure_code_keep_their_types() -> None:
    one = bench(
        'LET $a = {1: "x"}\nS1: COMPUTE (reads=[$a]) > $b """\nb = (1, {2})\n"""\n@RESPOND (len($b[1]))'
    )
    (asked,) = one.waiting.values()
    assert isinstance(asked, CallTool)
    assert asked.args["inputs"] == {"a": {"$": ["dict", [[1, "x"]]]}}
    one.ok("S1.1", {"b": {"$": ["tuple", [1, {"$": ["set", [2]]}]]}})
    assert one.result.answer == 1


def test_step_budget_bounds_a_repeat_without_a_bound() -> None:
    text = 'LET $n = 0\n?REPEAT (max="run") WHILE (True) {\n  SET $n = $n + 1\n}\n@RESPOND ($n)'
    machine = Machine(compile_plan(plan(text), FACTS), Limits(max_steps=20))
    machine.feed(Started({}))
    assert machine.result is not None
    assert machine.result.refusal is not None
    assert machine.result.refusal.budget == "max_steps"


def test_work_of_an_expression_counts_in_the_slices_of_a_driver() -> None:
    machine = Machine(compile_plan(plan("LET $a = [str(i) for i in range(50000)]\nLET $b = 1"), FACTS))
    machine.feed(Started({}), 1_000)
    assert machine.is_paused
    machine.go_on(1_000)
    assert machine.result is not None


def test_loop_has_the_work_of_an_expression_whatever_stands_before_it() -> None:
    text = """LET $many = list(range(600000))
LET $sum = [i + i for i in range(900000)][-1]
S1: ?FOREACH ($i IN $many) LIMIT 1 { YIELD ($i) } > $rows
@RESPOND ([$sum, $rows])"""
    text = text.replace("{ YIELD ($i) }", "{\n  YIELD ($i)\n}")
    assert done(text) == [1_799_998, [0]]


def test_find_all_is_counted_by_what_it_finds() -> None:
    assert done('@RESPOND (find_all("b*", "abb"))') == ["", "bb", ""]
    assert done('@RESPOND (find_all("(a)(b)?", "aba"))') == [["a", "b"], ["a", ""]]
    assert done('@RESPOND (len(find_all("a", "a" * 500000)))') == 500_000
    assert "too much work" in failed('LET $a = find_all("a", "a" * 700000)')


def test_output_that_pure_code_does_not_set_is_told() -> None:
    one = bench('LET $b = 1\nS1: COMPUTE () > $b """\nif False: b = 2\n"""\n@RESPOND ($b)')
    one.ok("S1.1", {})
    assert one.result.answer == 1
    assert (NoteKind.FACT, "S1") in one.story


def test_run_that_a_budget_ends_takes_the_outcomes_of_calls_that_have_left() -> None:
    text = LOOP.replace("READ", "WRITE").replace("3]) {", "3]) TOGETHER {")
    machine = Machine(compile_plan(plan(text), FACTS), Limits(max_calls=2))
    first, second = machine.feed(Started({}))
    assert machine.result is None
    assert not isinstance(first, Finish)
    assert not isinstance(second, Finish)
    assert machine.feed(Succeeded(first.key, 1)) == []
    machine.feed(Succeeded(second.key, 2))
    assert machine.result is not None
    assert machine.result.refusal is not None
    assert machine.result.usage.calls == 2


def test_sub_plans_may_not_call_others_too_deep() -> None:
    def chain(count: int) -> str:
        plans = [f"PLAN p{n} () {{\n  CALL p{n + 1} ()\n}}" for n in range(count)]
        return "\n".join([*plans, f"PLAN p{count} () {{\n  NOTE (1)\n}}", "CALL p0 ()"])

    assert bench(chain(49)).result.status is Status.DONE
    with pytest.raises(CallsheetError, match="51 deep"):
        bench(chain(50))


# ---------------------------------------------------------------- laws

NESTED = """
LET $log = []
S1: ?FOREACH ($m IN [1, 2, 3]) {
  S2: @READ (x=$m) > $r ON_FAIL USE (0)
  S3: ?FOREACH ($k IN [10, 20]) TOGETHER {
    TRY {
      S4: @WRITE (x=$k + $r) > $w ON_FAIL @RETRY(1, delay=0)
    } ON_FAIL {
      LET $w = $error.message
    }
    YIELD ($w)
  } > $ws
  YIELD ({"m": $m, "ws": $ws})
} > $rows ON_FAIL SKIP
@PARALLEL {
  S5: @READ (x=$rows) > $a
  S6: ?REPEAT (max=3) {
    S7: @READ (x=1) > $b
  } UNTIL ($b == 1)
}
@RESPOND ([$rows, $a])
"""


class World:
    """Answers calls by their keys, in an order drawn from a seed."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.events: list[Event] = []

    def answer(self, command: Command) -> Event:
        assert not isinstance(command, Finish)
        if isinstance(command, Sleep):
            return TimerFired(command.key)
        if crc32(command.key.encode()) % 5 == 0:
            return Failed(command.key, f"no {command.key}")
        return Succeeded(command.key, len(command.key) % 3)


@settings(max_examples=30)
@given(st.data(), st.booleans())
def test_order_of_arrival_slices_and_replays_change_nothing(data: st.DataObject, stops: bool) -> None:
    """Where a group stops, the order of arrival says what has begun; slices and replays change nothing."""
    text = NESTED.replace("TOGETHER {", "TOGETHER STOP AS DONE {").replace("@PARALLEL {", "@PARALLEL STOP {")
    program = compile_plan(plan(text if stops else NESTED), FACTS)
    whole, sliced = Machine(program), Machine(program)
    world = World(data.draw)
    events: list[Event] = [Started({})]
    open_calls: dict[str, Command] = {}
    while True:
        commands = whole.feed(events[-1])
        slices = sliced.feed(events[-1], 1)
        while sliced.is_paused:
            slices += sliced.go_on(1)
        assert slices == commands
        if whole.result is not None:
            break
        open_calls |= {c.key: c for c in commands if not isinstance(c, Finish)}
        for key in whole.withdrawn:
            del open_calls[key]
        key = data.draw(st.sampled_from(sorted(open_calls)))
        events.append(world.answer(open_calls.pop(key)))
    assert sliced.result == whole.result
    in_text_order = Machine(program)
    waiting = in_text_order.feed(Started({}))
    while in_text_order.result is None:
        command = waiting.pop(0)
        waiting += [c for c in in_text_order.feed(world.answer(command)) if not isinstance(c, Finish)]
    assert stops or in_text_order.result == whole.result
    for cut in range(1, len(events), 7):
        again = Machine(program)
        for event in events[:cut]:
            again.feed(event)
        before = again.open_commands()
        for event in events[cut:]:
            again.feed(event)
        assert again.result == whole.result
        assert all(key in before or cut > 1 for key in before)


SECRET_DECIDES = """INPUT $key: str
S1: ?FOREACH ($c IN list($key)) {
  S2: @KEEP (x=1)
  YIELD (1)
} > $all
?IF (len($key) < 5 and $key) {
  S3: @READ (x="short") > $one
} ELSE {
  S4: @READ (x="long") > $one
}
TRY {
  LET $n = int($key)
} ON_FAIL VALUE {
  S5: @READ (x="no number")
}
S6: ?REPEAT (max=2) {
  S7: @READ (x="round")
} UNTIL (len($key) > 3)
REQUIRE (len($key) < 100) "too long"
S8: @RESPOND (len($all))
"""


@pytest.mark.parametrize("key", ["12", "abcd", "", "9" * 12, "x" * 200])
def test_a_run_over_placeholders_takes_the_path_of_the_recorded_decisions(key: str) -> None:
    def calls(
        machine: Machine, given: str, decided: list[Decisions] | None
    ) -> tuple[list[str], Result | None]:
        sent: list[str] = []
        events: list[Event] = [Started({"key": given})]
        for number in range(1000):
            if decided is not None:
                machine.follow(decided[number])
            commands = machine.feed(events[-1])
            if decided is None:
                taken.append(log.taken())
            waiting.extend(one.key for one in commands if not isinstance(one, Finish))
            if machine.result is not None:
                break
            sent.append(waiting.pop(0))
            events.append(Succeeded(sent[-1], 1))
        return sent, machine.result

    taken: list[Decisions] = []
    waiting: list[str] = []
    text, log = plan(SECRET_DECIDES), DecisionLog(notes=True)
    first = Machine(compile_plan(text, FACTS))
    first.use_decision_log(log)
    sent, result = calls(first, key, None)
    waiting.clear()
    shown, other = calls(Machine(compile_plan(text, FACTS)), "[sealed k:1, text, 4 characters]", taken)
    assert shown == sent
    assert result is not None
    assert other is not None
    assert (other.status, other.ended_at, other.answer) == (result.status, result.ended_at, result.answer)


def test_an_optional_input_of_a_sub_plan_may_be_left_out() -> None:
    text = """PLAN f ($x: int, $y: int?) -> int? {
  RETURN ($y)
}
CALL f (x=1) > $a
CALL f (x=1, y=2) > $b
@RESPOND ([$a, $b])"""
    assert not [one for one in check(plan(text)) if one.is_error]
    assert bench(text).result.answer == [None, 2]
