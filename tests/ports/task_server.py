"""A server whose calls become tasks: `task_server.py FOLDER`. A task ends once FOLDER/go exists."""

import asyncio
import sys
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

FOLDER = Path(sys.argv[1])
TASKS = "io.modelcontextprotocol/tasks"


PAUSES: dict[str, Any] = {"patient": 2_500, "vague": "soon", "hasty": -(10**400)}
"""What the server says of the pause between questions about these tasks, in milliseconds."""


class AsTask(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str = "working"
    created_at: str = "2026-01-01T00:00:00Z"
    last_updated_at: str = "2026-01-01T00:00:00Z"
    ttl_ms: int | None = None
    poll_interval_ms: Any = 20


class TaskParams(types.RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


def note(text: str) -> None:
    with (FOLDER / "log").open("a") as file:
        file.write(f"{text}\n")


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    shape = {"type": "object", "properties": {"name": {"type": "string"}}}
    return types.ListToolsResult(tools=[types.Tool(name="build", input_schema=shape)])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    name = str((params.arguments or {})["name"])
    note(f"began {name}")
    (FOLDER / f"task-{name}").touch()
    return AsTask(task_id=name, poll_interval_ms=PAUSES.get(name, 20))


async def get_task(ctx: Any, params: TaskParams) -> dict[str, Any]:
    name = params.task_id
    if not (FOLDER / f"task-{name}").exists():
        raise MCPError(code=types.INVALID_PARAMS, message="there is no such task")
    if name in PAUSES:
        note(f"asked about {name}")
    state = AsTask(task_id=name, poll_interval_ms=PAUSES.get(name, 20)).model_dump(
        by_alias=True, mode="json", exclude_none=True
    )
    state |= {"resultType": "complete", "ttlMs": None}
    if name == "asks" and not (FOLDER / "answer").exists():
        form = {"message": "Which day?", "requestedSchema": {"type": "object", "properties": {}}}
        asked = {"method": "elicitation/create", "params": form}
        return {**state, "status": "input_required", "inputRequests": {"q": asked}}
    if name == "odd":
        return {**state, "status": "sleeping"}
    if name == "begs":
        return {**state, "status": "input_required", "inputRequests": {"q": {"method": "roots/list"}}}
    if name == "breaks":
        return {**state, "status": "failed", "error": {"code": -32603, "message": "no disk"}}
    if not (FOLDER / "go").exists():
        return state
    done = {"content": [{"type": "text", "text": f"built {name}"}]}
    return {**state, "status": "completed", "result": done}


async def update_task(ctx: Any, params: TaskParams) -> dict[str, Any]:
    note(f"heard {params.input_responses}")
    (FOLDER / "answer").touch()
    return {}


async def cancel_task(ctx: Any, params: TaskParams) -> dict[str, Any]:
    note(f"cancelled {params.task_id}")
    return {}


async def main() -> None:
    server = Server("builder", on_list_tools=list_tools, on_call_tool=call_tool)
    server.extensions = {TASKS: {}}
    for method, handler in (("get", get_task), ("update", update_task), ("cancel", cancel_task)):
        server.add_request_handler(f"tasks/{method}", TaskParams, handler)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


asyncio.run(main())
