"""Dry runs of the area `dag`: compares a forecast with what a case expects.

The forecast is pure, so it makes no calls. Whether files are left behind is checked with the documented
runner, in a folder of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.dag_form import DagCase, spellings
from tests.conformance.findings import difference

from callsheet.ir import Plan
from callsheet.machine.forecasting import Fields, Forecast, Foreseen, Items, Text, Unknown, foresee
from callsheet.planning import PlanExecutionResult, PlanningContext, PlanRunner

_Look = Callable[[DagCase, Forecast], Any]


def dry_run_case(case: DagCase, plan: Plan) -> list[str]:
    """The unmet expectations of a case."""
    forecast = foresee(plan, case.inputs)
    out: list[str] = []
    for key, wanted in case.expect.items():
        if key == "batches":
            continue
        if key not in _LOOKS:
            out.append(f"the expectation {key!r} is not looked at yet")
            continue
        found = _LOOKS[key](case, forecast)
        if isinstance(wanted, dict) and key != "variables_exact":
            found = {name: found.get(name) for name in wanted}
        if found != wanted:
            out.append(difference(key, wanted, found))
    return out


def _names(case: DagCase) -> dict[str, str]:
    return spellings(case.plan["steps"])


def _args(case: DagCase, forecast: Forecast) -> dict[str, Any]:
    names = _names(case)
    return {
        call.step.id: {name: _plain(value, names) for name, value in call.visits[0].arguments}
        for call in forecast.calls()
    }


def _plain(value: Foreseen, names: Mapping[str, str]) -> Any:
    """A forecast value with its placeholders as texts that name tools as the case does."""
    match value:
        case Unknown():
            tool, _, rest = str(value)[1:].partition(" ")
            return f"<{names.get(tool, tool)} {rest}"
        case Text(parts=parts):
            return "".join(part if isinstance(part, str) else _plain(part, names) for part in parts)
        case Items(items=items):
            return [_plain(item, names) for item in items]
        case Fields(pairs=pairs):
            return {name: _plain(item, names) for name, item in pairs}
        case _:
            return value


def _documented(case: DagCase) -> tuple[PlanExecutionResult, list[str]]:
    """The result of the documented runner, with checkpoints enabled, and the files that it leaves."""

    def no_tool(name: str, arguments: dict[str, Any]) -> None:
        raise AssertionError(f"{name} was called")

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        context = PlanningContext(no_tool, plans_dir=f"{folder}/plans")
        done = asyncio.run(PlanRunner(context).execute_plan(case.plan, case.inputs, dry_run=True))
        assert done.success, done.error
        return done, os.listdir(folder)


def _steps(case: DagCase) -> dict[str, Any]:
    return {step.step_index: {"success": step.success} for step in _documented(case)[0].steps}


_LOOKS: Mapping[str, _Look] = {
    "state": lambda case, forecast: _documented(case)[1] or None,
    "variables": lambda case, forecast: _documented(case)[0].variables,
    "variables_exact": lambda case, forecast: _documented(case)[0].variables,
    "steps": lambda case, forecast: _steps(case),
    "replanned": lambda case, forecast: _documented(case)[0].replanned,
    "order": lambda case, forecast: [step.step.id for step in forecast.steps],
    "calls": lambda case, forecast: [],
    "success": lambda case, forecast: len(forecast.steps) == len(case.plan["steps"]),
    "call_count": lambda case, forecast: 0,
    "budget_used": lambda case, forecast: 0,
    "steps_marked_dry": lambda case, forecast: [step.step.id for step in forecast.steps],
    "dry_args": _args,
    "args": _args,
    "dry_deps": lambda case, forecast: {s.step.id: list(s.depends_on) for s in forecast.steps},
    "dry_tools": lambda case, forecast: {s.step.id: _names(case)[s.tool or ""] for s in forecast.calls()},
}
