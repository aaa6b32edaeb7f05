"""A uvicorn protocol that closes a connection if no request head arrives in time, or one is ambiguous.

Otherwise slow or idle clients could use up all connections. The time for a body is limited by its reader.
A head that gives the length of its body in two ways is refused: h11 follows one of them and keeps the
connection, on which a proxy that follows the other would let a second request through unseen.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 20.0
"""The time limit for the head of a request, in seconds."""


class UnambiguousConnection(h11.Connection):
    """A connection on which the length of each request is beyond doubt."""

    def next_event(self) -> Any:
        """The next event; raises RemoteProtocolError for a request whose end readers may see differently."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {bytes(name) for name, _ in event.headers}
            if b"transfer-encoding" in names and (
                b"content-length" in names or bytes(event.http_version) != b"1.1"
            ):
                raise h11.RemoteProtocolError("the length of the body is ambiguous", error_status_hint=400)
        return event


class HeadTimeoutProtocol(H11Protocol):
    """HTTP on one connection, with a time-out for request heads and without ambiguous ones."""

    _waiting: asyncio.TimerHandle | None = None
    seconds = SECONDS

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        most = self.config.h11_max_incomplete_event_size
        self.conn = UnambiguousConnection(h11.SERVER, *(() if most is None else (most,)))

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
