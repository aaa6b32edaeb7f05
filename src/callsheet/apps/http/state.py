"""The state that all pages share: host, plan library, keys, request limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from callsheet.apps.hosting import Host
from callsheet.apps.http.keys import Keys
from callsheet.apps.http.prints import Prints
from callsheet.apps.http.proxies import Network
from callsheet.apps.http.rates import Rate, Rates
from callsheet.store.library import PlanLibrary


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a request may be.

    Bytes of a body, seconds for it to come, streams at once, seconds between the signs of life of one.
    """

    most_body: int = 4 * 1024 * 1024
    body_seconds: float = 10.0
    most_streams: int = 64
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What pages answer from.

    `hosts` are the names, with or without a port, under which the server is reached; `journal_path` where its
    journal is.
    """

    host: Host
    keys: Keys
    rates: Rates
    hosts: frozenset[str]
    proxies: tuple[Network, ...] = ()
    """The proxies that are believed when they say whom they ask for."""
    library: Callable[[], PlanLibrary] = PlanLibrary
    bounds: Bounds = field(default_factory=Bounds)
    guesses: Rates = field(default_factory=lambda: Rates(Rate(1.0, 20)))
    """How often somebody may guess a token or a code."""
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is being stopped: streams end then."""
    prints: Prints = field(default_factory=Prints)
    """Of the documents that viewers were given."""
    streams: set[object] = field(default_factory=set[object])
    """The streams of events that are open."""

    @property
    def journal_path(self) -> Path:
        """The file of the journal."""
        return self.host.journal.path
