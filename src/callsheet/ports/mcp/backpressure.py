"""Delays a server's requests while too many of its earlier ones have not been answered.

In: the messages received and sent. Out: a short delay before a request is handed to the SDK, which keeps
each request until its answer is written. Otherwise a server that sends requests without reading answers
could exhaust memory.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

_MOST = 100
_PATIENCE = 1.0
"""Longest delay of a request in seconds, so that an answer that never comes blocks nothing for ever."""
_CANCELLED = "notifications/cancelled"


class Unanswered:
    """The server's requests in one session that we have not answered yet."""

    def __init__(self) -> None:
        self._by_id: dict[str | int, int] = {}
        self._count = 0
        self._room = asyncio.Event()

    async def arrives(self, message: Any) -> None:
        """Note a received message; returns when it may be handed on."""
        method: str | None = getattr(message, "method", None)
        request: str | int | None = getattr(message, "id", None)
        if method == _CANCELLED:  # a cancelled request gets no answer
            params: dict[str, Any] = message.params or {}
            self._settle(params.get("requestId"))
        if method is None or request is None:
            return
        if self._count >= _MOST:
            self._room.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), _PATIENCE)
        self._by_id[request] = self._by_id.get(request, 0) + 1
        self._count += 1

    def has_left(self, message: Any) -> None:
        """Note a message that was sent."""
        if getattr(message, "method", None) is None:
            self._settle(getattr(message, "id", None))

    def _settle(self, request: Any) -> None:
        waiting = self._by_id.get(request, 0) if isinstance(request, int | str) else 0
        if not waiting:
            return
        if waiting == 1:
            del self._by_id[request]
        else:
            self._by_id[request] = waiting - 1
        self._count -= 1
        self._room.set()
