"""What the gate costs: milliseconds of CPU a call and megabytes, beside a proxy that only forwards.

    python benchmarks/gate.py [CALLS]

The same client calls the same tool of a small server: directly, through a proxy made of the MCP SDK alone,
and through `callsheet gate`. A second process in between costs the same in both; the rest is the gate's own.
CPU is that of the process in between (user and system), the least of ten batches of CALLS: other work on the
machine adds to it. The time a call takes is there for comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

BATCHES = 10
SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("desk")


@server.tool()
def read_mail(number: int) -> dict[str, str]:
    return {"from": "ann", "text": f"mail {number}"}


server.run()
"""
PROXY = """
import sys

import anyio
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main():
    started = StdioServerParameters(command=sys.executable, args=sys.argv[1:])
    async with Client(stdio_client(started)) as behind:
        async def list_tools(context, params):
            return await behind.list_tools()

        async def call_tool(context, params):
            return await behind.call_tool(params.name, params.arguments)

        server = Server("proxy", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
"""


def process(marker: str) -> Path:
    """The process whose command line has this marker."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            return place
    raise LookupError(marker)


def cpu(place: Path) -> float:
    """The milliseconds that all threads of a process have computed."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in place.glob("task/*")) / 1e6


async def measured(name: str, words: list[str], marker: str, calls: int, folder: Path) -> tuple[float, float]:
    """CPU a call and megabytes of the process with this marker; prints them."""
    # a data folder of its own: one that knows thousands of servers takes memory, and this machine's may
    env = {**os.environ, "CALLSHEET_CONFIG": str(folder / "config.toml"), "XDG_DATA_HOME": str(folder)}
    started = StdioServerParameters(command=sys.executable, args=words, env=env, cwd=folder)
    with (folder / "stderr").open("w") as log:
        async with Client(stdio_client(started, errlog=log)) as client:
            for number in range(20):
                await client.call_tool("read_mail", {"number": number})
            times: list[float] = []
            place = process(marker)
            spent = float("inf")
            for batch in range(BATCHES):
                before = cpu(place)
                for number in range(batch * calls, (batch + 1) * calls):
                    begun = time.perf_counter()
                    await client.call_tool("read_mail", {"number": number})
                    times.append(1000 * (time.perf_counter() - begun))
                spent = min(spent, (cpu(place) - before) / calls)
            megabytes = int((place / "status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
    middle, late = statistics.median(times), statistics.quantiles(times, n=20)[18]
    print(f"{name:<8} CPU {spent:5.2f} ms  median {middle:6.2f} ms  95 % {late:6.2f} ms  {megabytes:6.1f} MB")
    return spent, megabytes


async def main(calls: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gate") as name:
        folder = Path(name)
        server, proxy = folder / "server.py", folder / "proxy.py"
        server.write_text(SERVER)
        proxy.write_text(PROXY)
        (folder / "config.toml").write_text("")
        behind = {"desk": {"command": sys.executable, "args": [str(server)]}}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": behind}))
        journal = str(folder / "journal.db")
        gate = [
            "-m",
            "callsheet",
            "gate",
            "--mcp-config",
            "mcp.json",
            "--expose",
            "tools",
            "--journal",
            journal,
        ]
        await measured("direct", [str(server)], str(server), calls, folder)
        by_proxy = await measured("proxy", [str(proxy), str(server)], str(proxy), calls, folder)
        by_gate = await measured("gate", gate, journal, calls, folder)
        own, more = by_gate[0] - by_proxy[0], by_gate[1] - by_proxy[1]
        print(f"of the gate's own: {own:.2f} ms of CPU a call, {more:.1f} MB")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 50))
