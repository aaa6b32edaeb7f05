"""The state that all endpoints share: host, plan library, keys, request limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.apps.hosting import Host
from callsheet.apps.http.document_cache import DocumentCache
from callsheet.apps.http.keys import Keys
from callsheet.apps.http.proxies import Network
from callsheet.apps.http.rate_limit import Rate, Rates
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store.library import PlanLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """The limits of requests.

    Maximum bytes of a body, seconds to receive it, open event streams, seconds between keep-alive comments.
    """

    most_body: int = 4 * 1024 * 1024
    body_seconds: float = 10.0
    most_streams: int = 64
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a server.

    `hosts` are the accepted `Host` values, with or without a port.
    """

    host: Host
    keys: Keys
    rates: Rates
    hosts: frozenset[str]
    proxies: tuple[Network, ...] = ()
    """The networks of trusted proxies."""
    library: Callable[[], PlanLibrary] = PlanLibrary
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    guesses: Rates = field(default_factory=lambda: Rates(Rate(1.0, 20)))
    """The rate limit of failed authentications."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is shutting down; event streams end then."""
    documents: DocumentCache = field(default_factory=DocumentCache)
    """The latest viewer documents."""
    doubts: dict[tuple[str, int], tuple[DoubtfulCall, ...]] = field(
        default_factory=dict[tuple[str, int], tuple[DoubtfulCall, ...]]
    )
    """The calls in doubt found last, by run and its number of events."""
    streams: set[object] = field(default_factory=set[object])
    """The open event streams."""

    @property
    def journal_path(self) -> Path:
        """The file of the journal."""
        return self.host.journal.path
