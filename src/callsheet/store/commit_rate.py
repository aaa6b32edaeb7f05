"""Measures how quickly commits follow one another, to decide whether a synced tail is worthwhile."""

from __future__ import annotations

from collections.abc import Callable

NEAR = 0.05
"""A commit is quick if fewer than this many seconds have passed since the one before."""
ENOUGH = 16
"""From this many quick commits in a row on, a tail is worthwhile."""


class CommitRate:
    """Counts quick commits in a row."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = float("-inf")
        self._quick = 0

    def step(self) -> bool:
        """Count a commit; whether it should go to a synced tail.

        Slower commits are better written straight to the database: each would be moved there from the tail on
        its own, with a second sync.
        """
        now = self._clock()
        self._quick = self._quick + 1 if now - self._last < NEAR else 0
        self._last = now
        return self._quick >= ENOUGH
