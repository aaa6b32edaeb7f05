"""Control flow, definitions and dominators of plans."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.strategies import plans

from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.ir.flow import Flow, Place, feeders, flow_of, uses_of
from callsheet.ir.graphs import immediate_dominators


def plan_of(text: str) -> Plan:
    plan = parse(text).plan
    assert plan is not None
    return plan


def flow(text: str) -> Flow:
    return flow_of(plan_of(text))


def test_steps_are_sequential() -> None:
    assert flow("S1: @A ()\nS2: @B ()").successors == [[1], [2], [], [0]]


def test_failure_leads_elsewhere_or_to_end() -> None:
    text = 'S1: @A () ON_FAIL GOTO S3\nS2: @B () ON_FAIL TERMINATE ("x")\nS3: @C ()'
    assert flow(text).successors[:3] == [[2, 1], [3, 2], [3]]


def test_guarded_jump_falls_through_and_unguarded_does_not() -> None:
    assert flow("S1: ?IF ($a == 1) THEN GOTO S3\nS2: GOTO S1\nS3: @A ()").successors[:2] == [[2, 1], [0]]


def test_member_jumps_start_at_end_of_group() -> None:
    text = "@PARALLEL {\nS1: @A () ON_FAIL GOTO S4\nS2: @B ()\n}\nS3: @C ()\nS4: @D ()"
    assert flow(text).successors[:2] == [[1], [3, 2]]


def test_members_after_unconditional_control_add_no_successors() -> None:
    text = '@PARALLEL {\nS1: @A () ON_FAIL GOTO S4\nS2: TERMINATE ("x")\nS3: GOTO S1\n}\nS4: @C ()'
    assert flow(text).successors[2] == [3, 4]


def test_jump_into_group_runs_target_and_later_members() -> None:
    text = '@PARALLEL {\nS1: TERMINATE ("x")\nS2: @A ()\n}\nS3: ?IF ($a == 1) THEN GOTO S2\nS4: @C ()'
    assert flow(text).successors[1] == [4, 2]
    assert flow(text.replace("GOTO S2", "GOTO S1")).successors[1] == [4]


def test_respond_falls_through_only_if_possibly_empty() -> None:
    maybe, never = flow("S1: @RESPOND ($a)\nS2: @A ()"), flow('S1: @RESPOND ("x $a")\nS2: @A ()')

    assert (maybe.successors[0], maybe.if_empty) == ([2, 1], {0})
    assert (never.successors[0], never.if_empty) == ([2], set())


def test_member_outputs_are_set_after_group() -> None:
    text = "@PARALLEL {\nS1: @A () > $a\nS2: ?IF ($x == 1) THEN @B () > $b\n}\nS3: @C ($a)"
    found = flow(text).definitions
    assert [(d.step, d.committed, d.sure) for d in (*found["a"], *found["b"])] == [
        (0, 1, True),
        (1, 1, False),
    ]


def test_jump_into_group_skips_earlier_members() -> None:
    text = "@PARALLEL {\nS1: @A () > $a\nS2: @B () > $b\n}\nS3: ?IF ($a == 1) THEN GOTO S2"
    found = flow(text).definitions
    assert [found["a"][0].sure, found["b"][0].sure] == [False, True]


def test_step_does_not_read_its_own_output() -> None:
    text = 'S1: ?FOREACH ($i IN $l) THEN ?IF ($i == $c) THEN @A ($i, $x) > $o ON_FAIL TERMINATE ("$o $i $m")'
    step = plan_of(text).steps[0]
    assert [(u.ref.name, u.place) for u in uses_of(step, 0)] == [
        ("l", Place.SOURCE),
        ("c", Place.CONDITION),
        ("x", Place.ARGUMENTS),
        ("m", Place.FAILURE),
    ]


def test_feeders_are_nearest_steps_above_that_may_have_set_variable() -> None:
    text = (
        "S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B () > $a\nS3: @C ($a) > $c\n"
        "S4: @D () > $a\nS5: @RESPOND ($a, $c)"
    )
    assert feeders(plan_of(text)) == [[], [0], [0, 1], [], [2, 3]]


def _reached_without(successors: list[list[int]], root: int, left_out: int) -> set[int]:
    seen, stack = {root}, [root]
    while stack:
        for following in successors[stack.pop()]:
            if following not in seen and following != left_out:
                seen.add(following)
                stack.append(following)
    return seen


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
@settings(max_examples=150, deadline=None)
def test_dominator_is_on_every_path(successors: list[list[int]]) -> None:
    """The ancestors in the tree are exactly the nodes whose removal disconnects a node from the root."""
    dominator = immediate_dominators(successors, 0)
    reached = _reached_without(successors, 0, -1)

    for node in range(1, len(successors)):
        above: set[int] = set()
        at = dominator[node]
        while at > 0:
            above.add(at)
            at = dominator[at]
        cutting = {
            other
            for other in range(1, len(successors))
            if other != node and node not in _reached_without(successors, 0, other)
        }
        assert above == (cutting if node in reached else set())


@given(plans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_edges_stay_in_plan_and_end_has_no_successor(plan: Plan) -> None:
    found = flow_of(plan)

    assert found.successors[found.end] == []
    assert found.predecessors[found.entry] == []
    assert all(0 <= node <= found.end for followers in found.successors for node in followers)
    assert all(found.successors[number] for number in range(len(plan.steps)))
    assert sum(map(len, found.successors)) == sum(map(len, found.predecessors)) <= 4 * len(plan.steps) + 1
