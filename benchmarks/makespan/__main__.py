"""Measures how long random graphs take, relative to the least possible: `python -m benchmarks.makespan`.

Virtual time measures the scheduler alone, exactly. On the real clock steps sleep 1 to 50 ms; each graph is
run several times, and the least time counts. All figures of a line are of the same graphs.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.makespan.graphs import Work, random_work
from benchmarks.makespan.running import by_hand, on_the_clock, ranks_for, simulated
from benchmarks.makespan.schedules import best_list_schedule, level_barrier, lower_bound

SLOTS = (None, 8, 3)


class Row(NamedTuple):
    """One graph and number of slots: the least possible time, and the time of each schedule."""

    bound: float
    best: float
    """The best of many list schedules, computed."""
    took: dict[str, float]


FIRST, AGAIN, BY_HAND, BARRIER = (
    "callsheet, a first run",
    "callsheet, a second run",
    "asyncio by hand, times known",
    "level by level, computed",
)
"""A first run knows nothing of how long steps take; a second one was told by the first."""


def virtual_row(work: Work, slots: int | None) -> Row:
    """All figures of a graph in virtual time."""
    first, again = simulated(work, slots), simulated(work, slots, ranks_for(work, slots))
    return _row(work, slots, {AGAIN: again, FIRST: first})


def real_row(work: Work, slots: int | None, rounds: int) -> Row:
    """All figures of a graph on the real clock, the least of interleaved rounds."""
    ranks = ranks_for(work, slots)
    ways: dict[str, Callable[[], float]] = {
        BY_HAND: lambda: by_hand(work, slots),
        AGAIN: lambda: on_the_clock(work, slots, ranks),
        FIRST: lambda: on_the_clock(work, slots),
    }
    turns = [{name: run() for name, run in ways.items()} for _ in range(rounds)]
    return _row(work, slots, {name: min(turn[name] for turn in turns) for name in ways})


def _row(work: Work, slots: int | None, took: dict[str, float]) -> Row:
    bound = lower_bound(work, slots)
    best = bound if slots is None else best_list_schedule(work, slots)
    return Row(bound, best, {**took, BARRIER: level_barrier(work, slots)})


def _spread(ratios: Sequence[float]) -> str:
    ordered = sorted(ratios)
    return f"{median(ordered):8.3f}{ordered[int(0.95 * (len(ordered) - 1))]:8.3f}{ordered[-1]:8.3f}"


def show(name: str, rows: Sequence[Row]) -> None:
    """Print the ratios of each schedule: median, 95th percentile, maximum."""
    print(f"\n{name:34}over the bound            over the best list schedule")
    print(f"{'':32}{'  median     95%    most' * 2}  within 5 %")
    for way in rows[0].took:
        over_bound = [row.took[way] / row.bound for row in rows]
        over_best = [row.took[way] / row.best for row in rows]
        within = sum(ratio <= 1.05 for ratio in over_best) / len(rows)
        print(f"  {way:30}{_spread(over_bound)}{_spread(over_best)}     {within:7.1%}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=200, help="graphs in virtual time")
    parser.add_argument("--real", type=int, default=30, help="graphs on the real clock")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each graph on the real clock")
    given = parser.parse_args()
    cores = os.cpu_count()
    print(f"Python {platform.python_version()}, {platform.machine()}, {cores} cores, {sys.platform}")
    for slots in SLOTS:
        works = [random_work(seed) for seed in range(given.graphs)]
        show(f"{given.graphs} graphs, {_slots(slots)}", [virtual_row(work, slots) for work in works])
    for slots in SLOTS if given.real else ():
        works = [random_work(seed) for seed in range(given.real)]
        rows = [real_row(work, slots, given.rounds) for work in works]
        show(f"{given.real} graphs, real clock, {_slots(slots)}", rows)


def _slots(slots: int | None) -> str:
    return "no limit" if slots is None else f"{slots} slots"


if __name__ == "__main__":
    main()
