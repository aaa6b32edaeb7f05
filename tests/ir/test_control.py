"""Control dependencies of steps, compared with runs that take either branch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.control import Control, control_of
from callsheet.ir.flow import Flow, flow_of
from strategies import plans


def control(text: str) -> Control:
    plan = parse(text).plan
    assert isinstance(plan, Plan)
    return control_of(flow_of(plan))


def test_steps_skipped_by_jump_depend_on_it() -> None:
    found = control('S1: ?IF ($a == "x") THEN GOTO S3\nS2: @A > $y\nS3: @B > $z\nS4: @RESPOND ($y)')
    assert found.guards() == [[0], [0], [], []]
    assert found.variables(0) == {"y"}


def test_guarded_call_controls_only_itself() -> None:
    found = control('S1: ?IF ($a == "x") THEN @A > $y\nS2: @B > $z\nS3: @RESPOND ($y)')
    assert found.guards() == [[0], [], []]
    assert found.variables(0) == {"y"}


def test_steps_after_guarded_end_depend_on_it() -> None:
    found = control('S1: ?IF ($a == "x") THEN TERMINATE ("no")\nS2: @B > $z\nS3: @RESPOND ("ok")')
    assert found.guards()[1:] == [[0], [0]]


def test_failure_with_jump_controls() -> None:
    found = control('S1: @A > $x ON_FAIL GOTO S3\nS2: @B > $y\nS3: @RESPOND ("ok")')
    assert found.guards() == [[], [0], []]


def test_possibly_empty_respond_controls_later_steps() -> None:
    found = control('S1: @RESPOND ($x)\nS2: @B > $y\nS3: @RESPOND ("ok")')
    assert found.guards()[1] == [0]


def test_group_member_controls_after_group() -> None:
    found = control(
        '@PARALLEL {\nS1: @A > $x ON_FAIL TERMINATE ("no")\nS2: @B > $y\n}\nS3: @C > $z\nS4: @RESPOND ("ok")'
    )
    assert found.guards() == [[], [], [0], [0]]


def test_nested_guards_count() -> None:
    found = control(
        'S1: ?IF ($a == 1) THEN TERMINATE ("1")\nS2: ?IF ($b == 1) THEN TERMINATE ("2")\nS3: @A > $x\n'
        'S4: @RESPOND ("ok")'
    )
    assert found.guards()[2] == [1]


def test_loop_steps_are_cyclic_and_others_are_not() -> None:
    found = control(
        'S1: @A > $x\nS2: ?IF ($x == "wait") THEN GOTO S1\nS3: @RESPOND ($x)',
    )
    assert list(found.in_cycle[:3]) == [1, 1, 0]
    assert found.guards()[0] == [1]


def test_steps_that_cannot_reach_end_are_known() -> None:
    found = control("S1: ?IF ($q == 1) THEN GOTO S4\nS2: @A > $x\nS3: GOTO S2\nS4: @RESPOND ($x)")
    assert list(found.can_end[:4]) == [1, 0, 0, 1]


def reaches(flow: Flow, start: int, avoided: int) -> set[int]:
    """The nodes reachable from a node on paths that avoid another."""
    seen, stack = {start}, [start]
    while stack:
        for node in flow.successors[stack.pop()]:
            if node not in seen and node != avoided:
                seen.add(node)
                stack.append(node)
    return seen


@settings(max_examples=60, deadline=None)
@given(plans())
def test_step_depends_on_branch_with_unavoidable_and_avoidable_path(plan: Plan) -> None:
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
def test_long_guarded_plan_takes_bounded_time(count: int) -> None:
    lines = [f'S{n}: ?IF ($a == {n}) THEN TERMINATE ("{n}")' for n in range(1, count)]
    found = control("\n".join([*lines, f"S{count}: @RESPOND ($a)"]))
    assert sum(map(len, found.guards())) < 3 * count
