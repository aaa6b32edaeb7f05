"""What a context keeps for its runner and for the plan tools: plans, states of runs, budget, guards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.dag_plans import step

from callsheet import CallsheetError, Limits, PlanLibrary, SharedBudget
from callsheet.planning import (
    McpToolBackend,
    PlanningContext,
    PlanRunner,
    ToolExecutionRequest,
    ToolStateManager,
    compute_batches,
    handle_plan_tool,
    render_plan_dag,
)

LINE = {
    "id": "line",
    "title": "Line",
    "variables": {"where": "here"},
    "steps": [
        step("1", "fetch", var="data", path="${where}"),
        step("2", "shape", "1", var="shaped", data="${data}"),
        step("3", "send", "2", text="${shaped}"),
    ],
}
RING = [step("1", "a", "2"), step("2", "b", "1"), step("3", "c", "2"), step("4", "d")]


class Tools:
    """A tool manager that records its calls."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.called: list[str] = []
        self.told: list[str] = []

    async def execute_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.called.append(name)
        self.told.append(f"call {name}")
        if name in self.failing:
            return {"error": f"{name} is down"}
        return {"of": name, "got": arguments}

    def begins(self, index: str, _title: str, tool: str) -> None:
        self.told.append(f"start {index} {tool}")

    def ends(self, result: Any) -> None:
        self.told.append(f"end {result.step_index} {result.dry_run}")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def a_runner(tools: Tools, folder: Path, limits: Limits | None = None) -> PlanRunner:
    context = PlanningContext(tools, plans_dir=folder, budget=SharedBudget(limits))
    return PlanRunner(context, on_step_start=tools.begins, on_step_complete=tools.ends)


async def test_callbacks_are_told_of_steps_in_the_order_of_the_run(tmp_path: Path) -> None:
    tools = Tools()
    assert (await a_runner(tools, tmp_path).execute_plan(LINE)).success
    calls = enumerate(("fetch", "shape", "send"), start=1)
    told = [(f"start {n} {name}", f"call {name}", f"end {n} False") for n, name in calls]
    assert tools.told == [line for lines in told for line in lines]


async def test_slow_callback_is_told_of_the_end_before_the_next_step_begins(tmp_path: Path) -> None:
    tools = Tools()

    async def slowly(result: Any) -> None:
        await asyncio.sleep(0.02)
        tools.ends(result)

    runner = PlanRunner(PlanningContext(tools, plans_dir=tmp_path), tools.begins, slowly)
    assert (await runner.execute_plan(LINE)).success
    assert [line.split()[0] for line in tools.told] == ["start", "call", "end"] * 3


async def test_dry_run_tells_the_callbacks_of_each_step_and_calls_nothing(tmp_path: Path) -> None:
    tools = Tools()
    assert (await a_runner(tools, tmp_path).execute_plan(LINE, dry_run=True)).success
    told = [(f"start {n} {name}", f"end {n} True") for n, name in ((1, "fetch"), (2, "shape"), (3, "send"))]
    assert tools.told == [line for pair in told for line in pair]
    assert PlanLibrary(tmp_path).ids() == ()
    assert files_in(tmp_path) == []


async def test_spent_budget_can_be_raised_when_a_run_is_resumed(tmp_path: Path) -> None:
    tools = Tools()
    runner = a_runner(tools, tmp_path, Limits(max_calls=2))
    result = await runner.execute_plan(LINE)
    assert (result.success, tools.called) == (False, ["fetch", "shape"])
    assert not (await runner.resume_plan("line")).success
    assert tools.called == ["fetch", "shape"]
    again = await a_runner(tools, tmp_path, Limits(max_calls=1)).resume_plan("line")
    assert (again.success, tools.called) == (True, ["fetch", "shape", "send"])


async def test_failed_plan_of_a_model_can_be_resumed(tmp_path: Path) -> None:
    tools = Tools("shape")
    names = ["fetch", "shape", "send"]
    context = PlanningContext(tools, plans_dir=tmp_path, tools=names, planner=lambda _request: LINE)
    reply = json.loads(await handle_plan_tool("plan_create_and_execute", {"goal": "Send it"}, context))
    assert (reply["success"], tools.called) == (False, ["fetch", "shape"])
    tools.failing.clear()
    result = await PlanRunner(context).resume_plan(reply["plan_id"])
    assert (result.success, result.run_id) == (True, reply["run_id"])
    assert tools.called == ["fetch", "shape", "shape", "send"]


async def test_state_file_is_written_and_is_no_plan_of_the_library(tmp_path: Path) -> None:
    tools = Tools("send")
    context = PlanningContext(tools, plans_dir=tmp_path)
    assert await context.save_plan(LINE) == "line"
    assert not (await PlanRunner(context).execute_plan(LINE, variables={"where": "there"})).success
    state = json.loads((tmp_path / "line_state.json").read_text())
    assert (state["plan_id"], state["status"], state["completed_steps"]) == ("line", "failed", ["1", "2"])
    assert state["variables"]["where"] == "there"
    assert state["variables"]["data"] == {"of": "fetch", "got": {"path": "there"}}
    assert PlanLibrary(tmp_path).ids() == ("line",)
    elsewhere = Tools()
    other = PlanningContext(elsewhere, plans_dir=tmp_path / "other")
    await other.save_plan(LINE)
    taken_over = await PlanRunner(other).resume_plan("line", state=json.dumps(state))
    assert (taken_over.success, elsewhere.called) == (True, ["send"])
    assert json.loads((tmp_path / "other" / "line_state.json").read_text())["status"] == "completed"
    assert await context.delete_plan("line")
    assert "line_state.json" not in files_in(tmp_path)


async def test_plans_are_saved_listed_returned_and_deleted(tmp_path: Path) -> None:
    context = PlanningContext(Tools(), plans_dir=tmp_path)
    assert await context.list_plans() == []
    assert await context.save_plan(json.dumps(LINE)) == "line"
    assert await context.list_plans() == [{"id": "line", "title": "Line", "steps": 3}]
    saved = await context.get_plan("li")
    assert saved is not None
    assert [row["tool"] for row in saved["steps"]] == ["fetch", "shape", "send"]
    assert await context.save_plan({**saved, "title": "Other"}) == "line"
    assert (await context.list_plans())[0]["title"] == "Other"
    assert (await context.delete_plan("line"), await context.delete_plan("line")) == (True, False)
    assert (await context.get_plan("line"), await context.get_plan("../x")) == (None, None)


async def test_context_without_model_says_how_to_give_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CALLSHEET_MODEL", raising=False)
    context = PlanningContext(Tools(), plans_dir=tmp_path)
    reply = json.loads(await handle_plan_tool("plan_create", {"goal": "x"}, context))
    assert reply["code"] == "PLN011"
    assert "model= or planner=" in reply["error"]
    monkeypatch.setenv("CALLSHEET_MODEL", "no-such-provider:model")
    reply = json.loads(await handle_plan_tool("plan_create", {"goal": "x"}, context))
    assert "no-such-provider" in reply["error"]


def test_cycle_is_drawn_as_one_and_has_no_batches() -> None:
    drawn = render_plan_dag({"steps": RING}).splitlines()
    assert [line for line in drawn if "∥" in line] == []
    assert ["never starts: a cycle" in line for line in drawn if line] == [False, True, True, True]
    with pytest.raises(CallsheetError, match="CHK061"):
        compute_batches(RING)


async def test_call_repeated_too_often_is_refused_until_something_else_is_called() -> None:
    tools = Tools()
    guards = ToolStateManager(max_same_calls=2)
    backend = McpToolBackend(tools, guards=guards)
    looking = ToolExecutionRequest("look", {"at": 1})
    results = [await backend.execute_tool(looking) for _ in range(3)]
    assert [result.success for result in results] == [True, True, False]
    assert "2 times in a row" in (results[2].error or "")
    assert (await backend.execute_tool(ToolExecutionRequest("look", {"at": 2}))).success
    assert (await backend.execute_tool(looking)).success
    assert guards.budget.used.calls == 4
    assert not McpToolBackend(tools, enable_guards=False).guards.bindings


async def test_results_are_bound_for_later_arguments(tmp_path: Path) -> None:
    tools = Tools()
    context = PlanningContext(tools, plans_dir=tmp_path)
    assert (await PlanRunner(context).execute_plan(LINE)).success
    assert [(name, bound.tool) for name, bound in context.guards.bindings.items()] == [
        ("v1", "fetch"),
        ("v2", "shape"),
        ("v3", "send"),
    ]
    backend = McpToolBackend(tools, guards=context.guards)
    used = await backend.execute_tool(ToolExecutionRequest("use", {"it": "$v1", "text": ["a $v9 $v1"]}))
    first = context.guards.bindings["v1"].value
    assert used.result["got"] == {"it": first, "text": [f"a $v9 {first}"]}
    assert context.budget.used.calls == 4
