"""Measures very large runs: CPU time and peak memory, each case in a process of its own.

python benchmarks/large.py [--only chain,foreach,runs,journal]

chain: 100,000 steps. foreach: one step over 1,000,000 items. runs: 1,000 concurrent runs of 20 steps in one
process, where each call waits for one iteration of the loop. journal: 500,000 items, so 1,000,000 events on
disk.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import plans
from callsheet.ir import Call, Foreach, Output, Plan, Ref, Step
from callsheet.machine import Limits, Machine, Program, Started, compile_plan
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import SLICE, LocalDriver
from callsheet.runtime.runs import start_run
from callsheet.store import Durability, Journal

MANY = 10_000_000
LIMITS = Limits(max_steps=MANY, max_calls=MANY, max_items=MANY, max_bytes=None, schedule="sequential")
EACH = Plan(
    (
        Step(
            "S1",
            Call("LOOK", (), (("x", Ref("item")),)),
            foreach=Foreach("item", Ref("items")),
            output=Output("all"),
        ),
    )
)


async def later(args: dict[str, Any], context: CallContext) -> int:
    """A call that waits for one iteration of the loop."""
    await asyncio.sleep(0)
    return args["x"] + 1


async def driven(program: Program, ports: Ports, inputs: dict[str, Any]) -> None:
    """Run a program without a journal."""
    machine = Machine(program, LIMITS)
    done = await LocalDriver(machine, Gateway(ports, "bench")).run(machine.feed(Started(inputs), SLICE))
    assert done is not None


async def chain() -> None:
    await driven(compile_plan(plans.chain(100_000), plans.FACTS), plans.PORTS, {})


async def foreach() -> None:
    await driven(compile_plan(EACH, plans.FACTS), plans.PORTS, {"items": list(range(1_000_000))})


async def runs() -> None:
    program = compile_plan(plans.chain(20), plans.FACTS)
    ports = Ports({"INC": Route(later)}.get)
    await asyncio.gather(*(driven(program, ports, {}) for _ in range(1_000)))


async def journal() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Journal.open(Path(folder) / "journal.db", Durability.NORMAL)
        launch = Launch(plans.FACTS, limits=LIMITS, inputs={"items": list(range(500_000))})
        await start_run(EACH, plans.PORTS, launch, kept, "run")
        events = kept.find_run("run").events
        kept.close()
        print(f"{events:,} events, {size_of(Path(folder)) / 1e6:.0f} MB of files,", end=" ")


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*"))


CASES: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
    "chain": chain,
    "foreach": foreach,
    "runs": runs,
    "journal": journal,
}


def main() -> None:
    """Measure each case in a process of its own, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        for name in given.only.split(","):
            print(f"{name:8}", end=" ", flush=True)
            subprocess.run([sys.executable, __file__, "--one", name], check=True)
        return
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    asyncio.run(CASES[given.one]())
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{spent:.2f} s of CPU, peak {peak / 1024:.0f} MB ({before / 1024:.0f} MB before)")


if __name__ == "__main__":
    main()
