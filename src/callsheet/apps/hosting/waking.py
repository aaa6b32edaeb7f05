"""Runs that wait for people woken: by an answer that came while nobody looked, or when their time is over.

In: what a run waits for when it goes on no more. Out: a call for each run that can go on.
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
"""Seconds after the time of a question at which it is certainly over."""


class Waking:
    """The alarms of waiting runs; `asks` tells what a run has asked by now, `go_on` carries one on."""

    def __init__(
        self, asks: Callable[[str], Awaitable[list[PendingAsk]]], go_on: Callable[[str], None]
    ) -> None:
        self._asks = asks
        self._go_on = go_on
        self._alarms: dict[str, asyncio.TimerHandle] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._has_stopped = False

    def see_to(self, run_id: str, waiting: Sequence[PendingAsk]) -> None:
        """See to it that a run which waits goes on: with an answer that is there, or when time is up."""
        if not waiting or self._has_stopped:
            return
        dues = [ask.until for ask in waiting if ask.until is not None]
        if dues:
            delay = max(0.0, min(dues) - time.time()) + _LATE
            self._alarms[run_id] = asyncio.get_running_loop().call_later(delay, self._go_on, run_id)
        task = asyncio.create_task(self._look(run_id))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def leave(self, run_id: str) -> None:
        """Wake a run no more, which goes on."""
        alarm = self._alarms.pop(run_id, None)
        if alarm is not None:
            alarm.cancel()

    def stop(self) -> None:
        """Wake nobody any more."""
        self._has_stopped = True
        for alarm in self._alarms.values():
            alarm.cancel()

    async def close(self) -> None:
        """Wait until nobody is looked after any more."""
        await asyncio.gather(*self._looking)

    async def _look(self, run_id: str) -> None:
        """Carry a run on whose answer came while it was about to stop, or while nobody was there."""
        try:
            if any(ask.is_answered for ask in await self._asks(run_id)):
                self._go_on(run_id)
        except CallsheetError as error:
            _log.warning("the inbox of run %s cannot be read: %s", run_id, error)
