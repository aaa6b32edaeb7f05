"""RE-PLAN: a new plan compiled for a reason, run with the variables carried over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.machine.driving import FACTS, Bench, plan_of, play

from callsheet.frontends.structured import read_structured
from callsheet.ir import Effect, Literal, Order, Plan
from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine import (
    Compile,
    Limits,
    Machine,
    PlanCompiled,
    Started,
    Status,
    Succeeded,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.policy.model import Policy, ReplanRule, ToolRule


def test_compiler_receives_reason_and_variables() -> None:
    bench = Bench('S1: @A () > $a\nS2: RE-PLAN ("because $a", $x)', inputs={"x": [1], "unread": 2})
    bench.ok("S1.0.1", "odd")
    assert bench.waiting == {
        "S2.0.1": Compile("S2.0.1", "S2", "because odd [1]", {"a": "odd", "x": [1], "unread": 2})
    }


def test_new_plan_runs_with_carried_over_variables() -> None:
    played = play(
        'S1: @A () > $a\nS2: RE-PLAN ("x")\nS3: @NEVER ()',
        {"A": "kept", "B": "new"},
        inputs={"i": "input"},
        plans=['S1: @B ($a, $i) > $b\nS2: @RESPOND ("$a $b $i")'],
    )
    assert played.names == ["A", "B"]
    assert played.result.response == "kept new input"
    assert played.variables == {"a": "kept", "i": "input", "b": "new"}


def test_variables_unused_by_new_plan_are_kept() -> None:
    played = play('S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": 1}, plans=['S1: @RESPOND ("y")'])
    assert played.variables == {"a": 1}


def test_variables_survive_two_new_plans() -> None:
    played = play(
        'S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": "v"}, plans=['S1: RE-PLAN ("y")', "S1: @RESPOND ($a)"]
    )
    assert played.result.response == "v"


def test_variables_of_new_plan_are_set() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    bench.compiled("S1.0.1", replace(plan_of("S1: @RESPOND ($n)"), variables=(("n", Literal("own")),)))
    assert bench.result.response == "own"


def test_last_stored_value_is_still_answer() -> None:
    played = play('S1: @A () > $a\nS2: RE-PLAN ("x")', {"A": "v"}, plans=["S1: @B ()"])
    assert played.result.response == "v"


def test_keys_name_their_plan() -> None:
    bench = Bench('S1: @A ()\nS2: RE-PLAN ("x")')
    bench.ok("S1.0.1")
    bench.compiled("S2.0.1", 'S1: @A ()\nS2: RE-PLAN ("y")')
    assert bench.keys == ["r1/S1.0.1"]
    bench.ok("r1/S1.0.1")
    assert bench.keys == ["r1/S2.0.1"]
    bench.compiled("r1/S2.0.1", "S1: @A ()")
    assert bench.keys == ["r2/S1.0.1"]


def test_tool_facts_are_those_of_new_plan() -> None:
    bench = Bench('S1: RE-PLAN ("x")', facts={})
    facts = {"NEW": ToolFacts(Effect.READ, ("p",))}
    bench.compiled("S1.0.1", "S1: ?FOREACH ($i IN [1, 2]) THEN @NEW ($i)", facts)
    assert bench.args == [{"p": 1}, {"p": 2}]


def test_steps_are_counted_over_all_plans() -> None:
    played = play('S1: @A ()\nS2: RE-PLAN ("x")', plans=['S1: @B ()\nS2: @RESPOND ("y")'])
    assert played.result.steps_executed == 4


def test_step_budget_covers_all_plans() -> None:
    played = play('S1: RE-PLAN ("x")', plans=["S1: GOTO S1"], limits=Limits(max_steps=10))
    assert (played.result.status, played.result.steps_executed) == (Status.FAILED, 10)


def test_at_most_three_new_plans_are_compiled() -> None:
    played = play('S1: RE-PLAN ("x")', plans=['S1: RE-PLAN ("again")'] * 9)
    assert played.seconds == 3.0
    assert played.result.status is Status.FAILED
    assert "max_replans" in str(played.result.error)


def test_number_of_new_plans_is_configurable() -> None:
    played = play('S1: RE-PLAN ("x")', plans=['S1: @RESPOND ("never")'], limits=Limits(max_replans=0))
    assert (played.seconds, played.result.status) == (0.0, Status.FAILED)


def test_failed_compilation_fails_run() -> None:
    played = play('S1: RE-PLAN ("x")\nS2: @A ()')
    assert (played.names, played.result.status) == ([], Status.FAILED)
    assert "no model" in str(played.result.error)


def test_failed_compilation_follows_on_fail_like_any_step() -> None:
    bench = Bench('S1: RE-PLAN ("x") ON_FAIL @RETRY(1) GOTO S2\nS2: @A ()')
    bench.fail("S1.0.1")
    assert bench.fire("S1.0.2") == [Compile("S1.0.2", "S1", "x", {})]
    bench.fail("S1.0.2")
    assert bench.keys == ["S2.0.1"]


def test_invalid_new_plan_fails_run_with_reason() -> None:
    bench = Bench('S1: RE-PLAN ("x")')
    (step,) = plan_of("S1: @A ()").steps
    bench.compiled("S1.0.1", Plan((replace(step, depends_on=("S1",)),), Order.DAG))
    assert bench.result.status is Status.FAILED
    assert bench.result.error


def test_replan_in_group_acts_after_group() -> None:
    bench = Bench('@PARALLEL {\n S1: RE-PLAN ("x")\n S2: @B () > $b\n}\nS3: @C ()')
    bench.compiled("S1.0.1", "S1: @RESPOND ($b)")
    assert bench.keys == ["S2.0.1"]
    bench.ok("S2.0.1", "in time")
    assert bench.result.response == "in time"


def test_earlier_jump_in_group_precedes_replan() -> None:
    bench = Bench('@PARALLEL {\n S1: GOTO S4\n S2: RE-PLAN ("x")\n}\nS3: @C ()\nS4: @D ()')
    bench.compiled("S2.0.1", 'S1: @RESPOND ("no")')
    assert bench.keys == ["S4.0.1"]


def test_events_of_old_plan_change_nothing() -> None:
    bench = Bench('S1: @A ()\nS2: RE-PLAN ("x")')
    bench.ok("S1.0.1")
    bench.compiled("S2.0.1", "S1: @A () > $a")
    assert bench.ok("S1.0.1", "late") == []
    assert bench.machine.open_keys() == ("r1/S1.0.1",)


def test_inputs_override_plan_variables() -> None:
    plan = replace(plan_of("S1: @RESPOND ($n, $m)"), variables=(("n", Literal("own")), ("m", Literal("own"))))
    bench = Bench(plan, inputs={"n": "given"})
    assert bench.result.response == "given own"


def test_second_start_changes_nothing() -> None:
    bench = Bench("S1: @A ()")
    assert bench.feed(Started({"x": 1})) == []
    bench.ok("S1.0.1")
    assert bench.result.variables == {}


@pytest.mark.parametrize("returns", ["T/pub", "U/priv"])
def test_new_plan_with_blocks_goes_on_with_the_labels_of_what_steps_have_read(returns: str) -> None:
    blocks = read_structured("# ltp: 2\nINPUT $a: json = 1\nS1: @A (x=$a)\n@RESPOND ([$a])\n").require()
    rule = ToolRule(destructive=False, returns=read_label(returns))  # what it is given leaves
    policy = Policy(tools={"A": rule}, replan=ReplanRule(context="any"))
    text = 'S1: @A () > $a\nS2: RE-PLAN ("x")'
    for enforcement in (None, Enforcement.under(policy)):
        machine = Machine(compile_plan(plan_of(text), FACTS), enforcement=enforcement)
        machine.feed(Started({}))
        machine.feed(Succeeded("S1.0.1", "v"))
        machine.feed(PlanCompiled("S2.0.1", blocks, {}, context=LITERAL))
        if enforcement is None or returns == "T/pub":
            machine.feed(Succeeded("S1.1", None))
            assert machine.result is not None
            assert machine.result.answer == ["v"]
        else:
            assert machine.result is not None
            assert "would reach outside" in (machine.result.error or "")


def test_new_plan_that_needs_what_is_not_set_is_an_error() -> None:
    blocks = read_structured("# ltp: 2\nINPUT $b: str\n@RESPOND ($b)\n").require()
    machine = Machine(compile_plan(plan_of('S1: @A () > $a\nS2: RE-PLAN ("x")'), FACTS))
    machine.feed(Started({}))
    machine.feed(Succeeded("S1.0.1", "v"))
    machine.feed(PlanCompiled("S2.0.1", blocks, {}))
    assert machine.result is not None
    assert "RUN038" in (machine.result.error or "")
