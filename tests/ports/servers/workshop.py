"""A server for tests: `workshop.py stdio FILE` or `workshop.py http PORT FILE`.

It notes in FILE what happens to it, and describes its tool `moody` by the number of its starts.
"""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

NOTES = Path(sys.argv[-1])


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


note("start")
starts = NOTES.read_text().splitlines().count("start")
server = MCPServer("workshop")


@server.tool()
async def slow(seconds: float) -> str:
    note(f"slow {seconds:g}")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        note("cancelled")
        raise
    return "done"


@server.tool(structured_output=False)
async def die(words: str) -> str:
    note("die")
    print(words, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def fail(text: str) -> str:
    raise ToolError(text)


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def numbers(count: int) -> list[int]:
    return list(range(count))


@server.tool(structured_output=False)
def nothing() -> None:
    return None


@server.tool(structured_output=False)
def texts() -> list[str]:
    return ["one", "two"]


@server.tool()
def meta(ctx: Context) -> dict[str, Any]:
    return dict(ctx.request_context.meta or {})


paid: list[int] = []


@server.tool(structured_output=False)
async def pay(ctx: Context, seconds: float = 0.0) -> str:
    """Pay; the first answer takes a while."""
    request = ctx.request_context.request
    note(f"key {request.headers.get('idempotency-key') if request is not None else None}")
    paid.append(1)
    await anyio.sleep(seconds if len(paid) == 1 else 0)
    return f"paid by {(ctx.request_context.meta or {}).get('dev.callsheet/idempotency-key')}"


@server.tool(name="select", structured_output=False)
def choose() -> str:
    return "chosen"


@server.tool(description=f"started {starts} times", structured_output=False)
def moody() -> str:
    note("moody")
    return "fine"


if sys.argv[1] == "http":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    print("this line is no message", flush=True)
    server.run("stdio")
