"""Steps side by side: batches, the limit of concurrent steps, and the time that they save.

Run it with `python examples/planning/plan_parallel_demo.py`; it needs no network, key or server.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from callsheet.planning import PlanningContext, PlanRunner, render_plan_dag
from callsheet.planning import compute_batches as _compute_batches

SECONDS = 0.2


def step(index: str, title: str, tool: str, *depends_on: str) -> dict[str, Any]:
    """A step without arguments."""
    return {"index": index, "title": title, "tool": tool, "args": {}, "depends_on": list(depends_on)}


DIAMOND: dict[str, Any] = {
    "title": "Diamond",
    "steps": [
        step("1", "Fetch data", "fetch"),
        step("2", "Validate schema", "validate", "1"),
        step("3", "Transform format", "transform", "1"),
        step("4", "Aggregate results", "aggregate", "2", "3"),
    ],
}
WIDE: dict[str, Any] = {"title": "Wide", "steps": [step(str(n), f"Page {n}", "fetch") for n in range(1, 9)]}


class SlowTools:
    """A tool manager whose tools take 200 ms each; it notes how many calls are under way at once."""

    def __init__(self) -> None:
        self.under_way = 0
        self.most = 0

    async def execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> str:
        """Wait, and answer."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(SECONDS)
        self.under_way -= 1
        return f"{tool_name} is done"


async def run(plan: dict[str, Any], max_concurrency: int) -> None:
    """Run a plan, and print what was under way at once and how long it took."""
    tools = SlowTools()
    with tempfile.TemporaryDirectory() as folder:
        runner = PlanRunner(PlanningContext(tools, plans_dir=folder), max_concurrency=max_concurrency)
        result = await runner.execute_plan(plan, checkpoint=False)
    calls = len(plan["steps"])
    one_by_one = calls * SECONDS
    print(
        f"{plan['title']}, max_concurrency={max_concurrency}: success={result.success}, {calls} calls,"
        f" at most {tools.most} at once, {result.total_duration:.2f} s"
        f" (calls one by one: {one_by_one:.2f} s)"
    )


async def main() -> None:
    """Show the batches of a diamond, then run it and a wide plan with several limits."""
    print("== The diamond ==")
    print(render_plan_dag(DIAMOND))
    print("\n== Its batches ==")
    for number, batch in enumerate(_compute_batches(DIAMOND["steps"]), start=1):
        kind = "parallel" if len(batch) > 1 else "serial"
        print(f"Batch {number} ({kind}): {', '.join(row['title'] for row in batch)}")
    print("\n== Timing ==")
    await run(DIAMOND, 1)
    await run(DIAMOND, 4)
    for most in (2, 4, 8):
        await run(WIDE, most)


if __name__ == "__main__":
    asyncio.run(main())
