"""Chooses the number of threads for a model from the load of the machine."""

from __future__ import annotations

import os

MOST = 8
"""Small models do not get faster with more threads."""


def threads_now() -> int:
    """The number of idle cores, by the load of the last minute."""
    try:
        load = os.getloadavg()[0]
    except OSError:  # not available on some systems
        load = 0.0
    return free_threads(_cores(), load)


def free_threads(cores: int, load: float) -> int:
    """The cores that a load leaves idle: at least 1, at most 8.

    >>> free_threads(2, 0.1), free_threads(2, 1.4), free_threads(64, 3.0)
    (2, 1, 8)
    """
    return max(1, min(MOST, round(cores - load)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
