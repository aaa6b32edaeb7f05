"""Laws of plan differences: none to itself, and applying one to the old plan gives the new plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.ir import Call, Goto, Literal, OnFail, Output, Plan, Ref, Step, plan_hash
from callsheet.ir.diff import diff_plans
from ir.diff.applying import applied
from strategies import plans, steps

slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)


def renumbered_groups(plan: Plan) -> Plan:
    """The plan with its groups numbered in the order of the text."""
    numbers: dict[int, int] = {}
    out: list[Step] = []
    for step in plan.steps:
        group = None if step.group is None else numbers.setdefault(step.group, len(numbers))
        out.append(replace(step, group=group))
    return replace(plan, steps=tuple(out))


def is_same(old: Plan, new: Plan) -> bool:
    return plan_hash(renumbered_groups(old)) == plan_hash(renumbered_groups(new))


@st.composite
def edits(draw: st.DrawFn) -> tuple[Plan, Plan]:
    """A plan and the same plan after a few edits."""
    old = draw(plans(max_steps=6))
    new = list(old.steps)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(new)))
        match draw(st.sampled_from(["add", "remove", "move", "change", "rename", "number"])):
            case "add":
                new.insert(place, replace(draw(steps()), id=draw(st.sampled_from(["N1", "S1", "S2", "S3"]))))
            case "remove" if new:
                new.pop(place - 1)
            case "move" if new:
                new.insert(place - 1, new.pop())
            case "change" if new:
                new[place - 1] = replace(draw(steps()), id=new[place - 1].id, group=new[place - 1].group)
            case "rename" if new:
                new[place - 1] = replace(new[place - 1], id=draw(st.sampled_from(["S1", "S2", "S9", "X"])))
            case "number":
                new = [replace(step, id=f"S{n}") for n, step in enumerate(new, 1)]
            case _:
                pass
    return old, replace(old, steps=tuple(new), goal=draw(st.sampled_from([old.goal, "new"])))


@given(plans(max_steps=6))
@slow
def test_plan_does_not_differ_from_itself(plan: Plan) -> None:
    """diff(p, p) is empty for every p."""
    assert diff_plans(plan, plan).is_same


@given(st.tuples(plans(), plans()) | edits())
@slow
def test_difference_is_empty_only_for_equal_plans(pair: tuple[Plan, Plan]) -> None:
    assert diff_plans(*pair).is_same == is_same(*pair)


@given(st.tuples(plans(), plans()) | edits())
@slow
def test_applying_difference_to_old_plan_gives_new_plan(pair: tuple[Plan, Plan]) -> None:
    """apply(diff(a, b), a) == b, up to the numbers of groups with the same members."""
    old, new = pair
    made = applied(diff_plans(old, new))
    without_groups = [replace(p, steps=tuple(replace(s, group=None) for s in p.steps)) for p in (made, new)]
    assert plan_hash(without_groups[0]) == plan_hash(without_groups[1])


@given(plans(max_steps=6), st.integers(0, 5))
@slow
def test_id_renamed_with_references_is_one_rename(plan: Plan, place: int) -> None:
    was = plan.steps[place % len(plan.steps)].id

    def follow(step: Step) -> Step:
        action, on_fail = step.action, step.on_fail
        if isinstance(action, Goto) and action.target == was:
            action = Goto("renamed")
        if on_fail is not None and isinstance(on_fail.then, Goto) and on_fail.then.target == was:
            on_fail = OnFail(on_fail.retry, Goto("renamed"))
        return replace(step, id="renamed" if step.id == was else step.id, action=action, on_fail=on_fail)

    diff = diff_plans(plan, replace(plan, steps=tuple(map(follow, plan.steps))))
    (found,) = diff.different()
    assert found.is_renamed
    assert (found.changes, found.moved, diff.head) == ((), False, ())


@given(edits())
@slow
def test_every_step_is_listed_once(pair: tuple[Plan, Plan]) -> None:
    old, new = pair
    diff = diff_plans(old, new)
    assert sorted(s.old_index for s in diff.steps if s.old_index is not None) == list(range(len(old.steps)))
    assert [s.new_index for s in diff.steps if s.new_index is not None] == list(range(len(new.steps)))


# ---------------------------------------------------------------- time


def chain(count: int, shift: int = 0, salt: str = "") -> Plan:
    def step(n: int) -> Step:
        call = Call("X", (Ref(f"v{n - 1}"),), (("n", Literal(f"{salt}{n}")),))
        return Step(f"S{n + shift}", call, output=Output(f"v{n}"))

    return Plan(tuple(step(n) for n in range(count)))


@pytest.mark.parametrize("kind", ["same", "edited", "shifted", "reversed", "nothing in common", "all alike"])
def test_time_is_roughly_linear(kind: str) -> None:
    """Ten times the steps take less than forty times as long; quadratic time would be a hundred."""

    def pair(count: int) -> tuple[Plan, Plan]:
        old = chain(count)
        match kind:
            case "same":
                return old, chain(count)
            case "edited":
                return old, chain(count, salt="x")
            case "shifted":
                return old, Plan((Step("S0", Call("NEW")), *chain(count, shift=1).steps))
            case "reversed":
                return old, Plan(tuple(reversed(old.steps)))
            case "nothing in common":
                return old, Plan(tuple(Step(f"T{n}", Call("Y", (Literal(-n),))) for n in range(count)))
            case _:
                alike = Call("X")
                return tuple(Plan(tuple(Step(f"{a}{n}", alike) for n in range(count))) for a in "ab")  # type: ignore[return-value]

    def comparing(count: int) -> float:
        plans = pair(count)
        return seconds(lambda: diff_plans(*plans))

    comparing(100)
    small = min(comparing(400) for _ in range(3))
    assert min(comparing(4_000) for _ in range(2)) < 40 * small + 0.05
