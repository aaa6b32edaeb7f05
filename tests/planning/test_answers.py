"""A call that a tool reports as failed fails its step, and nothing that depends on it is called."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from tests.dag_plans import step

from callsheet import Runtime, StepRemarked, tool
from callsheet.compat import LTPParser, LTPRuntime
from callsheet.planning import McpToolBackend, PlanningContext, PlanRunner, ToolExecutionRequest

COPY_THEN_DELETE = {
    "id": "move",
    "title": "Move a file",
    "steps": [
        step("1", "copy", var="copied", path="a.txt"),
        step("2", "delete", "1", path="a.txt"),
    ],
}
FAILED = CallToolResult(content=[TextContent(type="text", text="the disk is full")], is_error=True)


@asynccontextmanager
async def a_session(deleted: list[str]) -> AsyncGenerator[Client]:
    """A session with a server whose `copy` fails as the protocol says."""
    server = MCPServer("files")

    @server.tool()
    def copy(path: str) -> str:
        if path == "a.txt":
            raise ToolError("the disk is full")
        return f"copied {path}"

    @server.tool()
    def delete(path: str) -> str:
        deleted.append(path)
        return "deleted"

    async with Client(server) as client:
        yield client


async def test_failed_call_of_a_session_fails_its_step(tmp_path: Path) -> None:
    deleted: list[str] = []
    async with a_session(deleted) as session:
        context = PlanningContext(session.call_tool, plans_dir=tmp_path)
        result = await PlanRunner(context).execute_plan(COPY_THEN_DELETE)
        assert not result.success
        assert result.error == "step 1 failed: Error executing tool copy: the disk is full"
        assert deleted == []
        assert not (await McpToolBackend(session.call_tool).execute_tool(copying("a.txt"))).success
        copied = await McpToolBackend(session.call_tool).execute_tool(copying("b.txt"))
        assert (copied.success, copied.result) == (True, "copied b.txt")


def copying(path: str) -> ToolExecutionRequest:
    return ToolExecutionRequest("copy", {"path": path}, "1")


@pytest.mark.parametrize(
    "answer", [FAILED, {"success": True, "result": FAILED}, {"error": "the disk is full"}], ids=str
)
async def test_reported_failure_is_one_in_planning_compat_and_functions(answer: Any, tmp_path: Path) -> None:
    called: list[str] = []

    async def manager(name: str, _arguments: dict[str, Any]) -> Any:
        called.append(name)
        return answer

    result = await PlanRunner(PlanningContext(manager, plans_dir=tmp_path)).execute_plan(COPY_THEN_DELETE)
    assert (result.success, called) == (False, ["copy"])

    async def executor(name: str, _arguments: dict[str, Any], _namespace: str) -> Any:
        return answer

    text = '@COPY (path="a.txt") > $copied ON_FAIL TERMINATE ("stopped")'
    plan = LTPParser.parse(f'PLAN_START\nS1: {text}\nS2: @RESPOND ("gone on")\nPLAN_END')
    assert plan is not None
    ran = await LTPRuntime().execute(plan, executor, executor)
    assert (ran["terminated"], ran["response"]) == (True, "stopped")

    @tool
    def copy(path: str) -> Any:
        return answer

    native = await Runtime([copy]).run(f'S1: {text}\nS2: @RESPOND ("gone on")')
    assert (native.terminated, native.response) == (True, "stopped")
    assert native.variables["copied"] == "the disk is full"


async def test_error_field_beside_others_is_data_of_a_function_and_remarked() -> None:
    @tool
    def lint(path: str) -> dict[str, Any]:
        return {"path": path, "error": "unexpected )"}

    handle = Runtime([lint]).start('@LINT (path="a.py") > $found\n@RESPOND ($found.error)')
    remarks = [event.text async for event in handle if isinstance(event, StepRemarked)]
    result = await handle.result()
    assert (result.response, result.ok) == ("unexpected )", True)
    assert remarks == ["result: it has a field named error, and counts as a value"]
