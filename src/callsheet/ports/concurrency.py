"""Limits how many calls run at once, per tool or per server; further calls wait in order of arrival.

In: a handler. Out: a handler that waits for a free slot before each call. Waiting does not count towards
the call's timeout.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from callsheet.ir import JSON
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Handler


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
                context.leave()
                return await handler(args, context)

        return in_turn
