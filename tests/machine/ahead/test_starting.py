"""Which steps start before their turn, and which do not."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import replace
from pstats import Stats

import pytest
from tests.machine.ahead.plans import FACTS, machine_of
from tests.machine.driving import Bench

from callsheet.ir import Call, Goto, Plan, Step
from callsheet.machine import (
    Command,
    Finish,
    Limits,
    LimitsChanged,
    Machine,
    Started,
    Succeeded,
    compile_plan,
)
from callsheet.machine.limits import AUTO
from callsheet.machine.notes import NoteKind

EARLY = Limits(schedule=AUTO, max_concurrency=10)


def bench(*steps: str, limits: Limits = EARLY) -> Bench:
    return Bench("\n".join(steps), limits=limits, facts=FACTS)


def test_independent_reads_start_with_the_first_step() -> None:
    run = bench("S1: @READ (1) > $a", "S2: @READ (2) > $b", "S3: @READ ($a) > $c", "S4: @READ ($b) > $d")
    assert run.keys == ["S1.0.1", "S2.0.1"]
    run.ok("S2.0.1", "two")
    assert run.keys == ["S1.0.1", "S4.0.1"]  # the value of $b is handed on before S2 is committed
    assert run.args[-1] == {"x": "two"}
    assert run.machine.variables() == {}


def test_writes_start_in_their_turn_and_reads_wait_for_them() -> None:
    run = bench(
        "S1: @READ (1)", "S2: @WRITE (2)", "S3: @READ (3)", "S4: @PURE (4)", "S5: @LLM_EXTRACT (5, target=1)"
    )
    assert run.keys == ["S1.0.1", "S4.0.1", "S5.0.1"]
    run.ok("S1.0.1")
    assert run.keys[-1] == "S2.0.1"
    run.ok("S2.0.1")
    assert run.keys[-1] == "S3.0.1"


@pytest.mark.parametrize(
    "control",
    ["?IF ($a == 1) THEN GOTO S3", '?IF ($a == 1) THEN @RESPOND ("x")', '?IF ($a == 1) THEN TERMINATE ("x")',
     "@READ ($a) ON_FAIL GOTO S3", '?IF ($a == 1) THEN RE-PLAN ("x")'],
)  # fmt: skip
def test_no_step_starts_before_a_possible_jump(control: str) -> None:
    run = bench("S1: @READ (1) > $a", f"S2: {control}", "S3: @PURE (3)")
    assert run.keys == ["S1.0.1"]


def test_a_condition_that_is_settled_stands_in_the_way_of_nothing() -> None:
    run = bench(
        "S1: @READ (1) > $a",
        '?IF ($n == 2) THEN @RESPOND ("x")',
        "?IF ($n == 2) THEN @WRITE (2)",
        "S4: @READ (3)",
    )
    assert run.keys == ["S1.0.1", "S4.0.1"]


def test_a_setter_that_is_sure_to_be_skipped_hands_on_what_was_there_before() -> None:
    run = bench(
        "S1: @WRITE (1)", "S2: @PURE (2) > $a", "S3: ?IF ($n == 2) THEN @PURE (3) > $a", "S4: @PURE ($a)"
    )
    run.ok("S2.0.1", "two")
    assert run.keys == ["S1.0.1", "S4.0.1"]
    assert run.args[-1] == {"x": "two"}


def test_a_step_that_has_succeeded_leads_nowhere_else() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2) ON_FAIL GOTO S1", "S3: @PURE (3)")
    assert run.keys == ["S1.0.1", "S2.0.1"]
    run.ok("S2.0.1")
    assert run.keys == ["S1.0.1", "S3.0.1"]


def test_a_step_with_an_at_sign_in_its_id_leaves_early_on_every_visit_under_the_key_that_is_asked_for() -> (
    None
):
    plan = Plan((Step("S1", Call("WRITE")), Step("a@3", Call("PURE")), Step("S3", Goto("S1"))))
    machine = Machine(compile_plan(plan, FACTS), EARLY)
    machine.feed(Started({}))
    machine.feed(Succeeded("S1.0.1", None))
    again = machine.feed(Succeeded("a%403.0.1", None))
    assert [command.key for command in again if not isinstance(command, Finish)] == [
        "S1@2.0.1",
        "a%403@2.0.1",
    ]
    assert machine.feed(Succeeded("S1@2.0.1", None)) == []  # the call of `a@3` is under way already


def test_a_failure_acts_in_its_turn() -> None:
    run = bench(
        "S1: @WRITE (1)", "S2: @PURE (2) > $a ON_FAIL @RETRY(1, delay=3)", "S3: @PURE ($a)", "S4: @PURE (4)"
    )
    run.fail("S2.0.1", "no luck")
    assert run.keys == ["S1.0.1", "S4.0.1"]
    assert (NoteKind.RETRYING, "S2") not in run.story
    run.ok("S1.0.1")
    assert run.keys == ["S4.0.1", "S2.0.2"]
    run.fire("S2.0.2")
    run.ok("S2.0.2", "now")
    assert run.args[-1] == {"x": "now"}


def test_a_loop_leaves_early_with_its_window() -> None:
    run = bench(
        "S1: @WRITE (1)",
        "S2: ?FOREACH ($i IN [1, 2, 3]) THEN @PURE ($i) > $all",
        "S3: @PURE ($all)",
        limits=replace(EARLY, window=2),
    )
    assert run.keys == ["S1.0.1", "S2.0.1", "S2.1.1"]
    run.ok("S2.1.1", "b")
    assert run.keys[-1] == "S2.2.1"
    run.ok("S2.2.1", "c")
    run.ok("S2.0.1", "a")
    assert run.args[-1] == {"x": ["a", "b", "c"]}


def test_a_loop_with_more_items_than_it_may_have_does_not_leave_early() -> None:
    for most, keys in ((3, ["S1.0.1", "S2.0.1", "S2.1.1", "S2.2.1"]), (2, ["S1.0.1"])):
        run = bench(
            "S1: @WRITE (1)",
            "S2: ?FOREACH ($i IN [1, 2, 3]) THEN @PURE ($i)",
            limits=replace(EARLY, max_items=most),
        )
        assert run.keys == keys


def test_members_of_a_group_leave_early_and_see_what_stood_before_it() -> None:
    run = bench(
        "S1: @WRITE (1)", "@PARALLEL {", "S2: @PURE (2) > $a", "S3: @PURE ($a) > $b", "}", "S4: @PURE ($a)"
    )
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]
    assert run.args[-1] == {"x": None}
    run.ok("S2.0.1", "two")
    assert run.args[-1] == {"x": "two"}


def test_at_most_so_many_steps_are_under_way() -> None:
    steps = [f"S{n}: @READ ({n})" for n in range(1, 8)]
    run = bench(*steps, limits=replace(EARLY, max_concurrency=3))
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]
    run.ok("S3.0.1")
    assert run.keys == ["S1.0.1", "S2.0.1", "S4.0.1"]


def test_early_calls_respect_the_concurrency_limit_of_a_tool() -> None:
    limits = replace(EARLY, max_concurrency_by_tool={"read": 2})
    run = bench("S1: @READ (1)", "S2: @READ (2)", "S3: @READ (3)", "S4: @PURE (4)", limits=limits)
    assert run.keys == ["S1.0.1", "S2.0.1", "S4.0.1"]
    run.ok("S1.0.1")
    assert "S3.0.1" in run.keys


def test_calls_that_need_a_yes_leave_in_their_turn() -> None:
    program = compile_plan(
        Bench("S1: @READ (1)\nS2: @PURE (2)\nS3: @READ (3)\nS4: @PURE (4)").machine.program.plan, FACTS
    )
    commands = Machine(program, EARLY, approve=["PURE"]).feed(Started({}))
    assert keys_of(commands) == ["S1.0.1"]


def test_no_call_leaves_early_that_a_limit_would_leave_no_room_for() -> None:
    steps = ("S1: @WRITE (1) ON_FAIL @RETRY(3)", "S2: @PURE (2)", "S3: @PURE (3)")
    assert bench(*steps, limits=replace(EARLY, max_calls=5)).keys == ["S1.0.1"]
    assert bench(*steps, limits=replace(EARLY, max_calls=6)).keys == ["S1.0.1", "S2.0.1"]
    assert bench(*steps, limits=replace(EARLY, max_calls_by_tool={"PURE": 1})).keys == ["S1.0.1", "S2.0.1"]
    assert bench(*steps, limits=replace(EARLY, max_steps=2)).keys == ["S1.0.1", "S2.0.1"]


def test_wasted_early_calls_are_counted() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2)", "S3: @LLM_EXTRACT (3, target=1)")
    run.ok("S2.0.1", "a text")
    run.cancel()
    usage = run.result.usage
    assert (usage.calls_by_tool, usage.early, usage.unused) == (
        {"WRITE": 1, "PURE": 1, "LLM_EXTRACT": 1},
        2,
        2,
    )
    assert (usage.model_calls, usage.bytes) == (1, 6)
    assert "2 of them early · 2 of these for nothing" in usage.describe()


def test_a_run_that_goes_on_sequentially_keeps_what_has_left() -> None:
    run = bench(
        "S1: @WRITE (1)", "S2: @PURE (2) > $a", "S3: @PURE (3)", limits=replace(EARLY, max_concurrency=2)
    )
    run.feed(LimitsChanged(replace(EARLY, schedule="sequential")))
    run.ok("S2.0.1", "two")
    assert run.keys == ["S1.0.1"]
    run.ok("S1.0.1")
    assert run.keys == ["S3.0.1"]
    assert run.machine.variables() == {"a": "two"}
    run.feed(LimitsChanged(EARLY))
    run.ok("S3.0.1")
    assert run.result.usage.early == 1


def test_a_run_that_was_sequential_may_run_ahead_from_now_on() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2)", "S3: @PURE (3)", limits=Limits())
    assert run.keys == ["S1.0.1"]
    run.feed(LimitsChanged(EARLY))
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]


def test_the_note_of_an_early_step_comes_when_its_call_leaves() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2)")
    assert run.story == [(NoteKind.STARTED, "S1"), (NoteKind.EARLY, "S2")]


def test_a_chain_of_dependent_steps_has_no_early_schedule() -> None:
    chain = "S1: @READ (1) > $a\nS2: @READ ($a) > $b\nS3: @WRITE ($b)\nS4: @READ (1)"
    assert machine_of(chain, EARLY).ahead is None
    assert machine_of(f"{chain}\nS5: @PURE (5)", EARLY).ahead is not None
    assert machine_of(f"{chain}\nS5: @PURE (5)", Limits()).ahead is None


def test_a_plan_of_any_length_takes_time_in_proportion() -> None:
    """Counted in calls of functions, not timed: each step may stand in the way of all that follow."""
    made: dict[int, int] = {}
    for count in (500, 5_000):
        steps = [f"S{n}: ?IF (IS_EMPTY($a)) THEN @READ ($a) > $a" for n in range(2, count)]
        machine = machine_of("\n".join(["S1: @WRITE (1) > $a", *steps]), replace(EARLY, max_steps=100_000))
        assert machine.ahead is not None
        with Profile() as profile:
            waiting = keys_of(machine.feed(Started({})))
            while machine.result is None:
                waiting += keys_of(machine.feed(Succeeded(waiting.pop(), "")))
        made[count] = Stats(profile).total_calls  # type: ignore[attr-defined]
    assert made[5_000] < 11 * made[500]


def keys_of(commands: list[Command]) -> list[str]:
    return [command.key for command in commands if not isinstance(command, Finish)]
