"""The runs of a host: the running ones, the queue, what follows when one stops, those of an ended process.

Of a run it knows which stage it is in, the errors if it could not run, and signals whenever events have been
written. To be used on the thread of the host's event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from callsheet.apps.hosting.collector import CollectorControl, CollectorHold
from callsheet.apps.hosting.service import AS_RECORDED, HostConfig, ResumeOptions, resume_in_host
from callsheet.apps.masking import Masker
from callsheet.apps.operations.live_calls import LiveCalls, shared
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports
from callsheet.runtime.inbox import asks_of
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.runs import BegunRun
from callsheet.store import Journal, RunStatus
from callsheet.store.journal_paths import JournalPaths, attempts_of, is_owned, place_of
from callsheet.store.runs import RunInfo
from callsheet.store.start import HOST

_log = logging.getLogger("callsheet.hosting")


class LeftRuns(NamedTuple):
    """The runs that a host left: to resume at once, those it died of, and those that wait, with questions."""

    interrupted: Sequence[str] = ()
    given_up: Sequence[str] = ()
    waiting: Mapping[str, Sequence[PendingAsk]] = {}


def runs_left_by(name: str, journal: Journal) -> LeftRuns:
    """The runs that hosts of this name left in a journal; none for an empty name."""
    if not name:
        return LeftRuns()
    place = place_of(journal.path)
    interrupted = [
        info.run_id
        for info in journal.runs(status=RunStatus.RUNNING)
        if not is_owned(place, info.run_id) and _is_of(name, journal, info)
    ]
    waiting = {
        info.run_id: _asks(journal, info)
        for info in journal.runs(status=RunStatus.WAITING)
        if _is_of(name, journal, info)
    }
    return LeftRuns(interrupted[::-1], waiting=waiting)


def _is_of(name: str, journal: Journal, info: RunInfo) -> bool:
    try:
        start = next(iter(journal.events(info.run_id, lenient=True)), None)
    except CallsheetError as error:
        _log.warning("run %s cannot be looked at: %s", info.run_id, error)
        return False
    launch: dict[str, object] = {} if start is None or start.body is None else start.body.get("launch") or {}
    return launch.get(HOST) == name


def _asks(journal: Journal, info: RunInfo) -> Sequence[PendingAsk]:
    try:
        return asks_of(journal, info.run_id)
    except CallsheetError as error:
        _log.warning("the inbox of run %s cannot be read: %s", info.run_id, error)
        return ()


MAX_ATTEMPTS = 3
"""How many attempts in a row may end with the death of the server."""
FORGIVEN_AFTER = 600.0
"""Seconds after which a death of the server is no longer attributed to the run."""


class Attempts:
    """The attempts of servers to resume runs of one journal that an earlier server left."""

    def __init__(self, place: JournalPaths) -> None:
        self._place = place
        self._open: set[str] = set()

    def count(self, run_id: str) -> int:
        """How many attempts in a row have not ended."""
        with suppress(OSError):
            return self._path(run_id).stat().st_size
        return 0

    def begin(self, run_id: str) -> None:
        """Record an attempt; if its file cannot be written, it is not counted."""
        self._open.add(run_id)
        with suppress(OSError):
            self._place.run_locks.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path(run_id), flags, 0o600)
            try:
                os.write(fd, b".")
            finally:
                os.close(fd)

    def close(self, run_id: str) -> None:
        """End an attempt of this process, in whatever way, and reset the count of its run."""
        if run_id in self._open:
            self._open.remove(run_id)
            self.forget(run_id)

    def forget(self, run_id: str) -> None:
        """Reset the count of a run, because a person has asked for it to be resumed."""
        with suppress(OSError):
            self._path(run_id).unlink()

    def forget_open(self) -> None:
        """End all attempts of this process."""
        for run_id in tuple(self._open):
            self.close(run_id)

    def _path(self, run_id: str) -> Path:
        return attempts_of(self._place, run_id)


def given_up(run_id: str, count: int) -> CallsheetError:
    """The error for a run that is no longer resumed automatically (API050)."""
    return CallsheetError.single(
        "API050",
        f"run {run_id} was resumed {count} times and the server died each time: it is not resumed again",
        help=f"find the cause, then: callsheet resume {run_id}, or POST /v1/runs/{run_id}/resume",
    )


Work = Callable[[Watch, LiveCalls], Awaitable[RunOutcome]]
"""Runs or resumes the run, with this watch, until it ends or stops; its tools report to the live calls."""


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
        self.calls = LiveCalls()
        self._slots = slots
        self._driver: LocalDriver | None = None
        self._reason: str | None = None
        self.task = asyncio.create_task(self._run_queued(work), name=f"callsheet run {run_id}")
        self.task.add_done_callback(lambda _: self.changed.notify())

    async def _run_queued(self, work: Work) -> RunOutcome:
        async with self._slots:
            self.stage = Stage.RUNNING
            self.changed.notify()
            return await work(
                Watch(after_batch=self._wrote, on_driver=self._drives, hears_all=False), self.calls
            )

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

    def look(self) -> None:
        """Let the driver look at once for what it is asked by messages."""
        if self._driver is not None and self._driver.on_asked is not None:
            self._driver.on_asked()

    async def interrupt(self) -> None:
        """Stop the run without ending it, and wait until it has stopped; it can be resumed."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def stopped(self, patience: float | None = None) -> bool:
        """Wait at most `patience` seconds until the run has stopped; whether it has."""
        done, _ = await asyncio.wait({self.task}, timeout=patience)
        return bool(done)


_LATE = 0.05
"""Seconds added to the deadline of a question, so that it has certainly passed."""


class Wakeups:
    """The timers of waiting runs; `asks` returns the questions of a run, `go_on` resumes it."""

    def __init__(
        self, asks: Callable[[str], Awaitable[list[PendingAsk]]], go_on: Callable[[str], None]
    ) -> None:
        self._asks = asks
        self._go_on = go_on
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._has_stopped = False

    def schedule(self, run_id: str, waiting: Sequence[PendingAsk]) -> None:
        """Arrange that a waiting run is resumed if it is already answered, or when a question times out."""
        if not waiting or self._has_stopped:
            return
        dues = [ask.until for ask in waiting if ask.until is not None]
        if dues:
            delay = max(0.0, min(dues) - time.time()) + _LATE
            self._alarms[run_id] = asyncio.get_running_loop().call_later(delay, self._go_on, run_id)
        task = asyncio.create_task(self._look(run_id))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def cancel(self, run_id: str) -> None:
        """Cancel the timer of a run that has been resumed."""
        alarm = self._alarms.pop(run_id, None)
        if alarm is not None:
            alarm.cancel()

    def stop(self) -> None:
        """Cancel all timers and accept no more runs."""
        self._has_stopped = True
        for alarm in self._alarms.values():
            alarm.cancel()

    async def close(self) -> None:
        """Wait until the checks in progress have finished."""
        await asyncio.gather(*self._looking)

    async def _look(self, run_id: str) -> None:
        """Resume a run that was answered while it was about to stop, or while no process ran it."""
        try:
            if any(ask.is_answered for ask in await self._asks(run_id)):
                self._go_on(run_id)
        except CallsheetError as error:
            _log.warning("the inbox of run %s cannot be read: %s", run_id, error)


_MOST_PROBLEMS = 1_000
_SETTLED = 1.0
"""Seconds after which nobody is busy any more with the end of a run."""


class Capacity(NamedTuple):
    """How many runs of a host are in progress at once, and how many more may wait."""

    running: int = 16
    queued: int = 1_000


class Here(NamedTuple):
    """A new run that this process owns, and the ports through which it is driven."""

    begun: BegunRun
    ports: Ports


class RunQueue:
    """Carries as many runs at once as its capacity allows, while others wait.

    `asks` returns the open questions of a run.
    """

    def __init__(
        self,
        journal: Journal,
        config: HostConfig,
        masker: Masker,
        asks: Callable[[str], Awaitable[list[PendingAsk]]],
        capacity: Capacity,
    ) -> None:
        self._journal = journal
        self._config = config
        self._masker = masker
        self._most = capacity.running + capacity.queued
        self._at_once = capacity.running
        self._slots = asyncio.Semaphore(capacity.running)
        self._runs: dict[str, HostedRun] = {}
        self._problems: dict[str, CallsheetError] = {}
        self._wakeups = Wakeups(asks, self.go_on)
        self._attempts = Attempts(place_of(journal.path))
        self._forgiving: asyncio.TimerHandle | None = None
        self._collector = CollectorControl(self._large_runs_gone)
        self._beginning = 0
        """The number of runs that are being recorded now."""
        self._is_closing = False

    def _large_runs_gone(self) -> None:
        """Let go of what is kept of the last large run, and soon return its memory."""
        self._journal.forget_plan()
        asyncio.get_running_loop().call_later(_SETTLED, self._collector.give_back)

    async def close(self, patience: float) -> None:
        """Refuse further runs, wait `patience` seconds for the running ones, then interrupt them."""
        self._is_closing = True
        self._wakeups.stop()
        if self._forgiving is not None:
            self._forgiving.cancel()
        under_way = [run.task for run in self._runs.values() if run.stage is Stage.RUNNING]
        for run in tuple(self._runs.values()):
            if run.stage is Stage.QUEUED:
                await run.interrupt()
        if patience > 0 and under_way:
            await asyncio.wait(under_way, timeout=patience)
        await asyncio.gather(*(run.interrupt() for run in tuple(self._runs.values())))
        await self._wakeups.close()

    # ------------------------------------------------------------ lookup

    def get(self, run_id: str) -> HostedRun | None:
        """The run if it is queued or running here, else None."""
        return self._runs.get(run_id)

    def all(self) -> list[HostedRun]:
        """The runs that are queued or running here."""
        return [*self._runs.values()]

    def problem(self, run_id: str) -> CallsheetError | None:
        """Why the last attempt to run it here failed; None if it did not."""
        return self._problems.get(run_id)

    # ------------------------------------------------------------ capacity

    def check_open(self) -> None:
        """Raise CallsheetError if no run is accepted: API016 when closing, API011 if the queue is full."""
        if self._is_closing:
            raise CallsheetError.single(
                "API016",
                "callsheet is shutting down and accepts no more runs",
                help="try again when it is running again",
            )
        count = len(self._runs) + self._beginning
        if count >= self._most:
            raise CallsheetError.single(
                "API011",
                f"{count} runs are in progress or queued, which is the limit",
                help="try again when some have ended",
            )

    @contextmanager
    def reserved(self) -> Generator[None]:
        """Reserve a place for a run while it is recorded; raises as `check_open` does."""
        self.check_open()
        self._beginning += 1
        try:
            yield
        finally:
            self._beginning -= 1

    def hold(self, steps: int | None = None) -> CollectorHold:
        """A hold on the garbage collector for a run of so many steps; None is treated as large."""
        return CollectorHold(self._collector, steps)

    # ------------------------------------------------------------ starting and resuming

    def enqueue(
        self,
        run_id: str,
        terms: ResumeOptions,
        hold: CollectorHold | None = None,
        *,
        here: Here | None = None,
        is_revived: bool = False,
    ) -> None:
        """Queue a run that is in the journal, unless the host has been closed meanwhile.

        A new run that is `here` is driven as it is if it can begin now; otherwise it is freed, so that those
        that wait keep nothing open, and resumed from the journal at its turn.
        """
        hold = hold or self.hold()
        if here is not None and (self._is_closing or len(self._runs) >= self._at_once):
            here.begun.close()
            here = None
        if self._is_closing:
            hold.release()
            return
        self._wakeups.cancel(run_id)
        self._problems.pop(run_id, None)
        if not is_revived and here is None:
            self._attempts.forget(run_id)

        async def work(watch: Watch, calls: LiveCalls) -> RunOutcome:
            listener = self._masker.masked_listener(calls)
            if is_revived:
                self._attempts.begin(run_id)
            with shared(calls, self._journal.path, run_id):
                if here is not None:
                    ports = replace(here.ports, listener=listener)
                    return await here.begun.drive(ports, watch, terms.listeners.present, self._config.beside)
                return await resume_in_host(
                    self._journal, run_id, terms, self._masker, watch, self._config, hold, listener
                )

        run = HostedRun(run_id, self._slots, work)
        self._runs[run_id] = run
        if here is not None:
            run.task.add_done_callback(lambda _, begun=here.begun: begun.close())  # also if it never began
        run.task.add_done_callback(lambda _: self._has_stopped(run))
        run.task.add_done_callback(lambda _: hold.release())

    def go_on(self, run_id: str, *, is_revived: bool = False) -> None:
        """Resume a run that has stopped, unless something else is running it; one that is paused stays so."""
        if self._is_closing or run_id in self._runs:
            return
        if is_owned(place_of(self._journal.path), run_id):
            return
        self.enqueue(run_id, AS_RECORDED, is_revived=is_revived)

    def revive(self, left: LeftRuns) -> LeftRuns:
        """Resume the runs that an earlier host left, as far as there is room; returns what was done.

        A run during which the server died repeatedly is not resumed.
        """
        counts = {run_id: self._attempts.count(run_id) for run_id in left.interrupted}
        fatal = [run_id for run_id, count in counts.items() if count >= MAX_ATTEMPTS]
        for run_id in fatal:
            self._problems[run_id] = given_up(run_id, counts[run_id])
        room = max(0, self._most - len(self._runs))
        others = [run_id for run_id in left.interrupted if counts[run_id] < MAX_ATTEMPTS][:room]
        for run_id in others:
            self.go_on(run_id, is_revived=True)
        for run_id, asks in left.waiting.items():
            self._wakeups.schedule(run_id, asks)
        self._forgiving = asyncio.get_running_loop().call_later(FORGIVEN_AFTER, self._attempts.forget_open)
        return left._replace(interrupted=others, given_up=fatal)

    def _has_stopped(self, run: HostedRun) -> None:
        """Remove a run that has stopped, and start what follows from it."""
        del self._runs[run.run_id]
        self._attempts.close(run.run_id)
        task = run.task
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            if task.result().result is None and task.result().pause is None:
                self._wakeups.schedule(run.run_id, task.result().waiting)
            return
        if not isinstance(error, CallsheetError):
            _log.error("run %s has met a bug", run.run_id, exc_info=error)
            error = CallsheetError.single(
                "API013", f"a bug in callsheet has stopped the run: {type(error).__name__}: {error}"
            )
        else:
            summary = "; ".join(f"{d.code}: {d.message}" for d in self._masker.error(error).diagnostics)
            _log.warning("run %s cannot be resumed: %s", run.run_id, summary)
        while len(self._problems) >= _MOST_PROBLEMS:
            del self._problems[next(iter(self._problems))]
        self._problems[run.run_id] = error
