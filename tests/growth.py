"""Measures whether a parser's time grows linearly with its text."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SMALL = 3_000
TRIES = 3


def takes_linear_time(read: Callable[[str], object], around: str, piece: str) -> bool:
    """Whether eight times the text takes at most about eight times as long.

    A square would take 64 times as long. Of several tries one is enough.
    """
    short, long = (around.format(piece * (size // len(piece))) for size in (SMALL, 8 * SMALL))
    return any(seconds(lambda: read(long)) < 25 * seconds(lambda: read(short)) + 0.05 for _ in range(TRIES))


def seconds(work: Callable[[], object]) -> float:
    """The CPU seconds of a piece of work alone.

    Threads that other tests left behind are not counted, nor is a collection of the garbage that
    thousands of tests made.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work()
        return time.thread_time() - began
    finally:
        if collects:
            gc.enable()
