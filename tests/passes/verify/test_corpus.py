"""No plan that leaks or destroys is accepted, and no harmless one is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.passes.verify.held import Held, held

from callsheet.ir import Goto, Order, Plan, Replan, Step
from callsheet.passes.verify import verify


@pytest.mark.parametrize("case", held(), ids=lambda case: case.name.replace("\\", ""))
def test_plan_has_expected_verdict(case: Held) -> None:
    verdict = verify(case.plan, case.policy)
    assert verdict.ok is case.must_run, [str(violation) for violation in verdict.violations]


@pytest.mark.parametrize("case", [c for c in held() if c.undeclared], ids=lambda c: c.name.replace("\\", ""))
def test_refusal_for_want_of_declaration_names_it(case: Held) -> None:
    assert case.undeclared is not None
    verdict = verify(case.undeclared, case.policy)
    assert verdict.ok or any("reads=" in (violation.help or "") for violation in verdict.violations)


def as_graph(plan: Plan) -> Plan | None:
    """The plan as a graph of the same order; None for one with jumps or blocks, which graphs do not have."""
    if plan.order is Order.DAG:
        return plan
    made: list[Step] = []
    for step in plan.steps:
        jumps = isinstance(step.action, Goto | Replan) or (step.on_fail is not None and step.on_fail.then)
        if jumps or step.group is not None:
            return None
        made.append(replace(step, depends_on=(made[-1].id,) if made else ()))
    return replace(plan, steps=tuple(made), order=Order.DAG)


@pytest.mark.parametrize(
    "case", [c for c in held() if not c.must_run], ids=lambda c: c.name.replace("\\", "")
)
def test_leaking_plans_are_refused_as_graphs_too(case: Held) -> None:
    graph = as_graph(case.plan)
    assert graph is None or not verify(graph, case.policy).ok


def test_case_names_are_unique() -> None:
    names = [case.name for case in held()]
    assert len(names) == len(set(names))
