"""A run that goes on: its events, its result, and the ways to end or to stop it.

In: the coroutine of the run. Out: events as an async iterator. The run is a task of its own: it
does not depend on who reads its events or waits for its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType

from callsheet.api.errors import RunInterrupted
from callsheet.api.events import RunEvent
from callsheet.api.result import RunResult
from callsheet.api.steps import StepLog, StepResult
from callsheet.api.stream import EventStream
from callsheet.ir import JSON
from callsheet.machine import Usage
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.store import RunStatus


class RunHandle(AsyncIterator[RunEvent]):
    """A run under way, made by `Runtime.start`.

    Iterating gives each event once, in order, and goes on where it was left; it ends with the
    run, and raises what `result` raises. A reader that is slow or leaves holds nothing up. As an
    async context manager it waits for the run's end; an exception in its block interrupts the
    run, which can then be resumed from its journal.

        async with runtime.start(plan) as run:
            async for event in run:
                print(event)
        print((await run.result()).response)
    """

    def __init__(
        self,
        run_id: str,
        stream: EventStream,
        work: Callable[[Watch], Awaitable[RunResult]],
        inputs: Mapping[str, JSON],
        *,
        is_recorded: bool,
        log: StepLog | None = None,
    ) -> None:
        self.run_id = run_id
        """The run's id, as the journal knows it."""
        self._stream = stream
        self._log = log
        self._inputs = inputs
        self._is_recorded = is_recorded
        self._driver: LocalDriver | None = None
        self._begun = False
        self._reason: str | None = None
        self._error_is_told = False
        self._task = asyncio.create_task(self._carry_out(work), name=f"callsheet run {run_id}")
        self._task.add_done_callback(lambda _: stream.close())

    @property
    def is_done(self) -> bool:
        """Whether the run goes on no more."""
        return self._task.done()

    def step(self, index: str) -> StepResult | None:
        """What became of a step of a plan of dependencies, None until it has ended."""
        return None if self._log is None else self._log.get(index)

    def title(self, index: str) -> str:
        """The title of a step of a plan of dependencies, also of one that a planner has added."""
        return "" if self._log is None else self._log.title(index)

    def calls_begun(self) -> Usage:
        """Of a plan of dependencies: the calls that have left so far, also of a run that was interrupted."""
        return Usage() if self._log is None else self._log.calls_begun()

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the run goes on no more."""
        self._task.add_done_callback(lambda _: tell())

    async def result(self) -> RunResult:
        """The result, as soon as there is one; may be asked more than once.

        Cancelling this call leaves the run alone. Raises PlanError for a plan that must not run,
        CallsheetError for tools or a journal that cannot be used, RunInterrupted for a run that
        was interrupted.
        """
        await asyncio.wait({self._task})
        if not self._task.cancelled() and self._task.exception() is None:
            return self._task.result()
        self._error_is_told = True
        if self._task.cancelled():
            raise RunInterrupted(self.run_id, is_recorded=self._is_recorded)
        return self._task.result()

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run for good: its status becomes `cancelled`, calls under way are given up.

        Of several calls the first counts; a run that has ended stays as it is. To be called on
        the thread of the event loop, as everything here.
        """
        if self._reason is not None or self.is_done:
            return
        self._reason = reason
        if self._driver is not None:
            self._driver.cancel(reason)
        elif self._begun:
            self._task.cancel()

    async def interrupt(self) -> None:
        """Stop the run without an end, and wait until it has stopped.

        What has happened stays in the journal; `Runtime.resume` carries the run on.
        """
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _carry_out(self, work: Callable[[Watch], Awaitable[RunResult]]) -> RunResult:
        self._begun = True
        watch = Watch(self._stream.note, self._stream.release, self._on_driver)
        try:
            result = self._stopped() if self._reason is not None else await work(watch)
        except asyncio.CancelledError:
            if self._reason is None or self._driver is not None:
                raise
            result = self._stopped()
        self._stream.end(result)
        return result

    def _on_driver(self, driver: LocalDriver) -> None:
        self._driver = driver
        self._stream.goes_on()
        if self._reason is not None:
            driver.cancel(self._reason)

    def _stopped(self) -> RunResult:
        """The result of a run that was cancelled before anything of it happened."""
        return RunResult(self.run_id, RunStatus.CANCELLED, variables=dict(self._inputs), error=self._reason)

    def __aiter__(self) -> RunHandle:
        return self

    async def __anext__(self) -> RunEvent:
        event = await self._stream.next()
        if event is None:
            await self.result()
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> RunHandle:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if not self._error_is_told:
                await self._finish()
            return
        await self.interrupt()
        if not self._task.cancelled():
            self._task.exception()  # it has been looked at: what the block raised counts

    async def _finish(self) -> None:
        """Wait for the end; who is cancelled meanwhile leaves no run behind."""
        try:
            await self.result()
        except asyncio.CancelledError:
            await self.interrupt()
            raise

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id}, {'ended' if self.is_done else 'under way'}>"
