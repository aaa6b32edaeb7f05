"""One run that a host carries, from its place in the queue to where it stands still.

In: what is to be done with the run, a place among those that may be under way. Out: its outcome; and a bell
that rings whenever something of it has been written down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver

Work = Callable[[Watch], Awaitable[RunOutcome]]
"""Carries the run on, watched so, as far as it goes."""


class Stage(StrEnum):
    """Where a run is that a host carries."""

    QUEUED = "queued"
    RUNNING = "running"


class Bell:
    """Tells those who wait that something has happened since they began to."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def ring(self) -> None:
        """Wake all who wait."""
        rung, self._next = self._next, asyncio.Event()
        rung.set()

    def hear(self) -> asyncio.Event:
        """What the next ring sets."""
        return self._next


class Carried:
    """A run that is queued or under way; made with the work, on the event loop that it belongs to."""

    def __init__(self, run_id: str, places: asyncio.Semaphore, work: Work) -> None:
        self.run_id = run_id
        self.stage = Stage.QUEUED
        self.bell = Bell()
        self._places = places
        self._driver: LocalDriver | None = None
        self._reason: str | None = None
        self.task = asyncio.create_task(self._carry(work), name=f"callsheet run {run_id}")
        self.task.add_done_callback(lambda _: self.bell.ring())

    async def _carry(self, work: Work) -> RunOutcome:
        async with self._places:
            self.stage = Stage.RUNNING
            self.bell.ring()
            return await work(Watch(after_batch=self._wrote, on_driver=self._drives, hears_all=False))

    async def _wrote(self) -> None:
        self.bell.ring()

    def _drives(self, driver: LocalDriver) -> None:
        self._driver = driver
        if self._reason is not None:
            driver.cancel(self._reason)

    def cancel(self, reason: str) -> None:
        """End the run for good as soon as it is driven; one that is queued leaves the queue as it stands."""
        self._reason = self._reason or reason
        if self._driver is not None:
            self._driver.cancel(self._reason)
        elif self.stage is Stage.QUEUED:
            self.task.cancel()

    async def interrupt(self) -> None:
        """Stop without an end, and wait until it has stopped; its journal carries it on."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def stopped(self, patience: float | None = None) -> bool:
        """Wait until it goes on no more, up to so many seconds; whether it does not."""
        done, _ = await asyncio.wait({self.task}, timeout=patience)
        return bool(done)
