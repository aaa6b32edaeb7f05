"""The area `dag`: runs one case against this checkout.

In: a case. Out: its differences, one text each; none means that it passes. A plan is parsed and checked
first; a refused plan has its outcome at once. A mode of running that is not supported here is a difference;
new modes are added to `RUNNERS`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.conformance.dag_dry import dry_run_case
from tests.conformance.dag_form import DagCase
from tests.conformance.dag_pictures import RENDERINGS, batch_differences, picture_differences
from tests.conformance.dag_runs import run_case, run_stages
from tests.conformance.dag_tools import plan_tool_case, tool_schemas_case
from tests.conformance.findings import difference, shown

from callsheet.diagnostics import Diagnostic, render_all
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan, canonical_tool_name
from callsheet.passes import ToolSignature, check
from callsheet.store.library import PlanLibrary

Runner = Callable[[DagCase, Plan], list[str]]


def differences(case: DagCase, runners: Mapping[str, Runner] | None = None) -> list[str]:
    """What speaks against a case; an empty list where it is met.

    `runners` carry out plans by mode, by default those of virtual time.
    """
    try:
        if case.mode in PLAN_TOOLS:
            return PLAN_TOOLS[case.mode](case)
        plan, wrong = _read(case)
        if wrong or plan is None:
            return _refused(case, wrong)
        if case.expect.get("invalid"):
            return [difference("plan", "a refusal", "a plan without errors")]
        return batch_differences(plan, case.expect) + (runners or RUNNERS).get(case.mode, _cannot_run)(
            case, plan
        )
    except Exception as error:
        return [f"{type(error).__name__} was raised: {shown(str(error))}"]


def _read(case: DagCase) -> tuple[Plan | None, tuple[str, ...]]:
    """The plan of a case and its errors as users see them."""
    result = parse_dag(json.dumps(case.plan, ensure_ascii=False, indent=1))
    if result.plan is None:
        return None, _errors(result.diagnostics)
    if case.mode == "render":
        return result.plan, ()  # a picture shows what is wrong too
    tools: Mapping[str, ToolSignature] | None = None
    if case.catalogue is not None:
        tools = {canonical_tool_name(name): ToolSignature() for name in case.catalogue}
    found = check(result.plan, tools=tools, inputs=case.inputs)
    return result.plan, tuple(render_all([d], result.source) for d in found if d.is_error)


def _errors(diagnostics: tuple[Diagnostic, ...]) -> tuple[str, ...]:
    return tuple(render_all([d]) for d in diagnostics if d.is_error)


_OF_A_REFUSAL: Mapping[str, Callable[[Any, str], bool]] = {
    "invalid": lambda wanted, said: wanted is True,
    "success": lambda wanted, said: wanted is False,
    "call_count": lambda wanted, said: wanted == 0,
    "calls": lambda wanted, said: not wanted,
    "not_called": lambda wanted, said: True,
    "no_literal_refs": lambda wanted, said: True,
    "no_escape": lambda wanted, said: True,
    "error_contains": lambda wanted, said: wanted in said,
    "state": lambda wanted, said: wanted is None,
    "steps": lambda wanted, said: not any(step.get("success") for step in wanted.values()),
    "planner_calls": lambda wanted, said: wanted == 0,
    "replanned": lambda wanted, said: wanted is False,
    "budget_used": lambda wanted, said: wanted == 0,
    "stages": lambda wanted, said: not any(_speaking_against(stage, said) for stage in wanted),
}
"""What is true of a plan that is refused before anything runs: no call is made, no file written."""


def _refused(case: DagCase, errors: tuple[str, ...]) -> list[str]:
    return _speaking_against(case.expect, "\n".join(errors))


def _speaking_against(expect: Mapping[str, Any], said: str) -> list[str]:
    return [
        difference(key, wanted, f"the plan was refused: {said}")
        for key, wanted in expect.items()
        if key not in _OF_A_REFUSAL or not _OF_A_REFUSAL[key](wanted, said)
    ]


# ---------------------------------------------------------------- modes


def _cannot_run(case: DagCase, plan: Plan) -> list[str]:
    return _unsupported(case)


def _unsupported(case: DagCase) -> list[str]:
    undecided = sorted(case.expect.keys() - {"batches"})
    return [f"mode {case.mode} is not supported yet: {', '.join(undecided)} not looked at"]


def _render(case: DagCase, plan: Plan) -> list[str]:
    unknown = sorted(case.expect.keys() - RENDERINGS - {"batches"})
    return [f"the expectation {key!r} is unknown for mode render" for key in unknown] + picture_differences(
        case.plan, case.expect
    )


def _save_load(case: DagCase, plan: Plan) -> list[str]:
    """The plan after a round trip through the library."""
    with tempfile.TemporaryDirectory() as folder:
        stored = PlanLibrary(folder).save(plan)
        again = PlanLibrary(folder).load(stored.id)
    saved = json.loads(again.text)
    out: list[str] = []
    if replace(again.require(), id=plan.id) != plan:
        out.append(difference("the plan that was read again", plan, again.require()))
    waits = {step["index"]: step["depends_on"] for step in saved["steps"]}
    for index, wanted in case.expect.get("saved_depends_on", {}).items():
        if waits.get(index) != wanted:
            out.append(difference(f"depends_on of step {index}", wanted, waits.get(index)))
    if saved.get("id") != case.expect.get("saved_id", saved.get("id")):
        out.append(difference("id", case.expect["saved_id"], saved.get("id")))
    return out


PLAN_TOOLS: Mapping[str, Callable[[DagCase], list[str]]] = {
    "plan_tool": plan_tool_case,
    "tool_schemas": tool_schemas_case,
}
"""What carries out the modes of the plan tools, whose plans come from a planner."""

RUNNERS: dict[str, Runner] = {
    "render": _render,
    "save_load": _save_load,
    "run": run_case,
    "stages": run_stages,
    "dry_run": dry_run_case,
}
"""What carries out an accepted plan, by mode."""
