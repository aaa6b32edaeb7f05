"""Measures how many watchers of one run a server bears: its CPU time, and how late they hear of an event.

    python benchmarks/watching.py [--watchers 1000] [--items 200] [--pause 0.05]

`callsheet serve` executes a loop that makes one call after the other, with a pause in each, then waits for a
person. Each watcher is a stream of the events of that run. An event is late by the time from when it was
recorded until a watcher has it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from serving import CALLSHEET, Server, ask, served

TOOLS = """import asyncio
from callsheet import tool

@tool
async def rest(n: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return n
"""
PLAN = """# ltp: 2
INPUT $items: int
INPUT $pause: float
S1: ?FOREACH ($n IN range($items)) {
  S2: @REST (n=$n, seconds=$pause) > $done
  YIELD ($done)
} > $all
S3: @ASK_HUMAN (prompt="go on?") > $answer
S4: @RESPOND ($answer)
"""
_ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)
_IDLE = 10.0
"""Seconds for which the watchers of a run that waits are measured."""


class Heard(NamedTuple):
    """The last event of a chunk, and when it came."""

    seq: int
    at: float


@dataclass(slots=True)
class Watcher:
    """A stream of events: what came when, up to the event `last`."""

    heard: list[Heard] = field(default_factory=list[Heard])
    count: int = 0

    async def watch(self, host: str, run: str) -> None:
        """Read the stream until it is cancelled."""
        name, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            writer.write(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            begun = b""
            while chunk := await reader.read(65_536):
                now, (lines, _, begun) = time.time(), (begun + chunk).rpartition(b"\n")
                found = _ID.findall(lines)
                if found:
                    self.count += len(found)
                    self.heard.append(Heard(int(found[-1]), now))
        finally:
            writer.close()


class Load(NamedTuple):
    """What a server did for some watchers: CPU as a share of one core, and the lateness of each chunk."""

    busy: float
    idle: float
    late: list[float]
    events: int


def started(server: Server, items: int, pause: float) -> str:
    """The id of a new run."""
    body = json.dumps({"plan": PLAN, "inputs": {"items": items, "pause": pause}}).encode()
    return json.loads(ask(server.host, 1, "POST", "/v1/runs", body))["run_id"]


def _journal_when_it_waits(host: str, run: str) -> bytes:
    while json.loads(ask(host, 1, "GET", f"/v1/runs/{run}", None))["status"] in ("queued", "running"):
        time.sleep(0.5)
    return ask(host, 1, "GET", f"/v1/runs/{run}/journal", None)


async def watched(server: Server, watchers: int, items: int, pause: float) -> Load:
    """The load of one run with so many watchers, while it works and while it waits."""
    run = started(server, items, pause)
    all_of_them = [Watcher() for _ in range(watchers)]
    tasks = [asyncio.create_task(each.watch(server.host, run)) for each in all_of_them]
    while not all(each.heard for each in all_of_them):  # noqa: ASYNC110 - a benchmark may poll
        await asyncio.sleep(0.1)
    cpu, begun, there = server.seconds(), time.monotonic(), time.time()
    last = await asyncio.to_thread(_journal_when_it_waits, server.host, run)
    rows = [json.loads(line) for line in last.splitlines()]
    recorded = {row["seq"]: datetime.fromisoformat(row["time"]).timestamp() for row in rows}
    while any(each.count < len(rows) for each in all_of_them):  # noqa: ASYNC110 - a benchmark may poll
        await asyncio.sleep(0.1)
    busy = (server.seconds() - cpu) / (time.monotonic() - begun)
    cpu = server.seconds()
    await asyncio.sleep(_IDLE)
    idle = (server.seconds() - cpu) / _IDLE
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(each.count == len(rows) for each in all_of_them), "a watcher heard of an event twice or never"
    heard = [one for each in all_of_them for one in each.heard if recorded[one.seq] > there]
    late = [one.at - recorded[one.seq] for one in heard]
    return Load(busy, idle, late, len(rows))


def main() -> None:
    """Measure one watcher and many, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.05)
    wanted = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools.py").write_text(TOOLS)
        options = ("--port", "0", "--no-auth", "--rate", "0", "--json", "--journal", "j.db")
        streams = ("--streams", str(wanted.watchers + 10))
        with served(folder, "-c", CALLSHEET, "serve", *options, *streams, "--tools", "tools.py") as server:
            for watchers in (1, wanted.watchers):
                load = asyncio.run(watched(server, watchers, wanted.items, wanted.pause))
                late = sorted(load.late)
                most_late = late[int(0.99 * (len(late) - 1))]
                print(f"{watchers:>6} watchers of {load.events} events")
                print(f"       CPU: {load.busy:.1%} of a core at work, {load.idle:.1%} while the run waits")
                print(f"       late: {1e3 * statistics.median(late):.0f} ms; 99 %: {1e3 * most_late:.0f} ms")


if __name__ == "__main__":
    main()
