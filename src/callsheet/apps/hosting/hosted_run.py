"""One run of a host, from its place in the queue until it stops.

In: the work of the run, a semaphore for running runs. Out: its outcome, and a signal whenever events have
been written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver

Work = Callable[[Watch], Awaitable[RunOutcome]]
"""Runs or resumes the run, with this watch, until it ends or stops."""


class Stage(StrEnum):
    """Whether a run of a host is queued or running."""

    QUEUED = "queued"
    RUNNING = "running"


class ChangeSignal:
    """Wakes all tasks that wait for the next change."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiting tasks."""
        change, self._next = self._next, asyncio.Event()
        change.set()

    def next(self) -> asyncio.Event:
        """The event that the next `notify` sets."""
        return self._next


class HostedRun:
    """A queued or running run, as a task on the current event loop."""

    def __init__(self, run_id: str, slots: asyncio.Semaphore, work: Work) -> None:
        self.run_id = run_id
        self.stage = Stage.QUEUED
        self.changed = ChangeSignal()
        self._slots = slots
        self._driver: LocalDriver | None = None
        self._reason: str | None = None
        self.task = asyncio.create_task(self._run_queued(work), name=f"callsheet run {run_id}")
        self.task.add_done_callback(lambda _: self.changed.notify())

    async def _run_queued(self, work: Work) -> RunOutcome:
        async with self._slots:
            self.stage = Stage.RUNNING
            self.changed.notify()
            return await work(Watch(after_batch=self._wrote, on_driver=self._drives, hears_all=False))

    async def _wrote(self) -> None:
        self.changed.notify()

    def _drives(self, driver: LocalDriver) -> None:
        self._driver = driver
        if self._reason is not None:
            driver.cancel(self._reason)

    def cancel(self, reason: str) -> None:
        """End the run for good once its driver has started; a queued run just leaves the queue."""
        self._reason = self._reason or reason
        if self._driver is not None:
            self._driver.cancel(self._reason)
        elif self.stage is Stage.QUEUED:
            self.task.cancel()

    async def interrupt(self) -> None:
        """Stop the run without ending it, and wait until it has stopped; it can be resumed."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def stopped(self, patience: float | None = None) -> bool:
        """Wait at most `patience` seconds until the run has stopped; whether it has."""
        done, _ = await asyncio.wait({self.task}, timeout=patience)
        return bool(done)
