"""Rate limiting of clients with token buckets.

In: a client and the time. Out: 0, or the seconds until its next request is accepted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

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
