"""Connections on which no request comes about are closed: a head byte by byte holds no place for long.

In: a connection. Out: the same, given up after a while in which nothing is answered and something is awaited.
How long a body may take is the business of who reads it.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 20.0
"""How long the head of a request may take to come, from the first byte of a connection on."""


class PatientProtocol(H11Protocol):
    """HTTP on one connection, with an end to waiting."""

    _waiting: asyncio.TimerHandle | None = None
    seconds = SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has come; a request that is being answered may take its time."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
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
