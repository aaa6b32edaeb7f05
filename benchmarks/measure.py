"""Measures the least time of interleaved rounds, and how a cost grows."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import NamedTuple


class Case(NamedTuple):
    """One thing to measure: its row, its column, how much work it does, and the work.

    The clock is that of the process's CPU, or for work that waits for a disk the wall's.
    """

    row: str
    column: str
    units: int
    work: Callable[[], object]
    clock: Callable[[], float] = time.process_time


def measure(cases: list[Case], rounds: int) -> dict[tuple[str, str], float]:
    """The least seconds per unit of each case; every round runs every case once."""
    best: dict[tuple[str, str], float] = {}
    gc.collect()
    gc.freeze()  # the plans themselves are not to be looked through again and again
    for _ in range(rounds):
        for case in cases:
            gc.collect()
            began = case.clock()
            case.work()
            spent = (case.clock() - began) / case.units
            place = (case.row, case.column)
            best[place] = min(best.get(place, math.inf), spent)
    return best


def exponent(points: list[tuple[int, float]]) -> float:
    """The exponent by which the total cost grows with the size: 1 is linear, 2 is quadratic.

    `points` are sizes with the cost of a unit; a least-squares line through their logarithms.
    """
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(size * unit) for size, unit in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
