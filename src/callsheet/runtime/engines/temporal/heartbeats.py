"""Heartbeats of activities, from a thread of their own, and the word that a call is about to be sent.

In: the activities of one worker. Out: heartbeats to the server, whose detail is SENT from the moment on in
which the call may have been sent. So neither a busy worker nor a tool that blocks its event loop loses a
call. Heartbeats are acknowledged one after another, past the SDK's buffer: one that was delayed there could
take the detail back.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import AsyncActivityCancelledError, AsyncActivityHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from callsheet.runtime.engines.temporal.wire import UNSENT

SENT = "sent"
_BEATS = 3
"""Heartbeats per heartbeat time-out."""
_TICK = 0.2
_PAUSE = 0.5
_PATIENCE = 10
"""After so many heartbeat time-outs without a sign of the worker's event loop, it counts as hung."""
_GONE = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
_log = logging.getLogger("callsheet")


class Heartbeats:
    """The heartbeats of all activities of a worker; its thread begins with the first of them."""

    def __init__(self) -> None:
        self._signs: dict[bytes, Signs] = {}
        self._worker: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seen = 0.0
        self._is_asked = False
        self._is_closed = False

    def begin(self) -> Signs:
        """Begin those of the current activity, which lasts until `end`."""
        if self._loop is None:
            self._worker = asyncio.get_running_loop()
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._serve, args=(self._loop,), name="heartbeats", daemon=True).start()
        assert self._worker is not None
        self._seen = time.monotonic()
        signs = Signs(self._loop, self._worker)
        self._signs[activity.info().task_token] = signs
        return signs

    def end(self) -> None:
        """End those of the current activity."""
        self._signs.pop(activity.info().task_token, None)

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.run_until_complete(self._beat())
        loop.close()

    async def _beat(self) -> None:
        under_way: set[asyncio.Task[None]] = set()
        while not self._is_closed:
            now = time.monotonic()
            if self._signs:
                self._look_at_worker()
            for signs in list(self._signs.values()):
                if signs.is_due(now) and now - self._seen < _PATIENCE * signs.timeout:
                    task = asyncio.create_task(signs.beat())
                    under_way.add(task)
                    task.add_done_callback(under_way.discard)
            await asyncio.sleep(_TICK)
        await asyncio.gather(*under_way, return_exceptions=True)

    def _look_at_worker(self) -> None:
        """Ask the worker's event loop for a sign, unless it owes one."""
        if not self._is_asked and self._worker is not None:
            self._is_asked = True
            try:
                self._worker.call_soon_threadsafe(self._see)
            except RuntimeError:
                self._is_closed = True  # the worker's event loop is closed

    def _see(self) -> None:
        self._seen = time.monotonic()
        self._is_asked = False


class Signs:
    """The heartbeats of one activity."""

    def __init__(self, loop: asyncio.AbstractEventLoop, worker: asyncio.AbstractEventLoop) -> None:
        info = activity.info()
        self.is_sent = False
        """Whether the call may have been sent."""
        self.timeout = (info.heartbeat_timeout or timedelta(days=1)).total_seconds()
        self._loop = loop
        self._worker = worker
        self._handle: AsyncActivityHandle = activity.client().get_async_activity_handle(
            task_token=info.task_token
        )
        self._due = time.monotonic() + self.timeout / _BEATS
        self._turn = asyncio.Lock()
        self._has_begun = False
        """Whether a heartbeat has been sent, or is about to be, by the thread."""
        self._task = asyncio.current_task()

    def is_due(self, now: float) -> bool:
        """Whether the next heartbeat is due; then the one after it is planned."""
        if now < self._due:
            return False
        self._due = now + self.timeout / _BEATS
        return True

    async def beat(self) -> None:
        """Send a heartbeat; an activity that the server has cancelled is cancelled here."""
        try:
            await self._tell()
        except AsyncActivityCancelledError:
            if self._task is not None:
                self._worker.call_soon_threadsafe(self._task.cancel)
        except RPCError as error:
            if error.status not in _GONE:  # else it has ended, or was given up: an answer changes nothing
                _log.debug("a heartbeat was not taken: %s", error)

    async def send(self) -> None:
        """Return when the server knows that the call is sent; then it may be.

        Waits for a server that cannot be reached. Raises ApplicationError (UNSENT) if the server has given up
        the activity, so that the call must not be sent.
        """
        while True:
            try:
                await self._tell_first()
            except AsyncActivityCancelledError as error:
                raise unsent("it was cancelled") from error
            except RPCError as error:
                if error.status in _GONE:
                    _log.warning("a call was not made, as the server had given it up: %s", error)
                    raise unsent("the server had given it up") from error
                _log.warning("the server cannot be told of a call: %s; retrying", error)
                await asyncio.sleep(_PAUSE)
            else:
                return

    async def _tell_first(self) -> None:
        """Tell that the call is sent: from here if the thread has sent nothing, as it will say so too."""
        if not self._has_begun:
            self.is_sent = (
                True  # before the thread is looked at again: a heartbeat that begins now says so too
            )
        if not self._has_begun:
            await self._handle.heartbeat(SENT)
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._tell(is_sent=True), self._loop))

    async def _tell(self, *, is_sent: bool = False) -> None:
        self._has_begun = True
        async with self._turn:
            self.is_sent = self.is_sent or is_sent
            await self._handle.heartbeat(*((SENT,) if self.is_sent else ()))


def unsent(why: str) -> ApplicationError:
    """The failure of an activity whose call was not sent."""
    return ApplicationError(f"the call was not sent: {why}", type=UNSENT)


def is_sent(details: Sequence[Any]) -> bool:
    """Whether the last heartbeat of an activity says that its call may have been sent."""
    return SENT in details
