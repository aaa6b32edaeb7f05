"""`explain-schedule` agrees with the machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.machine.ahead.plans import FACTS, busy_plans, machine_of
from tests.plans import INPUTS, plan_of

from callsheet.ir import Call, Order, Plan, Step
from callsheet.machine import Finish, Limits, Started
from callsheet.machine.ahead.waits import Cause, schedule_of
from callsheet.machine.keys import step_of


def said(*steps: str, asks: str = "") -> list[str]:
    plan = plan_of("\n".join(steps))
    return [step.describe() for step in schedule_of(plan, FACTS, lambda tool, step: tool == asks)]


def test_steps_wait_for_data_world_and_control() -> None:
    assert said(
        "S1: @READ (1) > $a",
        "S2: @READ ($a, $b) > $b",
        "S3: @WRITE ($a)",
        'S4: ?IF ($b == 1) THEN @RESPOND ("x")',
        "S5: @READ ($a, $b) ON_FAIL GOTO S1",
        "S6: @PURE (1)",
        "S7: @RESPOND ($a)",
    ) == [
        "S1 starts at once",
        "S2 waits for S1 ($a)",
        "S3 waits for all before it: it may write",
        "S4 waits for all before it: it ends the run",
        "S5 waits for S1 ($a), S2 ($b), S3 (may write) and S4 (may end the run)",
        "S6 waits for S5 (may lead elsewhere if it fails)",
        "S7 waits for all before it: it ends the run",
    ]


def test_dependencies_through_conditional_writes_are_traced() -> None:
    assert said(
        "S1: @READ (1) > $a",
        "S2: ?IF ($c == 1) THEN @READ (2) > $a",
        "S3: @READ ($a)",
        "S4: ?IF ($c == 1) THEN @WRITE (4)",
        "S5: @READ (5)",
    )[2:] == [
        "S3 waits for S1 ($a) and S2 ($a)",
        "S4 waits for all before it: it may write",
        "S5 waits for S4 (may write)",
    ]


def test_group_members_wait_for_earlier_steps() -> None:
    assert said(
        "S1: @READ (1) > $a", "@PARALLEL {", "S2: @READ ($a) > $b", "S3: @READ ($b)", "}", "S4: @READ ($b)"
    )[1:] == ["S2 waits for S1 ($a)", "S3 starts at once", "S4 waits for S2 ($b)"]
    members = ("@PARALLEL {", "S2: @WRITE (1)", "S3: @WRITE (2)", "}")
    assert said("S1: @READ (1)", *members)[1:] == [
        "S2 waits for all before its group: it may write",
        "S3 waits for all before its group: it may write",
    ]
    assert said(*members) == ["S2 starts at once", "S3 starts at once"]


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("@AGENT_SOLVE (1)", "an agent may write"),
        ('@ASK_HUMAN ("x")', "it asks a person"),
        ("@PURE (1)", "a person is asked first"),
        ("@UNHEARD (1)", "it may write"),
        ("GOTO S1", "it jumps"),
        ('RE-PLAN ("x")', "it makes a new plan"),
    ],
)
def test_steps_started_in_order_have_reason(step: str, why: str) -> None:
    assert said("S1: @READ (1)", f"S2: {step}", asks="PURE")[1] == f"S2 waits for all before it: {why}"


def test_graph_waits_for_dependencies() -> None:
    waits = {"1": (), "2": ("1",), "3": ("1", "2")}
    steps = (Step(index, Call("READ"), depends_on=before) for index, before in waits.items())
    plan = Plan(tuple(steps), Order.DAG)
    assert [[(w.step, w.cause) for w in s.waits] for s in schedule_of(plan, {})] == [
        [],
        [("1", Cause.DEPENDENCY)],
        [("1", Cause.DEPENDENCY), ("2", Cause.DEPENDENCY)],
    ]


def test_json_has_same_content() -> None:
    plan = plan_of("S1: @READ (1) > $a\nS2: @READ ($a)\nS3: @WRITE (1)")
    assert [step.to_json() for step in schedule_of(plan, FACTS)] == [
        {"step": "S1", "starts": "early", "why": None, "waits": []},
        {
            "step": "S2",
            "starts": "early",
            "why": None,
            "waits": [{"step": "S1", "cause": "data", "why": "$a", "variables": ["a"]}],
        },
        {"step": "S3", "starts": "in turn", "why": "it may write", "waits": []},
    ]


@given(busy_plans())
@settings(max_examples=200, deadline=None)
def test_steps_without_dependencies_start_at_once(text: str) -> None:
    """With nothing done and no limit, steps without dependencies start, and dependent ones do not."""
    plan = plan_of(text)
    room = Limits(
        schedule="auto", max_concurrency=500, max_steps=500, max_calls=None, max_model_calls=None
    )  # loops not yet begun count with the most items that they may have
    machine = machine_of(text, room)
    commands = machine.feed(Started(INPUTS))
    group = machine.group
    under_way = range(machine.pc, machine.pc + 1 if group is None else group.end)
    if machine.result is not None or machine.pc or not commands:
        return  # the first step was done at once
    left = {step_of(command.key) for command in commands if not isinstance(command, Finish)}
    sure = {step.id for step in plan.steps if step.condition is None and step.foreach is None}
    for number, told in enumerate(schedule_of(plan, FACTS)):
        if number in under_way:
            continue
        if told.turn or any(wait.step in sure for wait in told.waits):
            assert told.step not in left
        elif not told.waits and told.step in sure and machine.ahead is not None:
            assert told.step in left
