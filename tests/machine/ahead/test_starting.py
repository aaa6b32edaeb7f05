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
IN_TURN = Limits(schedule="sequential")


def bench(*steps: str, limits: Limits = EARLY) -> Bench:
    return Bench("\n".join(steps), limits=limits, facts=FACTS)


def test_independent_reads_start_with_first_step() -> None:
    run = bench("S1: @READ (1) > $a", "S2: @READ (2) > $b", "S3: @READ ($a) > $c", "S4: @READ ($b) > $d")
    assert run.keys == ["S1.0.1", "S2.0.1"]
    run.ok("S2.0.1", "two")
    assert run.keys == ["S1.0.1", "S4.0.1"]  # the value of $b is handed on before S2 is committed
    assert run.args[-1] == {"x": "two"}
    assert run.machine.variables() == {}


def test_writes_start_in_order_and_reads_wait_for_them() -> None:
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
def test_no_step_starts_before_possible_jump(control: str) -> None:
    run = bench("S1: @READ (1) > $a", f"S2: {control}", "S3: @PURE (3)")
    assert run.keys == ["S1.0.1"]


def test_settled_condition_blocks_nothing() -> None:
    run = bench(
        "S1: @READ (1) > $a",
        '?IF ($n == 2) THEN @RESPOND ("x")',
        "?IF ($n == 2) THEN @WRITE (2)",
        "S4: @READ (3)",
    )
    assert run.keys == ["S1.0.1", "S4.0.1"]


def test_certainly_skipped_setter_keeps_earlier_value() -> None:
    run = bench(
        "S1: @WRITE (1)", "S2: @PURE (2) > $a", "S3: ?IF ($n == 2) THEN @PURE (3) > $a", "S4: @PURE ($a)"
    )
    run.ok("S2.0.1", "two")
    assert run.keys == ["S1.0.1", "S4.0.1"]
    assert run.args[-1] == {"x": "two"}


def test_succeeded_step_does_not_take_failure_branch() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2) ON_FAIL GOTO S1", "S3: @PURE (3)")
    assert run.keys == ["S1.0.1", "S2.0.1"]
    run.ok("S2.0.1")
    assert run.keys == ["S1.0.1", "S3.0.1"]


def test_step_id_with_at_sign_starts_early_under_requested_key() -> None:
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


def test_failure_acts_in_order() -> None:
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


def test_loop_starts_early_with_window() -> None:
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


def test_loop_over_item_limit_does_not_start_early() -> None:
    for most, keys in ((3, ["S1.0.1", "S2.0.1", "S2.1.1", "S2.2.1"]), (2, ["S1.0.1"])):
        run = bench(
            "S1: @WRITE (1)",
            "S2: ?FOREACH ($i IN [1, 2, 3]) THEN @PURE ($i)",
            limits=replace(EARLY, max_items=most),
        )
        assert run.keys == keys


def test_group_members_start_early_and_see_variables_before_group() -> None:
    run = bench(
        "S1: @WRITE (1)", "@PARALLEL {", "S2: @PURE (2) > $a", "S3: @PURE ($a) > $b", "}", "S4: @PURE ($a)"
    )
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]
    assert run.args[-1] == {"x": None}
    run.ok("S2.0.1", "two")
    assert run.args[-1] == {"x": "two"}


def test_number_of_steps_in_flight_is_limited() -> None:
    steps = [f"S{n}: @READ ({n})" for n in range(1, 8)]
    run = bench(*steps, limits=replace(EARLY, max_concurrency=3))
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]
    run.ok("S3.0.1")
    assert run.keys == ["S1.0.1", "S2.0.1", "S4.0.1"]


def test_early_calls_respect_concurrency_limit_of_tool() -> None:
    limits = replace(EARLY, max_concurrency_by_tool={"read": 2})
    run = bench("S1: @READ (1)", "S2: @READ (2)", "S3: @READ (3)", "S4: @PURE (4)", limits=limits)
    assert run.keys == ["S1.0.1", "S2.0.1", "S4.0.1"]
    run.ok("S1.0.1")
    assert "S3.0.1" in run.keys


def test_calls_needing_approval_start_in_order() -> None:
    program = compile_plan(
        Bench("S1: @READ (1)\nS2: @PURE (2)\nS3: @READ (3)\nS4: @PURE (4)").machine.program.plan, FACTS
    )
    commands = Machine(program, EARLY, approve=["PURE"]).feed(Started({}))
    assert keys_of(commands) == ["S1.0.1"]


def test_early_calls_leave_room_for_limits() -> None:
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
    assert "2 of them early · 2 of these unused" in usage.describe()


def test_switching_to_sequential_keeps_early_calls() -> None:
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


def test_sequential_run_may_switch_to_early_starts() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2)", "S3: @PURE (3)", limits=IN_TURN)
    assert run.keys == ["S1.0.1"]
    run.feed(LimitsChanged(EARLY))
    assert run.keys == ["S1.0.1", "S2.0.1", "S3.0.1"]


def test_note_of_early_step_is_emitted_at_its_start() -> None:
    run = bench("S1: @WRITE (1)", "S2: @PURE (2)")
    assert run.story == [(NoteKind.STARTED, "S1"), (NoteKind.EARLY, "S2")]


def test_chain_of_dependent_steps_has_no_early_schedule() -> None:
    chain = "S1: @READ (1) > $a\nS2: @READ ($a) > $b\nS3: @WRITE ($b)\nS4: @READ (1)"
    assert machine_of(chain, EARLY).ahead is None
    assert machine_of(f"{chain}\nS5: @PURE (5)", EARLY).ahead is not None
    assert machine_of(f"{chain}\nS5: @PURE (5)", IN_TURN).ahead is None


def test_scheduling_takes_linear_time() -> None:
    """Counted in function calls, not in time; each step may block all later ones."""
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
