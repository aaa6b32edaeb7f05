"""Running plans: a dry run, a run, variables, a failure, resuming at the checkpoint, and other steps.

Run it with `python examples/planning/plan_execution_demo.py`; it needs no network, key or server. The tools
are local, and the planner that is asked for other steps is scripted: a program in place of a model.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from callsheet.planning import PlanningContext, PlanRunner

PLAN: dict[str, Any] = {
    "id": "report-users",
    "title": "Report the users",
    "variables": {"api": {"host": "api.example.com", "version": "v2"}, "date": "2026-02-28"},
    "steps": [
        {
            "index": "1",
            "title": "Fetch the users",
            "tool": "fetch",
            "args": {"url": "https://${api.host}/${api.version}/users"},
            "depends_on": [],
            "result_variable": "users",
        },
        {
            "index": "2",
            "title": "Count them",
            "tool": "count",
            "args": {"rows": "${users}"},
            "depends_on": ["1"],
            "result_variable": "number",
        },
        {
            "index": "3",
            "title": "Save the report",
            "tool": "save",
            "args": {"text": "${number} users on ${date}"},
            "depends_on": ["2"],
            "result_variable": "saved",
        },
    ],
}


class LocalTools:
    """A tool manager: three tools in this program, one of which fails while the disk is full."""

    def __init__(self, disk_is_full: bool = False) -> None:
        self.disk_is_full = disk_is_full
        self.calls: list[str] = []

    async def get_all_tools(self) -> list[dict[str, Any]]:
        """The catalogue of the tools."""
        names = {"fetch": "url", "count": "rows", "save": "text", "print_out": "text"}
        return [
            {"name": name, "parameters": {"type": "object", "properties": {argument: {}}}}
            for name, argument in names.items()
        ]

    async def execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; an answer with an `error` is a failure."""
        self.calls.append(tool_name)
        match tool_name:
            case "fetch":
                return [{"id": 1, "from": arguments["url"]}, {"id": 2, "from": arguments["url"]}]
            case "count":
                return len(arguments["rows"])
            case "save" if self.disk_is_full:
                return {"success": False, "error": "the disk is full"}
            case _:
                return f"{tool_name}: {arguments['text']}"


def watched(ctx: PlanningContext, **options: Any) -> PlanRunner:
    """A runner that prints each step."""
    return PlanRunner(
        ctx,
        on_step_start=lambda idx, title, tool: print(f"  [{idx}] {title} ({tool})"),
        on_step_complete=lambda result: print(f"    -> {'OK' if result.success else 'FAIL'}"),
        enable_guards=True,
        max_concurrency=4,
        **options,
    )


async def dry_run(folder: Path) -> None:
    """What the plan would do: no tool is called."""
    print("== Dry run ==")
    tools = LocalTools()
    result = await watched(PlanningContext(tools, plans_dir=folder)).execute_plan(PLAN, dry_run=True)
    for step in result.steps:
        print(f"  {step.tool_name} would get {json.dumps(step.result['args'])}")
    print("calls made:", len(tools.calls))


async def live(folder: Path) -> None:
    """The plan, and once more with a variable given for this run."""
    print("\n== Run ==")
    ctx = PlanningContext(LocalTools(), plans_dir=folder)
    result = await watched(ctx).execute_plan(PLAN, dry_run=False, checkpoint=True)
    print(f"Success: {result.success}")
    print(f"Steps: {len(result.steps)}")
    print(f"Took less than a minute: {result.total_duration < 60}")
    print(f"Variables: {list(result.variables.keys())}")
    print("The users are still a list:", isinstance(result.variables["users"], list))
    print("Saved:", result.variables["saved"])

    print("\n== Run with a variable ==")
    other = await PlanRunner(ctx).execute_plan(PLAN, variables={"date": "2026-03-01"})
    print("Saved:", other.variables["saved"])


async def failure(folder: Path) -> None:
    """A step fails; the completed ones are in the state file, and are not run again."""
    print("\n== A failure ==")
    tools = LocalTools(disk_is_full=True)
    ctx = PlanningContext(tools, plans_dir=folder)
    await ctx.save_plan(PLAN)
    result = await watched(ctx).execute_plan(PLAN)
    print(f"Success: {result.success}, because {result.error}")
    state = json.loads((folder / "report-users_state.json").read_text(encoding="utf-8"))
    print("State:", state["status"], "after the steps", ", ".join(state["completed_steps"]))

    print("\n== Resumed ==")
    tools.disk_is_full = False
    tools.calls.clear()
    result = await watched(ctx).resume_plan("report-users")
    print(f"Success: {result.success}; called now: {', '.join(tools.calls)}")


async def other_steps(folder: Path) -> None:
    """A step fails, and a planner is asked for other steps: here a program, in place of a model."""
    print("\n== Other steps after a failure ==")

    def scripted_planner(request: Any) -> dict[str, Any]:
        for failed, error in request.progress.failed:
            print(f"  the planner is told: {failed.title}: {error}")
        step = {"index": "4", "title": "Print the report", "tool": "print_out", "depends_on": []}
        return {
            "title": "Print",
            "steps": [{**step, "args": {"text": "${number} users"}, "result_variable": "out"}],
        }

    ctx = PlanningContext(LocalTools(disk_is_full=True), plans_dir=folder, planner=scripted_planner)
    result = await watched(ctx, enable_replan=True, max_replans=2).execute_plan(PLAN)
    print(f"Success: {result.success}, replanned: {result.replanned}")
    print("Steps:", ", ".join(step.step_title for step in result.steps))
    print("Printed:", result.variables["out"])


async def main() -> None:
    """Each part in a folder of its own, removed at the end."""
    for part in (dry_run, live, failure, other_steps):
        with tempfile.TemporaryDirectory() as folder:
            await part(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
