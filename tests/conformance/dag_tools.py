"""The plan tools of the area `dag`: their definitions, and calls on scripted tools.

In: a case. Out: the differences. The library is a folder of its own, with a file beside it that a hostile
id would reach.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.dag_form import DagCase, said_of, script_of, spellings
from tests.conformance.findings import difference

from callsheet.api.budget import SharedBudget
from callsheet.api.plan_tools import PlanTools, mcp_tools, openai_tools
from callsheet.api.runtime import Runtime
from callsheet.frontends.dag import parse_dag
from callsheet.ir import Effect, canonical_tool_name
from callsheet.machine import Limits
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec
from callsheet.store.library import PlanLibrary


def tool_schemas_case(case: DagCase) -> list[str]:
    """The unmet expectations of a case about the definitions, in both forms."""
    forms = {
        "openai": {t["function"]["name"]: t["function"]["parameters"] for t in openai_tools()},
        "mcp": {t["name"]: t["inputSchema"] for t in mcp_tools()},
    }
    out: list[str] = []
    for key, wanted in case.expect.items():
        for form, schemas in forms.items():
            match key:
                case "tool_names":
                    found: Any = sorted(schemas)
                case "tool_required":
                    found = {name: schemas.get(name, {}).get("required") for name in wanted}
                case _:
                    return [f"the expectation {key!r} is not looked at yet"]
            if found != (sorted(wanted) if key == "tool_names" else wanted):
                out.append(difference(f"{key} ({form})", wanted, found))
    return out


def plan_tool_case(case: DagCase) -> list[str]:
    """The unmet expectations of a case about one call of a plan tool."""
    return asyncio.run(_carried_out(case))


async def _carried_out(case: DagCase) -> list[str]:
    run = case.run
    with tempfile.TemporaryDirectory() as place:
        library = PlanLibrary(Path(place) / "a" / "b" / "plans")
        if case.plan:
            library.save(parse_dag(json.dumps(case.plan)).require())
        if run.get("outside_plan"):
            _lay_outside(library.folder, str(run["arguments"].get("plan_id")))
        world = _World(case)
        runtime = Runtime(world.tools(), planner=world.planner)
        tools = PlanTools(runtime, library, budget=world.budget)
        reply = await tools.handle(run["name"], run["arguments"])
        saved = len(library.ids()) - bool(case.plan)
    return _differences(case.expect, reply, world, saved)


def _lay_outside(folder: Path, plan_id: str) -> None:
    """A plan at the path that an id containing a path would lead to."""
    for suffix in ("", ".json"):
        target = Path(f"{folder / plan_id}{suffix}").resolve()
        place = folder.parents[1].resolve()
        if target.is_relative_to(place) and not folder.resolve().is_relative_to(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text('{"steps": []}')


class _World:
    """The scripted tools, the scripted planner and the shared budget of a case."""

    def __init__(self, case: DagCase) -> None:
        self.case = case
        self.calls: list[str] = []
        self.asked = 0
        guards = case.run.get("guards") or {}
        limits: dict[str, Any] = {}
        if "budget_total" in guards:
            limits["max_calls"] = guards["budget_total"]
        if "per_tool_cap" in guards:
            called = spellings(self._steps(), case.tools)
            limits["max_calls_by_tool"] = dict.fromkeys(called, guards["per_tool_cap"])
        self.budget = SharedBudget(Limits(**limits))
        for _ in range(guards.get("used_by_conversation", 0)):
            self.budget.count_call("conversation")

    def tools(self) -> list[Tool]:
        """The tools of the case; without a strict catalogue also those that its plans name."""
        names = dict.fromkeys(self.case.tools)
        if self.case.catalogue is None:
            names = dict.fromkeys(spellings(self._steps(), names).values())
        return [self._tool(name) for name in names]

    def _steps(self) -> list[Any]:
        """The steps of the stored plan and of all plans of the planner."""
        entries = [*self.case.run.get("planner", ()), self.case.plan or {}]
        plans = [entry for entry in entries if isinstance(entry, dict)]
        return [step for plan in plans for step in plan.get("steps", ())]

    def _tool(self, name: str) -> Tool:
        async def call(arguments: dict[str, Any], context: CallContext) -> Any:
            self.calls.append(name)
            script = script_of(self.case, name, self.calls.count(name))
            if "error" in script:
                raise ToolFailed(script["error"])
            if "raise" in script:
                raise RuntimeError(said_of(script, "raise"))
            if "output_repeat" in script:
                text, times = script["output_repeat"]
                return text * times
            return arguments if script.get("echo") else script.get("output", "ok")

        return Tool(ToolSpec(canonical_tool_name(name), name, effect=Effect.READ), call)

    def planner(self, request: object) -> Any:
        """The next entry of the script; the last one repeats."""
        entries = self.case.run.get("planner") or []
        if not entries:
            raise RuntimeError("the planner has no answer")
        self.asked += 1
        return entries[min(self.asked, len(entries)) - 1]


def _differences(expect: Mapping[str, Any], text: str, world: _World, saved: int) -> list[str]:
    reply = json.loads(text)
    found: dict[str, Any] = {
        "response_error": bool(reply.get("error")) and reply.get("success") is False,
        "response_success": reply.get("success"),
        "success": reply.get("success"),
        "call_count": len(world.calls),
        "calls": world.calls,
        "plan_saved": saved == 1,
        "budget_used": world.budget.used.calls,
        "planner_calls": world.asked,
    }
    out: list[str] = []
    for key, wanted in expect.items():
        match key:
            case "response_has":
                is_met, said = all(name in reply for name in wanted), sorted(reply)
            case "response":
                said = {name: reply.get(name) for name in wanted}
                is_met = said == wanted
            case "error_contains":
                is_met, said = wanted in str(reply.get("error", "")), reply.get("error")
            case "calls_set":
                is_met, said = sorted(world.calls) == sorted(wanted), world.calls
            case "response_size_max":
                is_met, said = len(text) <= wanted, len(text)
            case "not_called":
                is_met, said = not set(wanted) & set(world.calls), world.calls
            case _ if key in found:
                said = found[key]
                is_met = said == wanted and type(said) is type(wanted)
            case _:
                out.append(f"the expectation {key!r} is not looked at yet")
                continue
        if not is_met:
            out.append(difference(key, wanted, f"{said!r} in {text[:300]}"))
    return out
