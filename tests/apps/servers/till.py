"""An MCP server that logs every call with its idempotency key; the first `pay` kills its client."""

import json
import os
import signal
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer

NOTES = Path(sys.argv[1])
META = "dev.callsheet/idempotency-key"
server = MCPServer("till")


def taken() -> list[dict[str, str]]:
    return [json.loads(line) for line in NOTES.read_text().splitlines()] if NOTES.exists() else []


def note(tool: str, key: str) -> None:
    with NOTES.open("a") as file:
        file.write(json.dumps({"tool": tool, "key": key}) + "\n")
    if len(taken()) == 1:
        os.kill(os.getppid(), signal.SIGKILL)


@server.tool()
def pay(amount: int, ctx: Context) -> str:
    """Take the key from `_meta`."""
    note("pay", (ctx.request_context.meta or {})[META])
    return f"paid {amount}"


@server.tool()
def pay_named(amount: int, reference: str) -> str:
    """Take the key from a named argument."""
    note("pay_named", reference)
    return f"paid {amount}"


@server.tool()
def order(amount: int, ctx: Context) -> str:
    """Not repeatable, but has a probe."""
    note("order", (ctx.request_context.meta or {})[META])
    return f"ordered {amount}"


@server.tool()
def pay_once(amount: int, idempotency_key: str) -> str:
    """Takes its key in an argument with the usual name, which nobody declares."""
    note("pay_once", idempotency_key)
    return f"paid {amount}"


@server.tool()
def list_orders(amount: int) -> list[dict[str, str]]:
    """What was ordered, as a tracker lists it."""
    return [row for row in taken() if row["tool"] == "order"]


@server.tool()
def find_order(reference: str) -> dict[str, object]:
    """Whether an order with this reference exists."""
    found = any(row == {"tool": "order", "key": reference} for row in taken())
    return {"happened": True, "value": "found"} if found else {"happened": False}


server.run("stdio")
