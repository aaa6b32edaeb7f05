"""Laws of the checks for any plan; their time grows linearly with the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.growth import seconds
from tests.plans import plan_of, plan_texts
from tests.strategies import ids, plans

from callsheet.diagnostics import CODES, Severity
from callsheet.ir import (
    Action,
    Call,
    DictExpr,
    Goto,
    Literal,
    NotEmpty,
    OnFail,
    Order,
    Output,
    Plan,
    Ref,
    Respond,
    Step,
)
from callsheet.ir.flow import flow_of
from callsheet.passes import ToolSignature, check, findings
from callsheet.passes.pipeline import errors

LAWS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOOLS = {
    "READ_FILE": ToolSignature.from_schema({"properties": {"a": {"type": "integer"}}, "required": ["a"]})
}


@given(plans())
@LAWS
def test_any_plan_can_be_checked_and_codes_are_in_table(plan: Plan) -> None:
    """check never raises, uses only codes of the table, and its steps are those of the plan."""
    found = check(plan, tools=TOOLS, inputs={"a"})

    assert {d.code for d in found} <= set(CODES)
    assert {d.step for d in found} - {None} <= {step.id for step in plan.steps}
    assert found == check(plan, tools=TOOLS, inputs={"a"})


@given(plans(), st.lists(st.lists(ids(), max_size=3).map(tuple), min_size=4, max_size=4))
@LAWS
def test_any_graph_can_be_checked(plan: Plan, waits: list[tuple[str, ...]]) -> None:
    steps = tuple(replace(s, depends_on=w, group=None) for s, w in zip(plan.steps, waits, strict=False))
    assert {d.code for d in check(Plan(steps, order=Order.DAG))} <= set(CODES)


def _errors_agree(plan: Plan) -> None:
    found = findings(plan, inputs={"a"})
    assert errors(plan, flow_of(plan), inputs={"a"}) == tuple(
        f for f in found if f.severity is Severity.ERROR
    )


def _step(step_id: str, action: Action, output: str | None = None, waits: tuple[str, ...] = ()) -> Step:
    return Step(step_id, action, output=None if output is None else Output(output), depends_on=waits)


WRONG = {
    "CHK016": Plan((Step("S1", Call("A")), Step("S1", Call("B")))),
    "CHK020": Plan(
        (Step("S1", Call("A"), output=Output("a"), group=1), Step("S2", Call("B", (Ref("a"),)), group=1))
    ),
    "CHK012": Plan((Step("S1", Goto("S9")),)),
    "CHK013": Plan((Step("S1", Goto("S1")),)),
    "CHK042": Plan((Step("S1", Call("LLM_CLASSIFY", (Ref("x"),))),)),
    "CHK001": Plan((_step("1", Call("A", (Ref("x"),))),), Order.DAG),
    "CHK061": Plan((_step("1", Call("A"), waits=("1",)),), Order.DAG),
    "CHK063": Plan((_step("1", Call("A"), "v"), _step("2", Call("B"), "v")), Order.DAG),
    "CHK064": Plan(
        (_step("1", Call("A", (Ref("v", ("b",)),))),),
        Order.DAG,
        variables=(("v", DictExpr((("a", Literal(1)),))),),
    ),
}


@pytest.mark.parametrize("code", WRONG)
def test_errors_only_checks_include_every_error_check(code: str) -> None:
    plan = WRONG[code]
    assert code in {found.code for found in errors(plan, flow_of(plan))}
    _errors_agree(plan)


@given(plans())
@LAWS
def test_errors_only_results_are_subset_of_findings(plan: Plan) -> None:
    _errors_agree(plan)


@given(plan_texts())
@LAWS
def test_errors_only_equals_errors_in_plans_that_run(text: str) -> None:
    _errors_agree(plan_of(text))


@given(plans(), st.lists(st.lists(ids(), max_size=3).map(tuple), min_size=4, max_size=4))
@LAWS
def test_errors_only_equals_errors_in_graphs(plan: Plan, waits: list[tuple[str, ...]]) -> None:
    steps = tuple(replace(s, depends_on=w, group=None) for s, w in zip(plan.steps, waits, strict=False))
    _errors_agree(Plan(steps, order=Order.DAG))


def _chain(count: int) -> Plan:
    calls = [
        Step(
            f"S{i}", Call("T", (Ref(f"v{i - 1}"),)), output=Output(f"v{i}"), on_fail=OnFail(None, Goto("S9"))
        )
        for i in range(count)
    ]
    return Plan((*calls, Step("end", Respond((Ref("v3"),)))))


def _skipping(count: int) -> Plan:
    """Every second step may be skipped, and reads variables set much earlier."""
    return Plan(
        tuple(
            Step(f"S{i}", Goto(f"S{i + 2}"), condition=NotEmpty(Ref(f"v{i // 2}")))
            if i % 2
            else Step(f"S{i}", Call("T", (Ref(f"v{i // 3}"),)), output=Output(f"v{i}"))
            for i in range(count)
        )
    )


def _one_variable(count: int) -> Plan:
    guard = NotEmpty(Ref("a"))
    return Plan(tuple(Step(f"S{i}", Call("T"), condition=guard, output=Output("a")) for i in range(count)))


def _unknown(count: int) -> Plan:
    return Plan(
        tuple(Step(f"S{i}", Call("T", (Ref(f"u{i}"),)), output=Output(f"v{i}")) for i in range(count))
    )


def _group(count: int) -> Plan:
    return Plan(
        tuple(
            Step(f"S{i}", Call("T", (Ref(f"v{i - 1}"),)), output=Output(f"v{i}"), group=1)
            for i in range(count)
        )
    )


def _graph(count: int) -> Plan:
    return Plan(
        tuple(
            Step(
                f"S{i}",
                Call("T", (Ref("v0"),)),
                output=Output(f"v{i}"),
                depends_on=(f"S{i - 1}",) if i else (),
            )
            for i in range(count)
        ),
        order=Order.DAG,
    )


@pytest.mark.parametrize("build", [_chain, _skipping, _one_variable, _unknown, _group, _graph])
def test_checking_time_is_subquadratic(build: Callable[[int], Plan]) -> None:
    def checking(count: int) -> float:
        plan = build(count)
        return seconds(lambda: check(plan))

    check(build(100))
    assert checking(8_000) < 30 * max(checking(1_000), 0.02)
