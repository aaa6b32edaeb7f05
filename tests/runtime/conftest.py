"""Fixtures for runs: a clock that is advanced instead of waiting."""

from __future__ import annotations

import time

import pytest


class Clock:
    """The monotonic clock of this process and of its event loops, which can be advanced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real, self._ahead = time.monotonic, 0.0
        monkeypatch.setattr(time, "monotonic", self.now)

    def now(self) -> float:
        """The current seconds."""
        return self._real() + self._ahead

    def go_on(self, seconds: float) -> None:
        """Advance by this many seconds at once."""
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)
