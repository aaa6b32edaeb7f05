"""The changeling on the SDK's server, with the same STATE and answers."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

changes = InMemorySubscriptionBus()
STATE = Path(sys.argv[1])


def state() -> dict[str, Any]:
    return json.loads(STATE.read_text())


def note(params: types.CallToolRequestParams) -> None:
    with Path(f"{STATE}.calls").open("a") as calls:
        calls.write(f"{params.name} {json.dumps(params.arguments)}\n")


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    if "fails" in state():
        raise RuntimeError("no list today")
    return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in state()["tools"]])


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    note(params)
    text = state().get("answers", {}).get(params.name, "ok")
    if text == "poke":
        await context.session.send_tool_list_changed()  # to clients of older protocols
        await changes.publish(ToolsListChanged())
    if text == "huge":
        text = "x" * 20_000_000
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    now = state()
    server: Any = Server(
        now.get("name", "changeling"),
        version=now.get("version", "1"),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(changes),
    )
    async with stdio_server() as (received, sending):
        await server.run(received, sending, server.create_initialization_options())


anyio.run(main)
