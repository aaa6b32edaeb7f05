"""Ranks the steps of a graph by their durations, so that a run with limited concurrency takes less time.

In: a graph, the seconds of its steps, how many may be open at once. Out: a rank for each step, by which the
schedule chooses among ready steps. The steps on the longest remaining path go first; if that is not optimal,
list schedules are improved by passes backwards and forwards, also from perturbed starts, for a bounded time.
Ranks never change what a plan means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from callsheet.machine.graph import Graph, topological

_TURNS = 3
"""How often a schedule is gone through backwards and forwards to make it shorter."""
_MOST_SHAKEN = 12
_MOST_WORK = 40_000
"""Steps that are gone through in all, about; a graph of which that is less than once is gone through once."""
_FACTOR, _PRIME = 48_271, 2**31 - 1
"""A row of numbers that looks random and is the same everywhere."""
_CLOSE = 1.002
"""So near the least that is possible a schedule is good enough."""


def ranks_of(graph: Graph, seconds: Sequence[float], slots: int) -> list[int]:
    """A rank for each step, the highest of those that may start goes first; all are different.

    >>> from callsheet.ir import Call, Order, Plan, Step
    >>> from callsheet.machine.graph import compile_graph
    >>> steps = tuple(Step(name, Call("X"), depends_on=()) for name in "abc")
    >>> ranks_of(compile_graph(Plan(steps, Order.DAG)), [1.0, 5.0, 2.0], 2)
    [1, 3, 2]
    """
    forward = _Flow(graph.waits, graph.dependents)
    backward = forward.reversed()
    longest = _longest_ways(graph, seconds)
    bound = _CLOSE * max([*longest, sum(seconds) / slots], default=0.0)
    best: Sequence[float] = longest
    least, left = math.inf, _MOST_WORK
    for start in _starts(graph, longest):
        way = start
        for _ in range(_TURNS):
            ends = forward.ends(seconds, slots, way)
            took = max(ends, default=0.0)
            if took < least:
                best, least = way, took
            left -= 2 * len(ends)
            if least <= bound or left <= 0:
                return _numbered(best)
            way = backward.ends(seconds, slots, ends)
    return _numbered(best)


def _starts(graph: Graph, longest: Sequence[float]) -> Iterator[Sequence[float]]:
    """The longest ways, how many wait for a step, the order of the plan; then shaken ways."""
    yield longest
    yield list(map(float, map(len, graph.dependents)))
    yield [-float(number) for number in range(len(longest))]
    at = 1
    for _ in range(_MOST_SHAKEN):
        shaken: list[float] = []
        for way in longest:
            at = at * _FACTOR % _PRIME
            shaken.append(way * (0.8 + 0.4 * at / _PRIME))
        yield shaken


def _numbered(ways: Sequence[float]) -> list[int]:
    """Ways as ranks from 1 on; of two that are equal the first in the plan goes first."""
    first = sorted(range(len(ways)), key=lambda number: (-ways[number], number))
    ranks = [0] * len(ways)
    for place, number in enumerate(first):
        ranks[number] = len(ways) - place
    return ranks


def _longest_ways(graph: Graph, seconds: Sequence[float]) -> list[float]:
    """For each step the seconds of the longest way from it to an end, itself counted."""
    ways = list(seconds)
    for number in reversed(topological(graph.waits, graph.dependents)):
        ways[number] += max((ways[follower] for follower in graph.dependents[number]), default=0.0)
    return ways


class _Flow:
    """Who waits for whom, and the list schedules that it allows."""

    def __init__(self, waits: Sequence[int], dependents: Sequence[Sequence[int]]) -> None:
        self._waits = waits
        self._dependents = dependents

    def reversed(self) -> _Flow:
        """The same with every dependency turned round."""
        before: list[list[int]] = [[] for _ in self._waits]
        for number, followers in enumerate(self._dependents):
            for follower in followers:
                before[follower].append(number)
        return _Flow([len(followers) for followers in self._dependents], before)

    def ends(self, seconds: Sequence[float], slots: int, ranks: Sequence[float]) -> list[float]:
        """When each step ends, where of those that may start the one of the highest rank goes first."""
        left = list(self._waits)
        ready = [(-ranks[number], number) for number, count in enumerate(left) if not count]
        heapify(ready)
        running: list[tuple[float, int, int]] = []
        ends = [0.0] * len(left)
        now, launched = 0.0, 0
        while ready or running:
            while ready and len(running) < slots:
                number = heappop(ready)[1]
                heappush(running, (now + seconds[number], launched, number))
                launched += 1
            now, _, number = heappop(running)
            ends[number] = now
            for follower in self._dependents[number]:
                left[follower] -= 1
                if not left[follower]:
                    heappush(ready, (-ranks[follower], follower))
        return ends
