"""The layout of a plan diagram: positions of steps and lanes of arrows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.plans import plan_of, plan_texts

from callsheet.frontends.ltp import parse
from callsheet.ir import Call, Order, Plan, Step
from callsheet.views.lanes import MOST_COLUMNS, ArrowKind, Layout, layout_of

JUMPS = (ArrowKind.GOTO, ArrowKind.FAIL)


def holds(plan: Plan, made: Layout) -> None:
    """The properties of the layout of every plan."""
    assert len(made.places) == len(plan.steps)
    assert len(set(made.places)) == len(plan.steps)
    assert all(0 <= row < made.rows and 0 <= column < made.columns for row, column in made.places)
    assert made.columns <= MOST_COLUMNS
    taken: dict[tuple[bool, int, int], int] = {}
    for start, end, kind, lane in made.arrows:
        rows = sorted((made.places[start][0], made.places[end][0]))
        if lane == 0:
            assert kind not in JUMPS
            assert made.places[end][0] == made.places[start][0] + 1
            continue
        assert lane <= (made.right if kind in JUMPS else made.left)
        for row in range(rows[0], rows[1] + 1):
            assert taken.setdefault((kind in JUMPS, lane, row), start) == start


@given(plan_texts())
def test_steps_never_share_position_and_buses_never_share_lane(text):
    plan = plan_of(text)
    holds(plan, layout_of(plan))


@given(st.lists(st.sets(st.integers(0, 11), max_size=4), max_size=12))
def test_steps_are_below_their_dependencies_in_any_graph(waits):
    steps = [
        Step(f"s{n}", Call("X"), depends_on=tuple(f"s{other}" for other in sorted(waited) if other < n))
        for n, waited in enumerate(waits)
    ]
    plan = Plan(tuple(steps), Order.DAG)
    made = layout_of(plan)
    holds(plan, made)
    assert all(made.places[a.start][0] < made.places[a.end][0] for a in made.arrows)
    assert {(a.start, a.end) for a in made.arrows} == {
        (other, n) for n, waited in enumerate(waits) for other in waited if other < n
    }


def test_group_members_are_side_by_side_and_jumps_on_right():
    plan = parse(
        "# ltp: 1\nPLAN_START\nS1: @A > $a\n@PARALLEL {\nS2: @B ($a) > $b\nS3: @C > $c\n}\n"
        "S4: @D ($a, $b) > $d ON_FAIL GOTO S1\nPLAN_END\n"
    ).require()
    made = layout_of(plan)
    assert made.places == ((0, 0), (1, 0), (1, 1), (2, 0))
    assert [(a.start, a.end, a.lane) for a in made.arrows if a.kind is ArrowKind.FAIL] == [(3, 0, 1)]
    assert [(a.start, a.end, a.lane) for a in made.arrows if a.kind is ArrowKind.DATA] == [
        (0, 1, 0),
        (0, 3, 1),
        (1, 3, 0),
    ]
    assert (made.left, made.right) == (1, 1)


def test_wide_level_continues_in_next_row():
    plan = Plan(tuple(Step(f"s{n}", Call("X"), depends_on=()) for n in range(20)), Order.DAG)
    made = layout_of(plan)
    holds(plan, made)
    assert made.rows == 4


def test_plan_without_steps_has_no_rows():
    assert layout_of(Plan(())).rows == 0
