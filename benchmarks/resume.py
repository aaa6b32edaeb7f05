#!/usr/bin/env python3
"""Measures what a long run writes, and what resuming it costs, from its start and from a snapshot.

python3 benchmarks/resume.py                      10,000 steps with results of 10 kB each
python3 benchmarks/resume.py --loop --steps 50000 --bytes 100
python3 benchmarks/resume.py --bytes 100 --json   from the closed file to the next call, and reading its rows

The run is interrupted before its last step. Prints the elapsed time of one process and its CPU time, which
other load on the machine does not change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

import plans
from callsheet.ir import Call, Goto, Literal, Output, Plan, Step
from callsheet.machine import Limits
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import Durability, EventType, Journal
from callsheet.store.replay import current_state
from callsheet.store.start import Start

_T = TypeVar("_T")


def plan_of(steps: int, *, loops: bool) -> Plan:
    """A chain of steps, or one step in a loop."""

    def step(n: int) -> Step:
        return Step(f"S{n}", Call("LOOK", (), (("x", Literal(n)),)), output=Output(f"v{n}"))

    return Plan((step(1), Step("S2", Goto("S1"))) if loops else tuple(step(n + 1) for n in range(steps + 1)))


async def run_until(journal: Journal, plan: Plan, steps: int, size: int) -> None:
    """Run until this many steps are done, and stop."""
    done = asyncio.Event()
    made = 0

    async def look(args: dict[str, Any], context: CallContext) -> str:
        nonlocal made
        made += 1
        if made > steps:
            done.set()
            await asyncio.sleep(3600)
        return context.key.ljust(size, "x")

    launch = Launch(
        facts=plans.FACTS, limits=Limits(max_steps=10_000_000, max_calls=10_000_000, schedule="sequential")
    )
    running = asyncio.create_task(start_run(plan, Ports({"LOOK": Route(look)}.get), launch, journal, "run"))
    await asyncio.wait([running, asyncio.create_task(done.wait())], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.wait([running])


async def next_call(path: Path) -> None:
    """Open the journal and resume the run, until its next call is about to be made."""
    called = asyncio.Event()

    async def look(args: dict[str, Any], context: CallContext) -> str:
        called.set()
        await asyncio.sleep(3600)
        return ""

    @asynccontextmanager
    async def ports(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield Ports({"LOOK": Route(look)}.get)

    with Journal.open(path, Durability.NORMAL) as journal:
        running = asyncio.create_task(resume_run(journal, "run", ports))
        await asyncio.wait([running, asyncio.create_task(called.wait())], return_when=asyncio.FIRST_COMPLETED)
        assert called.is_set(), running.result()
        running.cancel()
        await asyncio.wait([running])


def read(path: Path) -> None:
    """Only read all rows of the journal's events."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM events").fetchall()


def least(rounds: int, work: Callable[[], object]) -> dict[str, float]:
    """The least seconds of the clock and of the processor that it took."""
    taken: list[tuple[float, float]] = []
    for _ in range(rounds):
        began, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - began, time.process_time() - cpu))
    return {"wall": min(wall for wall, _ in taken), "cpu": min(cpu for _, cpu in taken)}


def taken_up(steps: int, size: int, rounds: int, *, loops: bool) -> dict[str, dict[str, float]]:
    """The time from the closed journal of an interrupted run to its next call, and for only reading rows."""
    plan = plan_of(steps, loops=loops)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        with Journal.open(path, Durability.NORMAL) as journal:
            asyncio.run(run_until(journal, plan, steps, size))
        return {
            "next_call": least(rounds, lambda: asyncio.run(next_call(path))),
            "read": least(rounds, lambda: read(path)),
        }


def written() -> int:
    """The bytes that this process has written so far."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def timed(what: str, work: Callable[[], _T]) -> _T:
    """Call it and print how long it took."""
    began, cpu = time.perf_counter(), time.process_time()
    result = work()
    clock, spent = time.perf_counter() - began, time.process_time() - cpu
    print(f"{what:44}{clock * 1000:10.1f} ms {spent * 1000:10.1f} ms of CPU")
    return result


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=10_000, help="the size of each result")
    parser.add_argument("--loop", action="store_true", help="one step in a loop instead of a chain")
    parser.add_argument("--json", action="store_true", help="the least seconds of several rounds, as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="the number of rounds for --json")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(taken_up(given.steps, given.bytes, given.rounds, loops=given.loop)))
        return
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}")
    plan = plan_of(given.steps, loops=given.loop)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        before = written()
        with Journal.open(path, Durability.NORMAL) as journal:
            asyncio.run(run_until(journal, plan, given.steps, given.bytes))
        ratio = (written() - before) / (given.steps * given.bytes)
        with Journal.open(path, Durability.NORMAL) as journal:
            info = journal.find_run("run")
            taken = [e.size for e in journal.events("run") if e.type is EventType.SNAPSHOT]
            print(f"{info.events} events, {len(taken)} snapshots of {sum(taken)} bytes in total")
            print(f"written: {ratio:.2f} times the bytes of the results")
            stored = timed("the plan, read", lambda: journal.plan_of(info.plan_hash))
            timed("taken up from the last snapshot", lambda: current_state(journal, "run", stored))
            timed("taken up from the start", lambda: current_state(journal, "run", stored, from_start=True))
            timed("every event verified", lambda: journal.verify("run"))


if __name__ == "__main__":
    main()
