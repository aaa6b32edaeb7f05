"""RE-PLAN: a new plan compiled for a reason, run with the variables carried over."""

from __future__ import annotations

from dataclasses import replace

from tests.machine.driving import Bench, plan_of, play

from callsheet.ir import Effect, Literal, Order, Plan
from callsheet.machine import Compile, Limits, Started, Status, ToolFacts


def test_the_reason_and_the_variables_go_to_the_compiler() -> None:
    bench = Bench('S1: @A () > $a\nS2: RE-PLAN ("because $a", $x)', inputs={"x": [1], "unread": 2})
    bench.ok("S1.0.1", "odd")
    assert bench.waiting == {
        "S2.0.1": Compile("S2.0.1", "S2", "because odd [1]", {"a": "odd", "x": [1], "unread": 2})
    }


def test_the_new_plan_runs_with_the_variables_carried_over() -> None:
    played = play(
        'S1: @A () > $a\nS2: RE-PLAN ("x")\nS3: @NEVER ()',
        {"A": "kept", "B": "new"},
        inputs={"i": "input"},
        plans=['S1: @B ($a, $i) > $b\nS2: @RESPOND ("$a $b $i")'],
    )
    assert played.names == ["A", "B"]
    assert played.result.response == "kept new input"
    assert played.variables == {"a": "kept", "i": "input", "b": "new"}


def test_variables_that_the_new_plan_does_not_name_are_kept() -> None:
    played = play('S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": 1}, plans=['S1: @RESPOND ("y")'])
    assert played.variables == {"a": 1}


def test_variables_are_found_again_two_plans_later() -> None:
    played = play(
        'S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": "v"}, plans=['S1: RE-PLAN ("y")', "S1: @RESPOND ($a)"]
    )
    assert played.result.response == "v"


def test_the_new_plans_own_variables_are_set() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    bench.compiled("S1.0.1", replace(plan_of("S1: @RESPOND ($n)"), variables=(("n", Literal("own")),)))
    assert bench.result.response == "own"


def test_the_last_stored_value_is_still_the_answer() -> None:
    played = play('S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": "v"}, plans=["S1: @B ()"])
    assert played.result.response == "v"


def test_keys_say_which_plan_they_belong_to() -> None:
    bench = Bench('S1: @A ()\nS2: RE-PLAN ("x")')
    bench.ok("S1.0.1")
    bench.compiled("S2.0.1", 'S1: @A ()\nS2: RE-PLAN ("y")')
    assert bench.keys == ["r1/S1.0.1"]
    bench.ok("r1/S1.0.1")
    assert bench.keys == ["r1/S2.0.1"]
    bench.compiled("r1/S2.0.1", "S1: @A ()")
    assert bench.keys == ["r2/S1.0.1"]


def test_the_facts_about_tools_are_those_of_the_new_plan() -> None:
    bench = Bench('S1: RE-PLAN ("x")', facts={})
    facts = {"NEW": ToolFacts(Effect.READ, ("p",))}
    bench.compiled("S1.0.1", "S1: ?FOREACH ($i IN [1, 2]) THEN @NEW ($i)", facts)
    assert bench.args == [{"p": 1}, {"p": 2}]


def test_steps_count_over_all_plans() -> None:
    played = play('S1: @A ()\nS2: RE-PLAN ("x")', plans=['S1: @B ()\nS2: @RESPOND ("y")'])
    assert played.result.steps_executed == 4


def test_the_step_budget_holds_over_all_plans() -> None:
    played = play('S1: RE-PLAN ("x")', plans=["S1: GOTO S1"], limits=Limits(max_steps=10))
    assert (played.result.status, played.result.steps_executed) == (Status.FAILED, 10)


def test_at_most_three_new_plans_are_compiled() -> None:
    played = play('S1: RE-PLAN ("x")', plans=['S1: RE-PLAN ("again")'] * 9)
    assert played.seconds == 3.0
    assert played.result.status is Status.FAILED
    assert "max_replans" in str(played.result.error)


def test_the_number_of_new_plans_can_be_set() -> None:
    played = play('S1: RE-PLAN ("x")', plans=['S1: @RESPOND ("never")'], limits=Limits(max_replans=0))
    assert (played.seconds, played.result.status) == (0.0, Status.FAILED)


def test_a_compilation_that_fails_fails_the_run() -> None:
    played = play('S1: RE-PLAN ("x")\nS2: @A ()')
    assert (played.names, played.result.status) == ([], Status.FAILED)
    assert "no model" in str(played.result.error)


def test_a_compilation_that_fails_is_tried_again_and_led_on_as_any_step() -> None:
    bench = Bench('S1: RE-PLAN ("x") ON_FAIL @RETRY(1) GOTO S2\nS2: @A ()')
    bench.fail("S1.0.1")
    assert bench.fire("S1.0.2") == [Compile("S1.0.2", "S1", "x", {})]
    bench.fail("S1.0.2")
    assert bench.keys == ["S2.0.1"]


def test_a_new_plan_that_cannot_run_fails_the_run_with_the_reason() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    (step,) = plan_of("S1: @A ()").steps
    bench.compiled("S1.0.1", Plan((replace(step, depends_on=("S1",)),), Order.DAG))
    assert bench.result.status is Status.FAILED
    assert bench.result.error


def test_a_replan_in_a_group_acts_after_the_group() -> None:
    bench = Bench('@PARALLEL {\n S1: RE-PLAN ("x")\n S2: @B () > $b\n}\nS3: @C ()')
    bench.compiled("S1.0.1", "S1: @RESPOND ($b)")
    assert bench.keys == ["S2.0.1"]
    bench.ok("S2.0.1", "in time")
    assert bench.result.response == "in time"


def test_an_earlier_jump_in_a_group_takes_precedence_over_a_replan() -> None:
    bench = Bench('@PARALLEL {\n S1: GOTO S4\n S2: RE-PLAN ("x")\n}\nS3: @C ()\nS4: @D ()')
    bench.compiled("S2.0.1", 'S1: @RESPOND ("no")')
    assert bench.keys == ["S4.0.1"]


def test_events_of_the_former_plan_change_nothing() -> None:
    bench = Bench('S1: @A ()\nS2: RE-PLAN ("x")')
    bench.ok("S1.0.1")
    bench.compiled("S2.0.1", "S1: @A () > $a")
    assert bench.ok("S1.0.1", "late") == []
    assert bench.machine.open_keys() == ("r1/S1.0.1",)


def test_a_plans_variables_give_way_to_inputs_of_the_same_name() -> None:
    plan = replace(plan_of("S1: @RESPOND ($n, $m)"), variables=(("n", Literal("own")), ("m", Literal("own"))))
    bench = Bench(plan, inputs={"n": "given"})
    assert bench.result.response == "given own"


def test_a_second_start_changes_nothing() -> None:
    bench = Bench("S1: @A ()")
    assert bench.feed(Started({"x": 1})) == []
    bench.ok("S1.0.1")
    assert bench.result.variables == {}
