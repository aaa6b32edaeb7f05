"""A uvicorn protocol that closes a connection if no request head arrives in time.

Otherwise slow or idle clients could use up all connections. The time for a body is limited by its reader.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 20.0
"""The time limit for the head of a request, in seconds."""


class HeadTimeoutProtocol(H11Protocol):
    """HTTP on one connection, with a time-out for request heads."""

    _waiting: asyncio.TimerHandle | None = None
    seconds = SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the time-out for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Process received data; the time-out is stopped while a request is being answered."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time-out."""
        self._wait_no_more()
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        return getattr(self, "cycle", None) is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self._is_idle:
            self._wait_no_more()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(self.seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_idle:
            self.transport.close()
