"""The clients of the server: their addresses behind trusted proxies, and the limit of their requests.

In: the address of a connection and the values of `X-Forwarded-For`; or a client and the time. Out: the
address of the client; or 0, or the seconds until its next request is accepted.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def read_network(text: str) -> Network:
    """Parse an address or a network; raises ValueError for anything else.

    >>> read_network("10.0.0.0/8"), read_network("::1")
    (IPv4Network('10.0.0.0/8'), IPv6Network('::1/128'))
    """
    return ipaddress.ip_network(text.strip())


def client_of(peer: str, forwarded: Iterable[str], trusted: Iterable[Network]) -> str:
    """The client: the peer, unless it is a trusted proxy; then the last untrusted forwarded address.

    `forwarded` are the values of `X-Forwarded-For`, to which each proxy appends its peer. Addresses before
    the last one that is not trusted may be forged.

    >>> client_of("127.0.0.1", ["6.6.6.6, 203.0.113.7"], [read_network("127.0.0.1")])
    '203.0.113.7'
    >>> client_of("198.51.100.1", ["203.0.113.7"], [read_network("127.0.0.1")])
    '198.51.100.1'
    """
    networks = tuple(trusted)
    if not _is_in(peer, networks):
        return peer
    client = peer
    for name in reversed([part.strip() for value in forwarded for part in value.split(",")]):
        try:
            client = str(ipaddress.ip_address(name.strip("[]")))
        except ValueError:
            return client  # the addresses before it are not reliable
        if not _is_in(client, networks):
            return client
    return client


def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    if not networks:
        return False
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)


# ---------------------------------------------------------------- rates

_MOST_CLIENTS = 10_000


class Rate(NamedTuple):
    """Requests per second, and the burst after a pause; 0 per second means no limit."""

    per_second: float
    at_once: int


class _Bucket(NamedTuple):
    left: float
    at: float


class Rates:
    """The token buckets of all clients. `clock` is monotonic, in seconds."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, client: str) -> float:
        """Count a request and return 0; or, if the client is over its rate, return the seconds to wait."""
        per_second, at_once = self._rate
        if per_second <= 0:
            return 0.0
        now = self._clock()
        before = self._buckets.get(client, _Bucket(at_once, now))
        left = min(float(at_once), before.left + (now - before.at) * per_second)
        if left < 1:
            self._buckets[client] = _Bucket(left, now)
            return (1 - left) / per_second
        if len(self._buckets) >= _MOST_CLIENTS and client not in self._buckets:
            self._forget_full(now)
        self._buckets[client] = _Bucket(left - 1, now)
        return 0.0

    def _forget_full(self, now: float) -> None:
        """Drop the clients whose buckets are full again, or all clients if none is."""
        per_second, at_once = self._rate
        self._buckets = {
            client: bucket
            for client, bucket in self._buckets.items()
            if bucket.left + (now - bucket.at) * per_second < at_once
        }
        if len(self._buckets) >= _MOST_CLIENTS:
            self._buckets.clear()
