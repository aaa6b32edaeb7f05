"""The guards of calls: a budget, caps of single tools, runaway calls, recorded results, errors.

Run it with `python examples/planning/plan_guard_demo.py`; it needs no network, key or server. How limits are
set is callsheet's own (`SharedBudget`, `Limits`); the calls of the planning API are the documented ones.
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from callsheet import Limits, SharedBudget
from callsheet.planning import (
    McpToolBackend,
    PlanningContext,
    PlanRunner,
    ToolExecutionRequest,
    ToolStateManager,
)


class LocalTools:
    """A tool manager that counts its calls; `broken` raises and `refusing` reports an error."""

    def __init__(self) -> None:
        self.calls = 0

    async def execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        self.calls += 1
        if tool_name == "broken":
            raise ConnectionError("the server hung up")
        if tool_name == "refusing":
            return {"success": False, "error": "no such page"}
        return arguments["number"] * arguments["number"] if tool_name == "square" else arguments


def a_plan(calls: int) -> dict[str, Any]:
    """A plan of that many squares, one after another."""
    steps = [
        {
            "index": str(n),
            "title": f"Square {n}",
            "tool": "square",
            "args": {"number": n},
            "depends_on": [str(n - 1)] if n > 1 else [],
            "result_variable": f"square_{n}",
        }
        for n in range(1, calls + 1)
    ]
    return {"id": "squares", "title": "Squares", "steps": steps}


async def ask(backend: McpToolBackend, tool: str, step_id: str = "step-1", **args: Any) -> None:
    """Make one call, and print its result."""
    request = ToolExecutionRequest(tool_name=tool, args=args, step_id=step_id)
    result = await backend.execute_tool(request)
    print(f"  {tool} {args}: {result.result if result.success else f'FAIL, {result.error}'}")


async def budget() -> None:
    """A plan and the conversation use one budget; the call that would go over it is not made."""
    print("== Budget of 4 calls ==")
    tools = LocalTools()
    with tempfile.TemporaryDirectory() as folder:
        shared = SharedBudget(Limits(max_calls=4))
        ctx = PlanningContext(tools, plans_dir=folder, budget=shared)
        ctx.guards.record_tool_call("square", {"number": 7}, 49)
        print(f"  the conversation has called a tool itself: {shared.left().max_calls} calls are left")
        result = await PlanRunner(ctx).execute_plan(a_plan(5))
        print(f"  plan of 5 calls: success={result.success}, calls made: {tools.calls}")
        print(f"  {result.error}")
        print(f"  the conversation's next call: {ctx.guards.check_all_guards('square')}")
        free = await PlanRunner(ctx, enable_guards=False).execute_plan(a_plan(5))
        print(f"  without guards: success={free.success}, calls made: {tools.calls}")


async def caps() -> None:
    """A cap of one tool leaves the others alone."""
    print("\n== At most 2 calls of square ==")
    backend = McpToolBackend(LocalTools(), budget=SharedBudget(Limits(max_calls_by_tool={"square": 2})))
    for number in (2, 3, 4):
        await ask(backend, "square", number=number)
    await ask(backend, "echo", text="still allowed")


async def runaway() -> None:
    """A call that repeats itself is refused until another is made."""
    print("\n== At most 3 equal calls in a row ==")
    backend = McpToolBackend(LocalTools(), guards=ToolStateManager(max_same_calls=3))
    for _ in range(4):
        await ask(backend, "square", number=5)
    await ask(backend, "square", number=6)
    await ask(backend, "square", number=5)


async def recorded() -> None:
    """Each result is bound to a name, which later arguments may use."""
    print("\n== Recorded results ==")
    backend = McpToolBackend(LocalTools(), enable_guards=True)
    await ask(backend, "square", number=3)
    await ask(backend, "square", number="$v1")
    await ask(backend, "echo", text="3 squared is $v1, squared again $v2")
    for binding in backend.guards.bindings.values():
        print(f"  ${binding.name} = {binding.value} (of {binding.tool})")


async def errors() -> None:
    """A failure is a result: nothing is raised."""
    print("\n== Errors ==")
    backend = McpToolBackend(LocalTools(), enable_guards=False)
    await ask(backend, "broken")
    await ask(backend, "refusing", page=1)


async def main() -> None:
    """Each guard in turn."""
    for part in (budget, caps, runaway, recorded, errors):
        await part()


if __name__ == "__main__":
    asyncio.run(main())
