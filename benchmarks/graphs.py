"""Measures how the cost of JSON plans grows with their size: `python -m benchmarks.graphs`.

Each kind of plan in four sizes up to 100,000 steps, each operation on it once. Prints the microseconds of CPU
per step, and the exponent of the total cost (1 is proportional). Plans with errors show what a diagnostic
costs.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.measure import exponent

from callsheet.frontends.dag import parse_dag
from callsheet.ir import Plan
from callsheet.machine import Command, Event, Limits, Machine, Succeeded, compile_plan
from callsheet.machine.forecasting import foresee
from callsheet.passes import check
from callsheet.runtime.simulated import Simulation
from callsheet.views.mermaid import mermaid
from callsheet.views.terminal import LevelRows, terminal_graph

SIZES = (12_500, 25_000, 50_000, 100_000)


def _step(index: object, after: list[int], read: list[int]) -> dict[str, Any]:
    args = {f"a{n}": f"${{v{n}}}" for n in read}
    return {
        "index": str(index),
        "title": f"Step {index}",
        "tool": "work",
        "args": args,
        "depends_on": [str(n) for n in after],
        "result_variable": f"v{index}",
    }


def chain(count: int) -> list[dict[str, Any]]:
    """Each step waits for the one before, and the file has them in reverse."""
    return [_step(n, [n - 1] if n else [], [n - 1] if n else []) for n in reversed(range(count))]


def wide(count: int) -> list[dict[str, Any]]:
    """Concurrent steps, and one that waits for all of them and reads a few."""
    steps = [_step(n, [], []) for n in range(count - 1)]
    return [*steps, _step(count - 1, list(range(count - 1)), list(range(min(5, count - 1))))]


def woven(count: int) -> list[dict[str, Any]]:
    """Each step waits for up to three of the hundred before it and reads one; in any order."""
    chance = random.Random(count)
    steps: list[dict[str, Any]] = []
    for n in range(count):
        low = max(0, n - 100)
        after = sorted(chance.sample(range(low, n), min(n - low, chance.randint(1, 3))))
        steps.append(_step(n, after, after[:1]))
    chance.shuffle(steps)
    return steps


def circle(count: int) -> list[dict[str, Any]]:
    """One circle through all steps."""
    return [_step(n, [(n + 1) % count], []) for n in range(count)]


def unknown(count: int) -> list[dict[str, Any]]:
    """Each step waits for one that does not exist."""
    return [_step(n, [n + count], []) for n in range(count)]


def doubled(count: int) -> list[dict[str, Any]]:
    """Each index twice."""
    return [_step(n % (count // 2), [], []) for n in range(count)]


def strangers(count: int) -> list[dict[str, Any]]:
    """Each step reads a variable of a step that it does not wait for."""
    return [_step(n, [], [(n + 1) % count]) for n in range(count)]


def hostile(count: int) -> list[dict[str, Any]]:
    """Indexes and titles that look like other things: paths, keys, markup, control sequences in titles."""
    names = (
        "../%d",
        "r1/%d@2",
        "%d.0.1",
        "a@%d",
        '"%d"]; click',
        "<b>%d</b>",
        "${v%d}",
        "日本%d\u202e",
        "%d %%2F",
    )
    ids = [names[n % len(names)] % n for n in range(count)]
    steps: list[dict[str, Any]] = []
    for n, index in enumerate(ids):
        step = {**_step(n, [], []), "index": index, "title": f"\x1b[2J{n}"}
        steps.append({**step, "depends_on": [ids[n - 1]] if n else []})
    return steps


GOOD = (chain, wide, woven, hostile)
WRONG = (circle, unknown, doubled, strangers)


def simulated(plan: Plan) -> None:
    """Run the plan in virtual time; raises RuntimeError if it fails."""
    limits = Limits(
        max_steps=10**9, max_calls=None, max_concurrency=8, max_seconds=None, schedule="sequential"
    )

    def answer(command: Command) -> tuple[float, Event]:
        return 1.0, Succeeded(command.key, 1)  # type: ignore[union-attr]

    result = Simulation(Machine(compile_plan(plan), limits), answer).run({})
    if result.error is not None:
        raise RuntimeError(result.error)


def measured(make: Callable[[int], list[dict[str, Any]]], count: int) -> Iterator[tuple[str, float]]:
    """The CPU seconds of each operation on a plan of this size."""
    text = json.dumps({"steps": make(count)})

    def timed(work: Callable[[], object]) -> tuple[Any, float]:
        gc.collect()
        began = time.process_time()
        found = work()
        return found, time.process_time() - began

    read, took = timed(lambda: parse_dag(text))
    yield "read", took
    found, took = timed(lambda: check(read.partial))
    yield "check", took
    if make in WRONG:
        if not (any(d.is_error for d in found) or read.errors):
            raise RuntimeError(f"{make.__name__} was taken for a good plan")
        return
    plan = read.require()
    for name, work in (
        ("terminal", lambda: terminal_graph(plan)),
        ("live picture", lambda: LevelRows(plan)),
        ("Mermaid", lambda: mermaid(plan)),
        ("dry run", lambda: foresee(plan)),
        ("simulated run", lambda: simulated(plan)),
    ):
        yield name, timed(work)[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to 25,000 steps")
    given = parser.parse_args()
    sizes = SIZES[:2] if given.quick else SIZES
    print("µs per step  ", *(f"{size:>8}" for size in sizes), " exponent")
    for make in (*GOOD, *WRONG):
        print(f"{make.__name__}: {(make.__doc__ or '').splitlines()[0]}")
        rows: dict[str, list[tuple[int, float]]] = {}
        for size in sizes:
            for name, took in measured(make, size):
                rows.setdefault(name, []).append((size, took / size))
        for name, points in rows.items():
            costs = " ".join(f"{unit * 1e6:8.1f}" for _, unit in points)
            print(f"  {name:14}{costs} {exponent(points):8.2f}")


if __name__ == "__main__":
    main()
