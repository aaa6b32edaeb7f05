"""Counts the instructions of small workloads with callgrind, to detect slowdowns.

python benchmarks/counts.py             count, and compare with counts.json
python benchmarks/counts.py --record    count, and write the ratios to counts.json

Counts do not depend on other load on the machine. They depend on the build of Python, so what is stored and
compared are ratios to a floor that is counted in the same process: a minimal interpreter of the same chain.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

RECORDED = Path(__file__).with_name("counts.json")
STEPS = 200
TOLERANCE = 1.25
"""How much a ratio may be over the recorded one: other builds of Python differ by some tenths."""
FLOOR = "floor"


class Workload(NamedTuple):
    """A workload: its name, its number of steps, and a function that executes it once."""

    name: str
    steps: int
    once: Callable[[], object]


class Worse(NamedTuple):
    """A workload that exceeds its record, as ratios to the floor."""

    name: str
    now: float
    recorded: float


def interpreted(n: int) -> Callable[[], object]:
    """A chain in a minimal interpreter: slots, a queue of ready steps, awaited calls."""

    async def inc(x: int) -> int:
        return x + 1

    async def run() -> list[int]:
        slots, ready, waits = [0] * (n + 1), [0], [0] + [1] * n
        while ready:
            number = ready.pop()
            slots[number] = await inc(**{"x": slots[number - 1] if number else 0})
            if number < n:
                waits[number + 1] -= 1
                if not waits[number + 1]:
                    ready.append(number + 1)
        return slots

    return lambda: asyncio.Runner().run(run())


def workloads(folder: Path) -> list[Workload]:
    """All of them, the floor first."""
    from run import journaled, local  # noqa: PLC0415

    import plans  # noqa: PLC0415 - only the process that is counted needs all of this
    from callsheet.frontends.ltp import parse  # noqa: PLC0415
    from callsheet.machine import compile_plan  # noqa: PLC0415
    from callsheet.passes import check  # noqa: PLC0415
    from callsheet.store import Durability  # noqa: PLC0415

    def driven(plan: plans.Plan) -> Callable[[], object]:
        return local(compile_plan(plan, plans.FACTS), 1)

    chain, text = plans.chain(STEPS), plans.text(STEPS)
    program = compile_plan(chain, plans.FACTS)
    return [
        Workload(FLOOR, STEPS, interpreted(STEPS)),
        Workload("chain", STEPS, driven(chain)),
        Workload("fan-out", STEPS, driven(plans.fan_out(STEPS))),
        Workload("foreach", STEPS, driven(plans.each(STEPS))),
        Workload("journal", STEPS, journaled(chain, program, Durability.NORMAL, folder, 1)),
        Workload("parse and check", STEPS, lambda: check(parse(text).require())),
    ]


def work() -> None:
    """Execute each workload between marks that callgrind sees; run under callgrind.

    Twice before that, uncounted: what is done once in a process is no part of it, and the interpreter has
    specialized its code. What is there by then is not looked through for cycles: when the collector's turn
    comes is chance. Nor does the clock, which is fifty times as fast here, make it leave turns to others or
    look whether the journal is still in its place.
    """
    from callsheet.runtime import concurrent_calls, local  # noqa: PLC0415 - as above
    from callsheet.store import connections  # noqa: PLC0415 - as above

    for module in (concurrent_calls, local):
        setattr(module, "_SECONDS_BETWEEN_YIELDS", 3_600.0)  # noqa: B010 - it is nobody else's
    setattr(connections, "_BETWEEN_LOOKS", 3_600.0)  # noqa: B010 - as above
    with tempfile.TemporaryDirectory() as folder:
        found = workloads(Path(folder))
        for workload in found:
            for _ in range(2):
                workload.once()
        gc.collect()
        gc.freeze()
        start_counting()
        for workload in found:
            os.getloadavg()
            workload.once()
            os.getloadavg()


def start_counting() -> None:
    """Let callgrind count from now on: the imports before it would take most of the time.

    Raises RuntimeError if it could not be told.
    """
    with subprocess.Popen(
        ["callgrind_control", "--instr=on", str(os.getpid())], stdout=subprocess.PIPE
    ) as told:
        while told.poll() is None:
            pass  # valgrind listens while its program works
    if told.returncode:
        raise RuntimeError("callgrind_control could not start the counting")


def count() -> dict[str, float]:
    """Instructions per step of each workload. Raises RuntimeError where they cannot be counted."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise RuntimeError("valgrind is not installed")
    names = [FLOOR, "chain", "fan-out", "foreach", "journal", "parse and check"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = [
            *(
                valgrind,
                "--tool=callgrind",
                f"--callgrind-out-file={out}",
                "--dump-before=getloadavg",
                "--instr-atstart=no",
            ),
            *(sys.executable, __file__, "--work"),
        ]
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
        if done.returncode:
            raise RuntimeError(f"callgrind could not count:\n{done.stderr[-2_000:]}")
        parts = [_instructions(Path(f"{out}.{part}")) for part in range(1, 2 * len(names) + 1)]
    return {name: parts[2 * i + 1] / STEPS for i, name in enumerate(names)}


def _instructions(part: Path) -> int:
    found = re.search(r"^(?:summary|totals): (\d+)", part.read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError(f"no count in {part.name}")
    return int(found[1])


def ratios(counts: dict[str, float]) -> dict[str, float]:
    """The ratio of each workload to the floor of the same run."""
    return {name: round(found / counts[FLOOR], 2) for name, found in counts.items() if name != FLOOR}


def worse(now: dict[str, float], recorded: dict[str, float]) -> list[Worse]:
    """The workloads that exceed their records."""
    return [
        Worse(name, ratio, recorded[name])
        for name, ratio in now.items()
        if ratio > recorded[name] * TOLERANCE
    ]


def main() -> int:
    """Count, print, and compare with the record; returns 1 if a workload has become slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="write the ratios to counts.json instead of comparing"
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
        return 0
    counts = count()
    now = ratios(counts)
    print("instructions per step, and the ratio to the floor")
    for name, found in counts.items():
        print(f"{name:16} {found:10,.0f} {now.get(name, 1.0):8.2f}")
    if given.record:
        RECORDED.write_text(json.dumps(now, indent=1) + "\n")
        return 0
    failed = worse(now, json.loads(RECORDED.read_text()))
    for name, ratio, before in failed:
        print(f"{name}: {ratio:.2f} times the floor; recorded: {before:.2f}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
