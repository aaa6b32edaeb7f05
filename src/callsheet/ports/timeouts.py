"""Waits for a call up to a timeout, and abandons one that takes longer.

An abandoned call is cancelled. If it ignores the cancellation and answers later, the answer goes to the
`on_late` callback only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from callsheet.ir import JSON
from callsheet.ports.calls import TIMEOUT, CallContext, ToolFailed
from callsheet.ports.threads import stop_sharing
from callsheet.ports.tools import Handler

_T = TypeVar("_T")
OnLate: TypeAlias = "Callable[[Any], None]"
"""Called with the value, or the ToolFailed, that arrived after a call was abandoned."""

_GRACE = 0.2
"""Seconds that a cancelled call gets to end before it is left running on its own."""


async def within(
    seconds: float, call: Coroutine[Any, Any, _T] | Awaitable[_T], on_late: OnLate | None = None
) -> _T:
    """The call's value; raises ToolFailed (in doubt) after `seconds`, cancelled or not."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
        if on_late is not None:
            task.add_done_callback(partial(_report_late, on_late))
    finally:
        if not task.done():
            await give_up({task}, _GRACE)
    raise ToolFailed(f"no answer within {seconds:g} s", in_doubt=True, kind=TIMEOUT)


async def give_up(tasks: set[asyncio.Future[Any]], seconds: float) -> None:
    """Cancel tasks and wait up to `seconds` for them to end; those that do not are left running."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_forget)
    await asyncio.wait(tasks, timeout=seconds)


def _forget(task: asyncio.Future[Any]) -> None:
    """Retrieve the outcome of an abandoned task, so that asyncio does not log it as never retrieved."""
    if not task.cancelled():
        task.exception()


def _report_late(on_late: OnLate, task: asyncio.Future[Any]) -> None:
    """Report the outcome of an abandoned task, unless it obeyed the cancellation."""
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        on_late(task.result())
    elif isinstance(error, ToolFailed):
        on_late(error)
    else:
        on_late(ToolFailed(f"{type(error).__name__}: {error}"))


class _Queue:
    """The free slots of one event loop, and whom they are given to, in the order in which they came."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, context: CallContext) -> None:
        """Take a slot, when there is one; raises what the call is told while it waits."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        context.queue(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()  # it was this call's turn just when it was cancelled
            raise

    def give(self) -> None:
        """Give a slot back, to the first that still waits for one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Slots:
    """A limit of `most` concurrent calls per event loop; raises ValueError for less than 1.

    >>> Slots(2).most
    2
    """

    __slots__ = ("_by_loop", "most")

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"at least 1 call at once must be allowed, not {most}")
        self.most = most
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()

    def _queue(self) -> _Queue:
        """That of the running event loop."""
        loop = asyncio.get_running_loop()
        queue = self._by_loop.get(loop)
        if queue is None:
            queue = self._by_loop[loop] = _Queue(self.most)
        return queue

    def sharing(self, handler: Handler) -> Handler:
        """The handler, wrapped so that each call takes one of these slots."""

        async def in_turn(args: dict[str, Any], context: CallContext) -> JSON:
            queue = self._queue()
            await queue.take(context)
            try:
                stop_sharing()
                context.leave()
                return await handler(args, context)
            finally:
                queue.give()

        return in_turn
