"""Time limits of cases."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_WALL_TIMES_CPU = 10
"""On a busy machine the wall clock runs this much longer than the CPU's before a case is given up."""
_AGAIN = 0.5
"""Seconds between further signals, for a product that swallows the first."""


class OutOfTime(KeyboardInterrupt):
    """A case exceeded its time; a BaseException, so that nothing turns it into a failed step."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after so many seconds of CPU, or ten times as many in all."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = {number: signal.signal(number, give_up) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN)
    signal.setitimer(signal.ITIMER_REAL, _WALL_TIMES_CPU * seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
