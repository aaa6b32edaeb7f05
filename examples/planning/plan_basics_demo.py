"""Plans as data: drawing one, its batches, saving, listing, reading and deleting it.

Run it with `python examples/planning/plan_basics_demo.py`; it needs no network, key or server.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from callsheet.planning import PlanningContext, render_plan_dag
from callsheet.planning import compute_batches as _compute_batches

PLAN: dict[str, Any] = {
    "id": "refactor-auth-001",
    "title": "Refactor the auth module",
    "variables": {"module_path": "src/auth/handler.py"},
    "steps": [
        {
            "index": "1",
            "title": "Read the module",
            "tool": "read_file",
            "args": {"path": "${module_path}"},
            "depends_on": [],
            "result_variable": "code",
        },
        {
            "index": "2",
            "title": "Find what imports it",
            "tool": "search_code",
            "args": {"query": "from auth.handler import"},
            "depends_on": [],
            "result_variable": "usages",
        },
        {
            "index": "3",
            "title": "Write it anew",
            "tool": "write_file",
            "args": {"path": "${module_path}", "content": "${code}"},
            "depends_on": ["1", "2"],
            "result_variable": "written",
        },
        {
            "index": "4",
            "title": "Run the tests",
            "tool": "run_tests",
            "args": {"path": "tests/auth/"},
            "depends_on": ["3"],
            "result_variable": "tests",
        },
    ],
}


async def no_tools(name: str, arguments: dict[str, Any]) -> Any:
    """The tool manager of a program that runs nothing."""
    raise RuntimeError(f"{name} was called with {arguments}, but plans are only kept here")


def draw() -> None:
    """The plan as a graph, when nothing has run and when a run is half way."""
    print("== The plan ==")
    print(render_plan_dag(PLAN))
    print("\n== Half way ==")
    words = {"1": "completed", "2": "completed", "3": "running"}
    half_way = {**PLAN, "steps": [{**step, "status": words.get(step["index"])} for step in PLAN["steps"]]}
    print(render_plan_dag(half_way))
    print("\n== Batches ==")
    for number, batch in enumerate(_compute_batches(PLAN["steps"]), start=1):
        print(f"{number}: {', '.join(step['title'] for step in batch)}")


async def keep(folder: Path) -> None:
    """Create, list, read and delete a saved plan; a second context sees what the first has saved."""
    print("\n== Saved plans ==")
    plan_id = await PlanningContext(no_tools, plans_dir=folder).save_plan(PLAN)
    print("saved:", plan_id)
    print("file:", ", ".join(name for name in os.listdir(folder) if name.endswith(".json")))

    ctx = PlanningContext(no_tools, plans_dir=folder)
    for row in await ctx.list_plans():
        print("listed:", row["id"], "|", row["title"], "|", row["steps"], "steps")
    loaded = await ctx.get_plan("refactor")
    assert loaded is not None
    print("read by the beginning of its id:", loaded["title"])
    print("variables:", json.dumps(loaded["variables"]))
    print("drawn as before:", render_plan_dag(loaded) == render_plan_dag(PLAN))
    print("deleted:", await ctx.delete_plan(plan_id))
    print("deleted once more:", await ctx.delete_plan(plan_id))
    print("left:", await ctx.list_plans())


async def main() -> None:
    """Draw the plan, then keep it in a folder that is removed at the end."""
    draw()
    with tempfile.TemporaryDirectory() as folder:
        await keep(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
