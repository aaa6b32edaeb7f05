"""How many threads a model may take: one where the machine has other work, more where it is idle."""

from __future__ import annotations

import os

MOST = 8
"""Beyond so many threads small models gain nothing."""


def threads_now() -> int:
    """The threads that are free by the load of the last minute."""
    try:
        load = os.getloadavg()[0]
    except OSError:  # some systems do not tell
        load = 0.0
    return free_threads(_cores(), load)


def free_threads(cores: int, load: float) -> int:
    """The cores that a load leaves free: at least 1, at most 8.

    >>> free_threads(2, 0.1), free_threads(2, 1.4), free_threads(64, 3.0)
    (2, 1, 8)
    """
    return max(1, min(MOST, round(cores - load)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
