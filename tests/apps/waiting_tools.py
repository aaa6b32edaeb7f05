"""Tools for tests of servers and hosts; some wait for a file, so that tests find runs in progress."""

TOOLS = '''
import asyncio
from pathlib import Path

from callsheet import CallContext, tool

@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b

@tool(effect="read")
async def hold(name: str, context: CallContext) -> str:
    """Waits until a file is there."""
    context.report_progress(1, 4, "opened")
    context.report_log("rows")
    Path(name + ".began").touch()
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return name

@tool
async def write(name: str) -> str:
    """As hold, and may have changed something."""
    Path(name + ".began").touch()
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return name

@tool(effect="read")
def die() -> str:
    """Ends its process, unless a file says that all is calm."""
    import os
    if not Path("calm").exists():
        os._exit(77)
    return "alive"

@tool(undo="strike(line=call.line)")
def note(line: str) -> str:
    """Adds a line to a file."""
    with open("notes.txt", "a") as file:
        file.write(line + "\\n")
    return line

@tool(effect="idempotent")
async def strike(line: str) -> str:
    """Takes a line out of a file; waits as long as another file is there."""
    while Path("frozen").exists():
        Path("frozen.began").touch()
        await asyncio.sleep(0.01)
    path = Path("notes.txt")
    path.write_text("".join(f"{each}\\n" for each in path.read_text().splitlines() if each != line))
    return line
'''
