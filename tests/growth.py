"""Whether a reader's time grows with its text, and not with the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable

SMALL = 5_000
TRIES = 3


def grows_with_the_text(read: Callable[[str], object], around: str, piece: str) -> bool:
    """Whether sixteen times the text takes at most about sixteen times as long.

    A square would take 256 times as long. Of several tries one is enough: a collection of garbage in
    the middle of one says nothing of the reader.
    """
    short, long = (around.format(piece * (size // len(piece))) for size in (SMALL, 16 * SMALL))
    return any(seconds(read, long) < 60 * seconds(read, short) + 0.1 for _ in range(TRIES))


def seconds(read: Callable[[str], object], text: str) -> float:
    """The CPU seconds that it takes to read a text."""
    began = time.process_time()
    read(text)
    return time.process_time() - began
