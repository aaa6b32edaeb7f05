"""How fast commits follow one another: whether a tail that is synced is worth having."""

from __future__ import annotations

from collections.abc import Callable

NEAR = 0.05
"""Seconds between two commits of which the second is quick: so long may what is in a tail be unseen."""
ENOUGH = 16
"""So many quick commits one after the other make a tail worth its making."""


class Pace:
    """Counts the commits that come right after one another."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = float("-inf")
        self._quick = 0

    def step(self) -> bool:
        """Note a commit; gives whether it is the last of many quick ones.

        What comes more slowly had better be written straight into the database: from a tail it would be
        brought there by itself, with a second sync.
        """
        now = self._clock()
        self._quick = self._quick + 1 if now - self._last < NEAR else 0
        self._last = now
        return self._quick >= ENOUGH
