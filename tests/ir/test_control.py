"""Control dependencies of steps, compared with runs that take either branch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.control import Control, all_guards, control_of
from callsheet.ir.flow import Flow, flow_of
from strategies import plans


def control(text: str) -> Control:
    plan = parse(text).plan
    assert isinstance(plan, Plan)
    return control_of(flow_of(plan))


def test_steps_that_a_jump_skips_depend_on_it() -> None:
    found = control('S1: ?IF ($a == "x") THEN GOTO S3\nS2: @A > $y\nS3: @B > $z\nS4: @RESPOND ($y)')
    assert found.guards() == [[0], [0], [], []]
    assert found.variables(0) == {"y"}


def test_a_guarded_call_decides_about_itself_alone() -> None:
    found = control('S1: ?IF ($a == "x") THEN @A > $y\nS2: @B > $z\nS3: @RESPOND ($y)')
    assert found.guards() == [[0], [], []]
    assert found.variables(0) == {"y"}


def test_steps_after_a_guarded_end_depend_on_it() -> None:
    found = control('S1: ?IF ($a == "x") THEN TERMINATE ("no")\nS2: @B > $z\nS3: @RESPOND ("ok")')
    assert found.guards()[1:] == [[0], [0]]


def test_a_failure_that_jumps_decides() -> None:
    found = control('S1: @A > $x ON_FAIL GOTO S3\nS2: @B > $y\nS3: @RESPOND ("ok")')
    assert found.guards() == [[], [0], []]


def test_an_answer_that_may_be_empty_decides_about_what_follows() -> None:
    found = control('S1: @RESPOND ($x)\nS2: @B > $y\nS3: @RESPOND ("ok")')
    assert found.guards()[1] == [0]


def test_a_member_of_a_group_decides_when_the_group_has_ended() -> None:
    found = control(
        '@PARALLEL {\nS1: @A > $x ON_FAIL TERMINATE ("no")\nS2: @B > $y\n}\nS3: @C > $z\nS4: @RESPOND ("ok")'
    )
    assert found.guards() == [[], [], [0], [0]]


def test_guards_of_guards_count() -> None:
    found = control(
        'S1: ?IF ($a == 1) THEN TERMINATE ("1")\nS2: ?IF ($b == 1) THEN TERMINATE ("2")\nS3: @A > $x\n'
        'S4: @RESPOND ("ok")'
    )
    direct = found.guards()
    assert direct[2] == [1]
    assert all_guards(direct, 2) == {0, 1}


def test_steps_of_a_loop_stand_in_a_cycle_and_others_do_not() -> None:
    found = control(
        'S1: @A > $x\nS2: ?IF ($x == "wait") THEN GOTO S1\nS3: @RESPOND ($x)',
    )
    assert list(found.in_cycle[:3]) == [1, 1, 0]
    assert found.guards()[0] == [1]


def test_steps_that_cannot_reach_the_end_are_known() -> None:
    found = control("S1: ?IF ($q == 1) THEN GOTO S4\nS2: @A > $x\nS3: GOTO S2\nS4: @RESPOND ($x)")
    assert list(found.can_end[:4]) == [1, 0, 0, 1]


def reaches(flow: Flow, start: int, avoided: int) -> set[int]:
    """The nodes that a node leads to on ways that do not go through another."""
    seen, stack = {start}, [start]
    while stack:
        for node in flow.successors[stack.pop()]:
            if node not in seen and node != avoided:
                seen.add(node)
                stack.append(node)
    return seen


@settings(max_examples=60, deadline=None)
@given(plans())
def test_a_step_depends_on_a_branch_if_one_way_must_come_to_it_and_another_need_not(plan: Plan) -> None:
    flow = flow_of(plan)
    found = control_of(flow)
    if not all(found.can_end[node] for node in range(len(plan.steps))):
        return
    for branch in found.branches():
        if branch >= flow.end:
            continue
        for step in range(len(plan.steps)):

            def must(start: int, step: int = step) -> bool:
                return start == step or flow.end not in reaches(flow, start, step)

            expected = any(must(n) for n in flow.successors[branch]) and (step == branch or not must(branch))
            for decider in found.deciders(branch):
                if expected:
                    assert step in set(found.dependents(decider))


@pytest.mark.parametrize("count", [20_000])
def test_a_long_plan_of_guards_is_quick(count: int) -> None:
    lines = [f'S{n}: ?IF ($a == {n}) THEN TERMINATE ("{n}")' for n in range(1, count)]
    found = control("\n".join([*lines, f"S{count}: @RESPOND ($a)"]))
    assert sum(map(len, found.guards())) < 3 * count
