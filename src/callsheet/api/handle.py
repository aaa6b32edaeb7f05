"""`RunHandle`: a run in progress, with its events, its result, and methods to cancel or interrupt it.

In: the coroutine of the run. Out: events as an async iterator. The run is a task of its own and does not
depend on anybody reading its events or awaiting its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType

from callsheet.api.errors import RunInterrupted
from callsheet.api.events import RunEvent
from callsheet.api.observers import Observers
from callsheet.api.result import RunResult
from callsheet.api.steps import StepResult
from callsheet.diagnostics import Diagnostic
from callsheet.ir import JSON
from callsheet.machine import Usage
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.store import RunStatus


class RunHandle(AsyncIterator[RunEvent]):
    """A run in progress, made by `Runtime.start` or `Runtime.start_resume`.

    Iterating yields each event once, in order; a later loop continues where an earlier one stopped. It ends
    with the run and raises what `result` raises. A slow or absent reader does not delay the run. As an async
    context manager the handle waits for the run's end; an exception in the block interrupts the run, which
    can then be resumed from its journal. Use it on the thread of its event loop only.

        async with runtime.start(plan) as run:
            async for event in run:
                print(event)
        print((await run.result()).response)
    """

    def __init__(
        self,
        run_id: str,
        observers: Observers,
        work: Callable[[Watch], Awaitable[RunResult]],
        inputs: Mapping[str, JSON],
        *,
        is_recorded: bool,
    ) -> None:
        self.run_id = run_id
        """The run's id, also in the journal."""
        assert observers.stream is not None
        self._observers = observers
        self._stream = stream = observers.stream
        self._log = observers.log
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
        """Whether the run has ended or stopped."""
        return self._task.done()

    @property
    def has_unread(self) -> bool:
        """Whether events have happened that nobody has read yet."""
        return self._stream.has_unread

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The warnings and hints about the plan, once it was checked; empty for a resumed run."""
        return self._observers.diagnostics

    def step(self, index: str) -> StepResult | None:
        """The result of a step of a dependency plan; None until it has ended, and for other plans."""
        return None if self._log is None else self._log.get(index)

    def title(self, index: str) -> str:
        """The title of a step of a dependency plan, including those that a planner has added."""
        return "" if self._log is None else self._log.title(index)

    def calls_begun(self) -> Usage:
        """The calls of a dependency plan that have been sent so far, also after an interruption."""
        return Usage() if self._log is None else self._log.calls_begun()

    def when_done(self, tell: Callable[[], object]) -> None:
        """Call `tell` when the run has ended or stopped."""
        self._task.add_done_callback(lambda _: tell())

    async def result(self) -> RunResult:
        """Wait for the result; may be awaited more than once.

        Cancelling this call does not affect the run. Raises PlanError for a plan with errors,
        CallsheetError for tools or a journal that cannot be used, RunInterrupted for a run that was
        interrupted.
        """
        await asyncio.wait({self._task})
        if not self._task.cancelled() and self._task.exception() is None:
            return self._task.result()
        self._error_is_told = True
        if self._task.cancelled():
            raise RunInterrupted(self.run_id, is_recorded=self._is_recorded)
        return self._task.result()

    def cancel(self, reason: str = "cancelled") -> None:
        """End the run for good: its status becomes `cancelled`, calls in progress are abandoned.

        The first call counts; a run that has ended is not changed.
        """
        if self._reason is not None or self.is_done:
            return
        self._reason = reason
        if self._driver is not None:
            self._driver.cancel(reason)
        elif self._begun:
            self._task.cancel()

    async def interrupt(self) -> None:
        """Stop the run without ending it, and wait until it has stopped.

        The journal keeps what has happened; `Runtime.resume` continues the run.
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
        self._stream.end_replay()
        if self._reason is not None:
            driver.cancel(self._reason)

    def _stopped(self) -> RunResult:
        """The result of a run that was cancelled before its driver started."""
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
            self._task.exception()  # mark it as retrieved: the exception of the block is the one to raise

    async def _finish(self) -> None:
        """Wait for the end of the run; if this is cancelled meanwhile, interrupt the run too."""
        try:
            await self.result()
        except asyncio.CancelledError:
            await self.interrupt()
            raise

    def __repr__(self) -> str:
        return f"<RunHandle {self.run_id}, {'ended' if self.is_done else 'under way'}>"
