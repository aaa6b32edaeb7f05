"""The documented API of execution plans, on the engine of the library."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import forked
from tests.dag_plans import step

from callsheet.api.budget import SharedBudget
from callsheet.api.plan import Plan
from callsheet.frontends.dag import parse_dag
from callsheet.machine import Limits
from callsheet.planning import (
    McpToolBackend,
    PlanningContext,
    PlanRunner,
    ToolExecutionRequest,
    compute_batches,
    get_plan_tools_as_dicts,
    handle_plan_tool,
    render_plan_dag,
)
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

DIAMOND = {
    "id": "diamond",
    "title": "Diamond",
    "variables": {"where": "here"},
    "steps": [
        step("1", "fetch", var="data", path="${where}"),
        step("2", "validate", "1", var="ok", data="${data}"),
        step("3", "transform", "1", var="made", data="${data.rows}"),
        step("4", "aggregate", "2", "3", text="${ok}: ${made}"),
    ],
}


def is_there(path: Path) -> bool:
    return path.exists()


class Manager:
    """A tool manager that records its calls and fails some."""

    def __init__(self, *failing: str, seconds: float = 0.0) -> None:
        self.failing, self.seconds = set(failing), seconds
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.most = self.open = 0

    async def execute_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(self.seconds)
        self.open -= 1
        if name in self.failing:
            return SimpleNamespace(success=False, result=None, error=f"{name} is down")
        return SimpleNamespace(success=True, result={"rows": [1, 2]} if name == "fetch" else name, error=None)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "plans"


async def test_plan_runs_and_reports_steps_variables_and_durations(place: Path) -> None:
    manager, told = Manager(seconds=0.01), []
    runner = PlanRunner(
        PlanningContext(manager, plans_dir=place),
        on_step_start=lambda index, title, tool: told.append(("start", index, title, tool)),
        on_step_complete=lambda result: told.append(("done", result.step_index, result.success)),
    )
    result = await runner.execute_plan(DIAMOND, variables={"where": "there"})
    assert (result.success, result.error, result.replanned) == (True, None, False)
    assert manager.calls[0] == ("fetch", {"path": "there"})
    assert manager.calls[-1] == ("aggregate", {"text": "validate: transform"})
    assert result.variables == {
        "where": "there",
        "data": {"rows": [1, 2]},
        "ok": "validate",
        "made": "transform",
    }
    assert [s.step_index for s in result.steps][0::3] == ["1", "4"]
    assert all(0.005 < s.duration < 60 for s in result.steps)
    assert result.total_duration >= sum(s.duration for s in result.steps if s.step_index != "3") * 0.9
    assert told[:2] == [("start", "1", "Step 1", "fetch"), ("done", "1", True)]
    assert told[-1] == ("done", "4", True)
    assert len(told) == 8


async def test_steps_in_text_order_start_in_their_turn(place: Path) -> None:
    plan = Plan.parse('S1: @CALC ("2 + 2") > $a\nS2: @CALC ("1 + 1") > $b\nS3: @RESPOND ($a, $b)')
    result = await PlanRunner(PlanningContext(Manager(), plans_dir=place)).execute_plan(plan)
    assert (result.success, result.error) == (True, None)
    with Journal.open(place / "journal.db") as journal:
        first = next(iter(journal.events(journal.find_run("last").run_id)))
        assert first.body["limits"]["schedule"] == "sequential"


@pytest.mark.parametrize(("most", "seen"), [(1, 1), (2, 2), (8, 3)])
async def test_number_of_steps_in_flight_is_limited(place: Path, most: int, seen: int) -> None:
    manager = Manager(seconds=0.02)
    plan = {"title": "wide", "steps": [step(str(n), f"t{n}") for n in range(3)]}
    runner = PlanRunner(PlanningContext(manager, plans_dir=place), max_concurrency=most)
    assert (await runner.execute_plan(plan)).success
    assert manager.most == seen


async def test_dry_run_makes_no_calls_leaves_nothing_and_resolves_known_values(place: Path) -> None:
    manager = Manager()
    runner = PlanRunner(PlanningContext(manager, plans_dir=place))
    result = await runner.execute_plan(DIAMOND, dry_run=True)
    assert (result.success, manager.calls, is_there(place)) == (True, [], False)
    assert [s.step_index for s in result.steps if s.dry_run] == ["1", "2", "3", "4"]
    assert result.steps[0].result == {"args": {"path": "here"}}
    assert result.steps[2].result == {"args": {"data": "<fetch result.rows>"}}
    assert result.variables["data"] == "<fetch result>"


async def test_failed_plan_resumes_at_failure(place: Path) -> None:
    manager = Manager("transform")
    runner = PlanRunner(PlanningContext(manager, plans_dir=place))
    result = await runner.execute_plan(DIAMOND)
    assert not result.success
    assert result.error == "step 3 failed: transform is down"
    assert {s.step_index: s.error for s in result.steps} == {
        "1": None,
        "2": None,
        "3": "transform is down",
    }
    manager.failing.clear()
    manager.calls.clear()
    again = await PlanRunner(PlanningContext(manager, plans_dir=place)).resume_plan("diam")
    assert (again.success, manager.names) == (True, ["transform", "aggregate"])
    assert (await runner.resume_plan("diamond")).success
    assert manager.names == ["transform", "aggregate"]


async def test_changed_saved_plan_is_reported_before_resume(place: Path) -> None:
    manager = Manager("transform")
    context = PlanningContext(manager, plans_dir=place)
    context.library.save(parse_dag(json.dumps(DIAMOND)).require())
    runner = PlanRunner(context)
    await runner.execute_plan(DIAMOND)
    manager.failing.clear()
    manager.calls.clear()
    shorter = parse_dag(json.dumps({**DIAMOND, "steps": DIAMOND["steps"][:3]})).require()
    context.library.save(shorter, replaces=True)
    refused = await runner.resume_plan("diamond")
    assert (refused.success, manager.calls) == (False, [])
    assert "PLN029" in str(refused.error)
    assert "step 4 is gone" in str(refused.error)
    again = await runner.resume_plan("diamond", accept_changed_plan=True)
    assert (again.success, manager.names) == (True, ["transform", "aggregate"])


async def test_nothing_is_written_without_checkpoint(place: Path) -> None:
    runner = PlanRunner(PlanningContext(Manager(), plans_dir=place))
    result = await runner.execute_plan(DIAMOND, checkpoint=False)
    assert (result.success, result.run_id, is_there(place)) == (True, None, False)
    assert "no run of such a plan" in str((await runner.resume_plan("diamond")).error)


async def test_guards_share_budget_and_are_optional(place: Path) -> None:
    manager, budget = Manager(), SharedBudget(Limits(max_calls=3))
    budget.count_call("chat")
    context = PlanningContext(manager, plans_dir=place, budget=budget)
    result = await PlanRunner(context).execute_plan(DIAMOND)
    assert (result.success, len(manager.calls), budget.used.calls) == (False, 2, 3)
    assert "max_calls" in str(result.error)
    free = await PlanRunner(context, enable_guards=False).execute_plan(DIAMOND)
    assert (free.success, budget.used.calls) == (True, 3)


async def test_failed_plan_is_replanned_once(place: Path) -> None:
    asked: list[Any] = []

    def planner(request: Any) -> Any:
        asked.append(request)
        return {"steps": [step("1", "mend", var="made", data="${data.rows}"), step("2", "fail_too", "1")]}

    manager = Manager("transform")
    tools = ["fetch", "validate", "transform", "aggregate", "mend", "fail_too"]
    context = PlanningContext(manager, plans_dir=place, tools=tools, planner=planner)
    result = await PlanRunner(context, enable_replan=True).execute_plan(DIAMOND)
    assert (result.success, result.replanned, len(asked)) == (True, True, 1)
    assert [s.step_index for s in result.steps] == ["1", "2", "r1-1", "r1-2"]
    assert manager.calls[-2] == ("mend", {"data": [1, 2]})
    manager.failing.add("fail_too")
    failed = await PlanRunner(context, enable_replan=True, max_replans=5).execute_plan(DIAMOND)
    assert (failed.success, failed.replanned, len(asked)) == (False, True, 2)
    off = await PlanRunner(context).execute_plan(DIAMOND)
    assert (off.success, off.replanned, len(asked)) == (False, False, 2)


@pytest.mark.parametrize(
    "plan", [{}, {"steps": [step("1", "t", "1")]}, {"steps": [step("1", "t", x="${no}")]}, "{"]
)
async def test_invalid_plan_is_error_result(place: Path, plan: Any) -> None:
    manager = Manager()
    result = await PlanRunner(PlanningContext(manager, plans_dir=place)).execute_plan(plan)
    assert (result.success, bool(result.error), manager.calls) == (False, True, [])


async def test_failing_callback_does_not_block_run(place: Path) -> None:
    def broken(*told: object) -> None:
        raise RuntimeError("no screen")

    runner = PlanRunner(PlanningContext(Manager(), plans_dir=place), broken, broken)
    assert (await runner.execute_plan(DIAMOND)).success


def test_tool_name_is_spelling_insensitive_and_called_without_sign(tmp_path: Path) -> None:
    manager = Manager()
    plan = {
        "title": "x",
        "steps": [step("1", "@Fetch"), step("2", "fetch", "1"), step("3", "@FETCH", "2")],
    }
    result = asyncio.run(PlanRunner(PlanningContext(manager, plans_dir=tmp_path)).execute_plan(plan))

    assert result.success, result.error
    assert [name for name, _ in manager.calls] == ["Fetch", "Fetch", "Fetch"]


def test_call_in_flight_at_process_death_is_repeated_only_on_request(place: Path) -> None:
    script = """
import asyncio, json, os, sys
from callsheet.planning import PlanningContext, PlanRunner

def manager(name, arguments):
    if name == "aggregate":
        os.kill(os.getpid(), 9)
    return {"rows": [1]}

context = PlanningContext(manager, plans_dir=sys.argv[1], tools=[
    {"name": n} for n in ("fetch", "validate", "transform", "aggregate")])
asyncio.run(PlanRunner(context).execute_plan(json.loads(sys.argv[2])))
"""
    line = [sys.executable, "-c", script, str(place), json.dumps(DIAMOND)]
    assert forked.run(line, check=False, env=dict(os.environ)).returncode == -9
    manager = Manager()
    runner = PlanRunner(PlanningContext(manager, plans_dir=place))
    result = asyncio.run(runner.resume_plan("diamond"))
    assert (result.success, manager.calls) == (False, [])
    assert "in_doubt" in str(result.error)
    again = asyncio.run(runner.resume_plan("diamond", in_doubt="retry"))
    assert (again.success, manager.names) == (True, ["aggregate"])


# ---------------------------------------------------------------- single calls, pictures, tools


async def test_backend_makes_single_calls_within_budget() -> None:
    manager = Manager("down")
    backend = McpToolBackend(manager, budget=SharedBudget(Limits(max_calls=2)))
    good = await backend.execute_tool(ToolExecutionRequest("read_file", {"path": "x"}, "step-1"))
    assert (good.success, good.result, good.error) == (True, "read_file", None)
    failed = await backend.execute_tool(ToolExecutionRequest("down"))
    assert (failed.success, failed.error) == (False, "down is down")
    refused = await backend.execute_tool(ToolExecutionRequest("read_file"))
    assert (refused.success, len(manager.calls)) == (False, 2)
    assert "guard" in str(refused.error)
    free = McpToolBackend(manager, enable_guards=False, budget=backend.budget)
    assert (await free.execute_tool(ToolExecutionRequest("read_file"))).success


def test_batches_are_levels_in_any_order() -> None:
    rows = [{"index": "4", "depends_on": ["2", "3"]}, {"index": "2", "depends_on": ["1"]}]
    rows += [{"index": "1", "depends_on": []}, {"index": "3", "depends_on": ["1"]}]
    assert [[row["index"] for row in batch] for batch in compute_batches(rows)] == [["1"], ["2", "3"], ["4"]]


def test_diagram_marks_concurrency_and_dependencies() -> None:
    drawn = render_plan_dag(DIAMOND, {"1": "completed"})
    assert drawn.count("∥") == 2
    assert "← after: 2, 3" in drawn


def test_diagram_uses_documented_status_words() -> None:
    words = {"1": "completed", "2": "running", "3": "failed", "4": "pending"}
    assert [line[0] for line in render_plan_dag(DIAMOND, words).split("\n") if line] == ["●", "◉", "✗", "○"]
    steps = [{**row, "status": words[row["index"]]} for row in DIAMOND["steps"]]
    assert render_plan_dag({**DIAMOND, "steps": steps}) == render_plan_dag(DIAMOND, words)


async def test_plan_tools_work_with_context(place: Path) -> None:
    manager = Manager()
    context = PlanningContext(
        manager, plans_dir=place, tools=["fetch"], planner=lambda request: {"steps": [step("1", "fetch")]}
    )
    names = [tool["function"]["name"] for tool in get_plan_tools_as_dicts()]
    assert names == ["plan_create", "plan_execute", "plan_create_and_execute"]
    made = json.loads(await handle_plan_tool("plan_create", {"goal": "get it"}, context))
    assert (made["plan_id"], manager.calls) == ("get-it", [])
    done = json.loads(await handle_plan_tool("plan_execute", {"plan_id": "get"}, context))
    assert (done["success"], manager.names, context.budget.used.calls) == (True, ["fetch"], 1)


async def test_saved_plan_runs_with_manager_without_catalogue(place: Path) -> None:
    from callsheet import Plan

    PlanLibrary(place).save(Plan.parse(json.dumps(DIAMOND)).ir)
    manager = Manager()
    reply = await handle_plan_tool(
        "plan_execute", {"plan_id": "diamond"}, PlanningContext(manager, plans_dir=place)
    )
    assert (json.loads(reply)["success"], len(manager.calls)) == (True, 4)


class Display:
    """A display for tool calls that records its events in order."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    async def start_tool_execution(self, tool: str, arguments: dict[str, Any]) -> None:
        self.told.append(("start", tool, arguments))

    def finish_tool_execution(self, result: str, success: bool = True) -> None:
        self.told.append(("finish", result, success))


async def test_display_receives_each_step_of_plan_tool(place: Path) -> None:
    rows = [step("1", "fetch", var="data"), step("2", "send", "1")]
    context = PlanningContext(
        Manager("send"), plans_dir=place, tools=["fetch", "send"], planner=lambda request: {"steps": rows}
    )
    display = Display()
    reply = await handle_plan_tool(
        "plan_create_and_execute", {"goal": "send it"}, context, ui_manager=display
    )
    assert json.loads(reply)["success"] is False
    assert display.told == [
        ("start", "fetch", {"step": "1", "title": "Step 1"}),
        ("finish", '{"rows": [1, 2]}', True),
        ("start", "send", {"step": "2", "title": "Step 2"}),
        ("finish", "send is down", False),
    ]


async def test_failing_display_stops_no_plan(place: Path) -> None:
    context = PlanningContext(
        Manager(),
        plans_dir=place,
        tools=["fetch"],
        planner=lambda request: {"steps": [step("1", "fetch")]},
    )
    reply = await handle_plan_tool(
        "plan_create_and_execute", {"goal": "get it"}, context, ui_manager=object()
    )
    assert json.loads(reply)["success"] is True
