"""What the owner of a run is asked by messages while it drives the run: to cancel it, to pause it."""

from __future__ import annotations

import asyncio
import logging

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.cancelling import cancel_asked
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.pausing import PAUSE, PauseAsked, pause_asked
from callsheet.runtime.recording import CANCEL
from callsheet.store import Journal

POLL = 0.5
"""Seconds between an owner's polls of its inbox."""
_log = logging.getLogger("callsheet")


class Requests:
    """A context in which a driver is cancelled or paused when a message requests it; `pause` says by whom."""

    def __init__(self, journal: Journal, run_id: str, driver: LocalDriver) -> None:
        self.pause: PauseAsked | None = None
        self._journal = journal
        self._run_id = run_id
        self._driver = driver
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Requests:
        self._timer = asyncio.get_running_loop().call_later(POLL, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        try:
            topics = {message.topic for message in self._journal.mailbox.unread(self._run_id)}
            cancellation = cancel_asked(self._journal, self._run_id) if CANCEL in topics else None
            if self.pause is None and PAUSE in topics:
                self.pause = pause_asked(self._journal, self._run_id)
        except CallsheetError as error:
            # The journal is unreadable now; the run itself will notice when it writes.
            _log.warning("%s: the inbox cannot be read: %s", error.diagnostics[0].code, error)
            cancellation = None
        if cancellation is not None:
            self._driver.cancel(cancellation.reason)
            return
        if self.pause is not None:
            self._driver.pause()
        self.__enter__()
