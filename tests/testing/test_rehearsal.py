"""Rehearsals: plans that run in memory and in virtual time, with fakes for tools, models and people."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from callsheet import Plan, PlanError, PolicyRefused, tool
from callsheet.testing import Answer, Fake, Reply, Stage, coverage_of, fails, gives, rehearse

LIST = 'S1: @LIST (repo="a/b") > $all ON_FAIL @RETRY(2, delay=60)\nS2: @RESPOND ($all)'


def test_a_fake_gives_a_value_and_the_calls_are_there_with_their_arguments() -> None:
    done = rehearse(LIST, fakes={"list": [1, 2]})
    assert (done.status, done.answer) == ("done", "[1,2]")
    assert [(call.step, call.tool, call.args) for call in done.calls] == [("S1", "LIST", {"repo": "a/b"})]
    done.assert_calls(("list", {"repo": "a/b"}))
    with pytest.raises(AssertionError, match=r"call 1 @LIST\.repo: expected \"x\", was \"a/b\""):
        done.assert_calls(("list", {"repo": "x"}))


def test_waits_cost_no_time_and_are_counted() -> None:
    began = time.monotonic()
    done = rehearse(LIST, fakes={"list": [fails("busy", times=2), gives(7)]})
    assert (done.answer, done.seconds, len(done.calls)) == ("7", 120.0, 3)
    assert [call.error for call in done.calls] == ["busy", "busy", ""]
    assert time.monotonic() - began < 10


def test_a_call_without_a_fake_fails_and_is_a_problem() -> None:
    done = rehearse('S1: @SEND (to="x") > $r\nS2: @RESPOND ("on")')
    assert done.problems == (("S1", 'no fake stands in for @SEND: @SEND (to="x")'),)
    done = rehearse('S1: @SEND (to="x") > $r', fakes={"send": gives(1, args={"to": "y"})})
    assert done.problems[0][1].startswith("no fake of @SEND fits these arguments")


def test_transforms_are_executed_and_are_no_calls() -> None:
    done = rehearse('S1: @CALC ("2 * $n") > $m\nS2: @RESPOND ($m)', {"n": 21})
    assert (done.answer, done.calls) == ("42", ())


def test_a_question_without_a_reply_expires_after_days_of_virtual_time() -> None:
    plan = 'S1: @ASK_HUMAN ("Go on?", timeout="3d", default="no") > $a\nS2: @RESPOND ($a)'
    done = rehearse(plan, replies=[Reply("Go on", None)])
    assert (done.answer, done.seconds, done.problems) == ("no", 259_200.0, ())
    assert rehearse(plan, replies=[Reply("Go on", Answer.of("yes"))]).answer == "yes"
    told = rehearse(plan)
    assert told.problems == (("S1", "the test has no reply to the question 'Go on?'"),)
    waits = rehearse('S1: @ASK_HUMAN ("Go on?") > $a', replies=[Reply("Go on", None)])
    assert waits.status == "waiting"


def test_an_approval_is_answered_by_the_name_of_its_tool() -> None:
    plan = 'S1: @SEND (to="x") > $r ON_FAIL TERMINATE ("not sent: $r")\nS2: @RESPOND ("sent")'
    stage = Stage(approve=["send"])
    assert (
        rehearse(plan, fakes={"send": 1}, replies=[Reply("send", Answer.approve())], stage=stage).answer
        == "sent"
    )
    denied = rehearse(plan, fakes={"send": 1}, replies=[Reply("send", Answer.deny(note="no"))], stage=stage)
    assert denied.calls == ()
    assert denied.result.terminated


def test_models_agents_and_new_plans_are_faked_by_their_names() -> None:
    plan = (
        'S1: @LLM_SUMMARIZE ("a long text") > $s\nS2: @AGENT_SOLVE ("find it") > $f\nS3: RE-PLAN ("no: $s")'
    )
    new = 'S1: @RESPOND ("$s $f")'
    done = rehearse(plan, fakes={"llm_summarize": "short", "agent_solve": "found", "re_plan": new})
    assert (done.status, done.answer) == ("done", "short found")
    assert (done.calls[0].tool, done.calls[0].inputs) == ("LLM_SUMMARIZE", ("a long text",))


def test_a_lost_answer_of_an_unsafe_tool_leaves_the_run_in_doubt() -> None:
    done = rehearse('S1: @SEND (to="x") > $r', fakes=[Fake(tool="send", lost=True)])
    assert done.status == "in_doubt"
    assert [call.tool for call in done.result.in_doubt] == ["SEND"]


@pytest.mark.parametrize(("kind", "said"), [("TIMEOUT", "late"), ("SCHEMA", "odd"), ("", "other")])
def test_a_plan_tells_the_kinds_of_failures_apart(kind: Any, said: str) -> None:
    plan = (
        '# ltp: 2\nTRY {\n  S1: @SLOW > $a\n} ON_FAIL TIMEOUT {\n  @RESPOND ("late")\n} ON_FAIL SCHEMA {\n'
        '  @RESPOND ("odd")\n} ON_FAIL {\n  @RESPOND ("other")\n}\n'
    )
    assert rehearse(plan, fakes={"slow": fails("no", kind=kind)}).answer == said


def test_a_policy_refuses_what_it_would_refuse_in_a_recorded_run() -> None:
    plan = 'S1: @READ_FILE (path="a") > $a\nS2: @FETCH_PAGE (url="https://x.example/?$a") > $b'
    with pytest.raises(PolicyRefused):
        rehearse(plan, fakes={"read_file": "x", "fetch_page": "y"}, stage=Stage(policy="workspace"))
    stored = (
        '# ltp: 2\nINPUT $n: str\nS1: @FETCH_PAGE (url="https://x.example") > $a\n'
        'S2: @WRITE_FILE (path="pages/${n}.md", content=$a)\nS3: @RESPOND ($n)\n'
    )
    fakes = {"fetch_page": "y", "write_file": "written"}
    assert rehearse(stored, {"n": "z"}, fakes=fakes, stage=Stage(policy="workspace")).answer == "z"


def test_a_real_function_is_called_where_no_fake_answers() -> None:
    @tool(effect="read")
    def double(n: int) -> int:
        return 2 * n

    plan = "S1: @DOUBLE (4) > $a\nS2: @DOUBLE (n=5) > $b\nS3: @RESPOND ($a, $b)"
    done = rehearse(plan, fakes=[], stage=Stage(tools=[double]))
    assert done.answer == "8 10"
    assert (
        rehearse(plan, fakes={"double": gives(0, args={"n": 5})}, stage=Stage(tools=[double])).answer == "8 0"
    )


def test_a_plan_with_errors_is_refused_as_ever() -> None:
    with pytest.raises(PlanError):
        rehearse("S1: GOTO S9")


async def test_it_can_be_called_inside_an_event_loop() -> None:
    await asyncio.sleep(0)
    assert rehearse(LIST, fakes={"list": 1}).answer == "1"


def test_concurrent_calls_take_the_time_of_the_longest() -> None:
    plan = "@PARALLEL {\n  S1: @A > $a\n  S2: @B > $b\n}\nS3: @RESPOND ($a, $b)"
    done = rehearse(plan, fakes={"a": gives(1, seconds=30), "b": gives(2, seconds=40)})
    assert (done.answer, done.seconds) == ("1 2", 40.0)


BLOCKS = """# ltp: 2
INPUT $repo: str
S1: @LIST (repo=$repo) > $all ON_FAIL {
  S9: @RESPOND ("none")
}
?FOREACH ($i IN $all) {
  ?IF ($i > 3) {
    S3: @BIG (n=$i) > $x ON_FAIL USE (0)
  } ELSE IF ($i == 2) {
    NOTE ("two")
  }
}
?REPEAT (max=3) {
  S5: @POLL > $p
} UNTIL ($p == 2)
S6: @RESPOND ($all)
"""


def covered(runs: list[dict[str, object]], text: str = BLOCKS) -> list[str]:
    plan = Plan.parse(text)
    marks = set()
    for fakes in runs:
        marks |= rehearse(plan, {"repo": "x"} if "$repo" in text else {}, fakes=fakes).marks  # pyright: ignore[reportArgumentType]
    return [point.words for point in coverage_of(plan, marks).missed]


def test_coverage_of_blocks_counts_branches_items_and_failures() -> None:
    first = {"list": [5, 1], "big": 9, "poll": 2}
    assert covered([first]) == [
        "S1 fails",
        "S9 is executed",
        "foreach1 without items",
        "the condition 2 of foreach1.if1 is true",
        "S3 fails for good",
        "foreach1.if1.note1 is executed",
        "repeat1 goes round again",
    ]
    polls = iter([1, 2])
    more = [
        first,
        {"list": fails("no")},
        {"list": [], "poll": 2},
        {"list": [2, 4], "big": fails("oh"), "poll": lambda: next(polls)},
    ]
    assert covered(more) == []


def test_coverage_counts_the_items_that_a_loop_leaves_out() -> None:
    text = "# ltp: 2\nS1: ?FOREACH ($x IN [1, 2]) {\nS2: @A (x=$x) > $a\nYIELD ($a)\n} > $all ON_FAIL SKIP\n"
    text += 'S3: @B ON_FAIL USE ("none")\n@RESPOND ($all)'
    never = ["S1 without items", "S3 fails for good"]
    assert covered([{"a": 1, "b": 1}], text) == ["S1 without items", "S1 leaves failed items out", never[1]]
    assert covered([{"a": [fails("no", times=1), gives(1)], "b": 1}], text) == never


def test_coverage_of_steps_counts_both_sides_of_a_condition() -> None:
    text = (
        'S1: @A > $a ON_FAIL GOTO S4\nS2: ?IF ($a > 1) THEN @B > $b\nS3: @RESPOND ($a)\nS4: @RESPOND ("no")'
    )
    assert covered([{"a": 1}], text) == [
        "S1 fails for good",
        "S2 is executed",
        "the condition of S2 is true",
        "S4 is executed",
    ]
    assert covered([{"a": 1}, {"a": 2, "b": 0}, {"a": fails("x")}], text) == []


def test_python_plans_are_rehearsed_with_their_pure_code() -> None:
    text = (
        "async def main(n: int):\n"
        "    rows = await list_rows(limit=n)\n"
        "    total = sum(row['x'] ** 2 for row in rows)\n"
        "    try:\n"
        "        await send(total=total)\n"
        "    except Exception:\n"
        "        return -1\n"
        "    return total\n"
    )
    done = rehearse(
        Plan.parse(text, syntax="python"), {"n": 2}, fakes={"list_rows": [{"x": 3}, {"x": 4}], "send": 0}
    )
    assert done.answer == 25
    assert done.calls_of("send")[0].args == {"total": 25}
    assert done.result.ok
    lost = rehearse(Plan.parse(text, syntax="python"), {"n": 2}, fakes={"list_rows": [], "send": fails("x")})
    assert lost.answer == -1


def test_today_and_now_are_known_in_pure_code_and_are_those_of_the_run() -> None:
    text = (
        "from callsheet import now, today\n\n\n"
        "async def main():\n"
        "    days = [today(), now().date()]\n"
        "    return f'{today()} {days[0] == days[1]} {days[1]}'\n"
    )
    assert rehearse(Plan.parse(text, syntax="python")).answer == "2026-01-01 True 2026-01-01"
