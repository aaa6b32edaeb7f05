"""An MCP server whose tools report progress, and which notes in a file whether it was asked to."""

import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

NOTES = Path(sys.argv[1])
server = MCPServer("slowpoke")


def note(is_asked: bool) -> None:
    with NOTES.open("a") as file:
        file.write("asked\n" if is_asked else "not asked\n")


@server.tool(structured_output=False)
async def crawl(ctx: Context, pages: int = 3, seconds: float = 0.0, word: str = "pages") -> str:
    """Report progress before each page."""
    note("progress_token" in (ctx.request_context.meta or {}))
    for page in range(pages):
        await ctx.report_progress(page, pages, f"{word} \x1b[31m")
        await anyio.sleep(seconds)
    return f"{pages} pages"


server.run("stdio")
