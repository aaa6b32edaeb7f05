"""Waits for a call up to a timeout, and abandons one that takes longer.

An abandoned call is cancelled. If it ignores the cancellation and answers later, the answer goes to the
`on_late` callback only.
"""

from __future__ import annotations

import asyncio
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
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def semaphore(self) -> asyncio.Semaphore:
        """The semaphore of the running event loop, for `async with`."""
        loop = asyncio.get_running_loop()
        free = self._by_loop.get(loop)
        if free is None:
            free = self._by_loop[loop] = asyncio.Semaphore(self.most)
        return free

    def sharing(self, handler: Handler) -> Handler:
        """The handler, wrapped so that each call takes one of these slots."""

        async def in_turn(args: dict[str, Any], context: CallContext) -> JSON:
            slots = self.semaphore()
            if slots.locked():
                context.queue()
            async with slots:
                stop_sharing()
                context.leave()
                return await handler(args, context)

        return in_turn
