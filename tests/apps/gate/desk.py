"""A server for tests: `desk.py FILE`. It writes down in FILE what it did."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

LOG = Path(sys.argv[1])
server = MCPServer("desk")


def note(text: str) -> None:
    with LOG.open("a") as file:
        file.write(f"{text}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, title="A mail"))
def read_mail(number: int) -> dict[str, str]:
    """Reads a mail."""
    note(f"read {number}")
    return {"from": "ann", "text": f"mail {number}"}


@server.tool()
def send_mail(to: str, text: str) -> str:
    """Sends a mail to somebody."""
    note(f"send {to}: {text}")
    return f"sent to {to}"


@server.tool(structured_output=False)
async def slow(seconds: float) -> str:
    note("slow")
    await anyio.sleep(seconds)
    return "done"


@server.tool()
def fail(text: str) -> str:
    raise ToolError(text)


@server.tool(structured_output=False)
def die() -> None:
    note("die")
    os._exit(3)


server.run()
