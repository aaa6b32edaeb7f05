"""Measures whether a parser's time grows linearly with its text."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SMALL = 3_000
TRIES = 3


def takes_linear_time(read: Callable[[str], object], around: str, piece: str) -> bool:
    """Whether sixteen times the text takes at most about sixteen times as long.

    A square would take 256 times as long. Of several tries one is enough.
    """
    short, long = (around.format(piece * (size // len(piece))) for size in (SMALL, 16 * SMALL))
    return any(seconds(lambda: read(long)) < 60 * seconds(lambda: read(short)) + 0.1 for _ in range(TRIES))


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
