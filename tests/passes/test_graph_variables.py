"""Variables in plans of dependencies: findings for everything that timing could change."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.frontends.dag import parse_dag
from callsheet.ir import Call, Literal, Order, Output, Plan, Ref, Respond, Step
from callsheet.passes import check, findings

SMALL = st.integers(1, 5).flatmap(
    lambda size: st.tuples(
        st.lists(st.lists(st.integers(0, 4), max_size=2, unique=True), min_size=size, max_size=size),
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.booleans(),
    )
)


def plan_of(waits: list[list[int]], reads: list[bool], sets: list[bool], given_: bool) -> Plan:
    steps = [
        Step(
            str(at),
            Call("T", (), (("x", Ref("v")),) if reads[at] else ()),
            output=Output("v") if sets[at] else None,
            depends_on=tuple(str(other) for other in waited if other < at),
        )
        for at, waited in enumerate(waits)
    ]
    return Plan(tuple(steps), Order.DAG, (("v", Literal("first")),) if given_ else ())


def histories(plan: Plan) -> set[tuple[object, ...]]:
    """What each step reads, and which steps set the variable one after another, for every order.

    A value that the next setter replaces unread is a part of it: a run that fails before that shows it.
    """
    steps = {step.id: step for step in plan.steps}
    found: set[tuple[object, ...]] = set()
    for order in permutations(steps):
        if all(
            order.index(other) < order.index(step.id)
            for step in plan.steps
            for other in step.depends_on or ()
        ):
            value: object = "first" if plan.variables else "nothing"
            read: dict[str, object] = {}
            setters: list[str] = []
            for id_ in order:
                action = steps[id_].action
                if isinstance(action, Call) and action.named:
                    read[id_] = value
                if steps[id_].output is not None:
                    value = id_
                    setters.append(id_)
            found.add((*sorted(read.items()), tuple(setters)))
    return found


@given(SMALL)
@settings(max_examples=300, deadline=None)
def test_plan_is_refused_iff_step_order_could_matter(
    case: tuple[list[list[int]], list[bool], list[bool], bool],
) -> None:
    """Or if a step reads before anything is set. Steps run one after another here, in any order."""
    plan = plan_of(*case)
    outcomes = histories(plan)
    reads_nothing = any(pair[1] == "nothing" for outcome in outcomes for pair in outcome[:-1])  # type: ignore[index]
    refused = {d.code for d in check(plan)} & {"CHK001", "CHK062", "CHK063"}
    assert bool(refused) == (len(outcomes) > 1 or reads_nothing)


def step(index: str, *waits: str, reads: str | None = None, sets: str | None = None) -> Step:
    named = (("x", Ref(reads)),) if reads else ()
    return Step(index, Call("T", (), named), output=Output(sets) if sets else None, depends_on=waits)


def said(*steps: Step, **more: object) -> list[str]:
    return [f.message for f in findings(replace(Plan(steps, Order.DAG), **more))]  # type: ignore[arg-type]


def test_read_concurrent_with_write_is_refused_despite_initial_value() -> None:
    steps = (step("1", sets="v"), step("2", reads="v"))
    assert said(*steps) == ["2 reads $v and does not wait for 1, which sets it"]
    assert said(*steps, variables=(("v", Literal(1)),)) == [
        "2 reads $v, which 1 may set before or after that"
    ]


def test_self_updating_step_needs_earlier_value() -> None:
    assert said(step("1", reads="v", sets="v")) == ["1 reads $v, and only 1 itself sets it"]
    assert said(step("1", sets="v"), step("2", "1", reads="v", sets="v"), step("3", "2", reads="v")) == []


def test_cycle_is_reported_once_step_by_step() -> None:
    steps = (step("1"), step("2", "1", "4"), step("3", "2"), step("4", "3"), step("5", "4"))
    assert said(*steps) == ["2 waits for 4 waits for 3 waits for 2: none can ever start"]


def test_unknown_variable_is_error_in_graph() -> None:
    plan = Plan((step("1", reads="resutl"), step("2", sets="result")), Order.DAG)
    (found,) = check(plan)
    assert (found.code, found.is_error, found.help) == ("CHK001", True, "did you mean $result?")
    assert check(plan, inputs={"resutl"}) == ()


@pytest.mark.parametrize(
    ("path", "help_"),
    [
        ("api.hots", "did you mean host?"),
        ("api.port.x", "api.port has no parts"),
        ("l.2", "l is a list of 2"),
        ("e.x", "e is empty"),
    ],
)
def test_path_to_nothing_in_initial_variable_lists_keys(path: str, help_: str) -> None:
    variables = '{"api": {"host": "h", "port": 1}, "l": [1, 2], "e": {}, "t": "text"}'
    text = f"""{{"variables": {variables}, "steps": [
        {{"index": "1", "title": "", "tool": "t", "args": {{"x": "a ${{{path}}}"}}, "depends_on": []}}]}}"""
    result = parse_dag(text)
    (found,) = check(result.require())
    assert (found.code, found.help) == ("CHK064", help_)
    assert found.span is not None
    assert text[found.span.start : found.span.end] == f"${{{path}}}"
    assert check(result.require(), inputs={"api", "l", "e"}) == ()


def test_possible_paths_are_not_reported() -> None:
    text = """{"variables": {"t": "{}", "l": [{"a": null}]}, "steps": [
        {"index": "1", "title": "", "tool": "t", "depends_on": [],
         "args": {"x": ["${t.a}", "${l.0.a}", "${l[-1]}"]}}]}"""
    assert check(parse_dag(text).require()) == ()


def test_respond_waits_for_everything() -> None:
    answer = Step("9", Respond((Literal("x"),)), depends_on=("1",))
    assert said(step("1"), answer) == []
    assert said(step("1"), step("2"), answer) == ["9 answers, and 2 does not come before it"]
    assert said(step("1"), answer, step("2", "9")) == ["9 answers, and 2 does not come before it"]


def test_unknown_dependencies_are_marked_at_position() -> None:
    text = """{"steps": [{"index": "read", "title": "", "tool": "t", "args": {}, "depends_on": []},
     {"index": "2", "title": "", "tool": "t", "args": {}, "depends_on": ["read", "raed"]}]}"""
    (found,) = check(parse_dag(text).require())
    assert (found.code, found.help) == ("CHK060", "did you mean read?")
    assert found.span is not None
    assert text[found.span.start : found.span.end] == '"raed"'
