"""Ranks the steps of a graph by their durations, so that a run with limited concurrency takes less time.

In: a graph, the seconds of its steps, how many may be open at once. Out: a rank for each step, by which the
schedule chooses among ready steps. Those on the longest remaining path start first; if that is not optimal,
list schedules are improved by passes forwards and backwards, also from perturbed starts, for a bounded time.
Ranks never change what a plan means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from callsheet.machine.graph import Graph, topological

_PASSES = 3
"""How often each schedule is improved by a pass forwards and a pass backwards."""
_MOST_NOISY = 12
_MOST_WORK = 40_000
"""The steps that all passes together may visit, about; there is at least one pass."""
_FACTOR, _PRIME = 48_271, 2**31 - 1
"""The parameters of the pseudorandom numbers, which are the same on every machine."""
_CLOSE = 1.002
"""A schedule is good enough if it takes at most this multiple of the lower bound."""


def ranks_of(graph: Graph, seconds: Sequence[float], slots: int) -> list[int]:
    """A distinct rank for each step; of the steps that may start, the one with the highest rank starts first.

    >>> from callsheet.ir import Call, Order, Plan, Step
    >>> from callsheet.machine.graph import compile_graph
    >>> steps = tuple(Step(name, Call("X"), depends_on=()) for name in "abc")
    >>> ranks_of(compile_graph(Plan(steps, Order.DAG)), [1.0, 5.0, 2.0], 2)
    [1, 3, 2]
    """
    forward = _Flow(graph.waits, graph.dependents)
    backward = forward.reversed()
    longest = _longest_paths(graph, seconds)
    bound = _CLOSE * max([*longest, sum(seconds) / slots], default=0.0)
    best: Sequence[float] = longest
    least, left = math.inf, _MOST_WORK
    for start in _starts(graph, longest):
        priorities = start
        for _ in range(_PASSES):
            ends = forward.ends(seconds, slots, priorities)
            took = max(ends, default=0.0)
            if took < least:
                best, least = priorities, took
            left -= 2 * len(ends)
            if least <= bound or left <= 0:
                return _numbered(best)
            priorities = backward.ends(seconds, slots, ends)
    return _numbered(best)


def _starts(graph: Graph, longest: Sequence[float]) -> Iterator[Sequence[float]]:
    """Priorities to start from: the longest paths, the numbers of dependents, the order of the plan, and the
    longest paths with noise.
    """
    yield longest
    yield list(map(float, map(len, graph.dependents)))
    yield [-float(number) for number in range(len(longest))]
    at = 1
    for _ in range(_MOST_NOISY):
        noisy: list[float] = []
        for length in longest:
            at = at * _FACTOR % _PRIME
            noisy.append(length * (0.8 + 0.4 * at / _PRIME))
        yield noisy


def _numbered(priorities: Sequence[float]) -> list[int]:
    """Priorities as ranks from 1 on; of two equal ones the first in the plan has the higher rank."""
    first = sorted(range(len(priorities)), key=lambda number: (-priorities[number], number))
    ranks = [0] * len(priorities)
    for place, number in enumerate(first):
        ranks[number] = len(priorities) - place
    return ranks


def _longest_paths(graph: Graph, seconds: Sequence[float]) -> list[float]:
    """For each step the seconds of the longest path from it to an end, its own included."""
    lengths = list(seconds)
    for number in reversed(topological(graph.waits, graph.dependents)):
        lengths[number] += max((lengths[follower] for follower in graph.dependents[number]), default=0.0)
    return lengths


class _Flow:
    """The dependencies among steps, and their list schedules."""

    def __init__(self, waits: Sequence[int], dependents: Sequence[Sequence[int]]) -> None:
        self._waits = waits
        self._dependents = dependents

    def reversed(self) -> _Flow:
        """The same with every dependency reversed."""
        before: list[list[int]] = [[] for _ in self._waits]
        for number, followers in enumerate(self._dependents):
            for follower in followers:
                before[follower].append(number)
        return _Flow([len(followers) for followers in self._dependents], before)

    def ends(self, seconds: Sequence[float], slots: int, ranks: Sequence[float]) -> list[float]:
        """When each step ends in the list schedule with these ranks."""
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
