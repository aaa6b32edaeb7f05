"""What the gate costs: milliseconds of CPU a call and megabytes, beside a proxy that only forwards.

    python benchmarks/gate.py [CALLS]

The same client calls the same tool of a small server: directly, through a proxy made of the MCP SDK alone,
and through `callsheet gate`, in turns of CALLS calls. A second process in between costs the same in both; the
rest is the gate's own. CPU is that of the process in between (user and system): medians of all turns, and of
the differences between neighbouring turns with the half that lies around it, since other work on the machine
adds to it. The time a call takes is there for comparison.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

BATCHES = 20
WARM = 50
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


class Between:
    """A process between the client and the tool; `costs` are its milliseconds of CPU a call, by batches."""

    def __init__(self, name: str, words: list[str], marker: str, folder: Path) -> None:
        self.name, self._marker, self._folder = name, marker, folder
        # a data folder of its own: one that knows thousands of servers takes memory, and this machine's may
        env = {**os.environ, "CALLSHEET_CONFIG": str(folder / "config.toml"), "XDG_DATA_HOME": str(folder)}
        self._started = StdioServerParameters(command=sys.executable, args=words, env=env, cwd=folder)
        self.costs: list[float] = []
        self._times: list[float] = []

    async def open(self, stack: AsyncExitStack) -> None:
        """Start it, and make the first calls, which no batch counts."""
        log = stack.enter_context((self._folder / f"{self.name}.stderr").open("w"))
        self._client = await stack.enter_async_context(Client(stdio_client(self._started, errlog=log)))
        for number in range(WARM):
            await self._client.call_tool("read_mail", {"number": number})
        self._place = process(self._marker)

    async def turn(self, calls: int) -> None:
        """Make a batch of calls."""
        before = cpu(self._place)
        for number in range(calls):
            begun = time.perf_counter()
            await self._client.call_tool("read_mail", {"number": number})
            self._times.append(1000 * (time.perf_counter() - begun))
        self.costs.append((cpu(self._place) - before) / calls)

    def shown(self) -> float:
        """Print what it took, and return its megabytes."""
        megabytes = int((self._place / "status").read_text().partition("VmRSS:")[2].split()[0]) / 1024
        middle, late = statistics.median(self._times), statistics.quantiles(self._times, n=20)[18]
        cost = statistics.median(self.costs)
        times = f"median {middle:6.2f} ms  95 % {late:6.2f} ms"
        print(f"{self.name:<8} CPU {cost:5.2f} ms  {times}  {megabytes:6.1f} MB")
        return megabytes


async def main(calls: int) -> None:
    """Take turns between the three, and print what each takes."""
    with tempfile.TemporaryDirectory(prefix="gate") as name:
        folder = Path(name)
        server, proxy, journal = folder / "server.py", folder / "proxy.py", str(folder / "journal.db")
        server.write_text(SERVER)
        proxy.write_text(PROXY)
        (folder / "config.toml").write_text("")
        behind = {"desk": {"command": sys.executable, "args": [str(server), "behind"]}}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": behind}))
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
        direct = Between("direct", [str(server), "direct"], "direct", folder)
        by_proxy = Between("proxy", [str(proxy), str(server)], str(proxy), folder)
        by_gate = Between("gate", gate, journal, folder)
        async with AsyncExitStack() as stack:
            for each in (direct, by_proxy, by_gate):
                await each.open(stack)
            for _ in range(BATCHES):
                for each in (direct, by_proxy, by_gate):
                    await each.turn(calls)
            megabytes = [each.shown() for each in (direct, by_proxy, by_gate)]
        own = sorted(gate - proxy for gate, proxy in zip(by_gate.costs, by_proxy.costs, strict=True))
        range_ = f"{own[len(own) // 4]:.2f} to {own[-1 - len(own) // 4]:.2f}"
        more = megabytes[2] - megabytes[1]
        print(f"of the gate's own: {statistics.median(own):.2f} ms of CPU a call ({range_}), {more:.1f} MB")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 50))
