"""No plan that leaks or destroys is accepted, and no harmless one is refused."""

from __future__ import annotations

from dataclasses import replace

from tests.passes.verify.held import held

from callsheet.ir import Goto, Order, Plan, Replan, Step
from callsheet.passes.verify import verify


def test_plans_have_expected_verdicts() -> None:
    verdicts = {case.name: (case.must_run, verify(case.plan, case.policy)) for case in held()}
    wrong = {
        name: [str(violation) for violation in verdict.violations]
        for name, (must_run, verdict) in verdicts.items()
        if verdict.ok is not must_run
    }
    assert wrong == {}


def test_refusals_for_want_of_declaration_name_it() -> None:
    verdicts = {case.name: verify(case.undeclared, case.policy) for case in held() if case.undeclared}
    assert verdicts
    assert [
        name
        for name, verdict in verdicts.items()
        if not verdict.ok and not any("reads=" in (violation.help or "") for violation in verdict.violations)
    ] == []


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


def test_leaking_plans_are_refused_as_graphs_too() -> None:
    graphs = [(case, as_graph(case.plan)) for case in held() if not case.must_run]
    made = [(case, graph) for case, graph in graphs if graph is not None]
    assert len(made) > 500
    assert [case.name for case, graph in made if verify(graph, case.policy).ok] == []


def test_case_names_are_unique() -> None:
    names = [case.name for case in held()]
    assert len(names) == len(set(names))
