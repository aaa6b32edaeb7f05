"""Resumes waiting runs when an answer has come or a question has timed out.

In: the questions of a run that has stopped. Out: a call of `go_on` when the run can be resumed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.answers import PendingAsk

_log = logging.getLogger("callsheet.hosting")
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
