"""At most so many calls at once: of one tool, or of all tools of a server. The others wait their turn.

In: a handler. Out: a handler that carries a call out when one of its slots is free; calls get slots in the
order in which they came. Waiting counts against no time-out of a call.
"""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from callsheet.ir import JSON
from callsheet.ports.calls import CallContext
from callsheet.ports.tools import Handler


class Slots:
    """So many slots on every event loop, for the calls that share them; raises ValueError for none.

    >>> Slots(2).most
    2
    """

    __slots__ = ("_by_loop", "most")

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"there must be room for at least 1 call at once, not {most}")
        self.most = most
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """The slots of the running loop, to be taken with `async with`."""
        loop = asyncio.get_running_loop()
        free = self._by_loop.get(loop)
        if free is None:
            free = self._by_loop[loop] = asyncio.Semaphore(self.most)
        return free

    def sharing(self, handler: Handler) -> Handler:
        """The handler, whose calls take one of these slots each."""

        async def in_turn(args: dict[str, Any], context: CallContext) -> JSON:
            async with self.here():
                return await handler(args, context)

        return in_turn
