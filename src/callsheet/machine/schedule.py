"""The progress of a graph: which steps are ready, open, done or failed, and which starts next, by rank.

The rank follows from the seconds of the steps, and how many may be open at once: those on the longest
remaining path start first; if that is not optimal, list schedules are improved by passes forwards and
backwards, also from perturbed starts, for a bounded time. Ranks never change what a plan means, and results
do not depend on the order in which steps end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress

from callsheet.ir import JSON
from callsheet.machine.frames import End
from callsheet.machine.program import NOWHERE, Graph, StepCode, topological
from callsheet.machine.result import Status
from callsheet.machine.values import to_text

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
    >>> from callsheet.machine.program import compile_graph
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


class Schedule:
    """The progress of a run of a graph."""

    __slots__ = (
        "_answer",
        "_busy",
        "_dependents",
        "_done",
        "_held",
        "_place",
        "_stop",
        "_tools",
        "_unfinished",
        "dropped",
        "failures",
        "open",
        "order",
        "ready",
    )

    def __init__(self, graph: Graph, tools: Sequence[str] = ()) -> None:
        """`tools` are the tools that the steps call, by number; `next` needs them."""
        self._dependents = graph.dependents
        self._place = graph.place
        self.order = graph.order
        """The numbers of the steps in order of rank; an index into it is a step's place."""
        self._tools = tools
        self._busy: defaultdict[str, int] = defaultdict(int)
        self._held: defaultdict[str, list[int]] = defaultdict(list)
        """Ready steps, by tool, that wait because too many steps of their tool are open; heaps of places."""
        self._unfinished = list(graph.waits)
        self._done = bytearray(len(graph.waits))
        self.ready: list[int] = []
        """The steps that may start, as a heap of places."""
        self._find_ready()
        self.open = 0
        self.failures: dict[int, str] = {}
        """The errors of the failed steps, by number."""
        self._answer: End | None = None
        self._stop: tuple[int, End] | None = None
        self.dropped: set[int] = set()
        """The steps that depend on a failed one."""

    def _find_ready(self) -> None:
        place, done = self._place, self._done
        self.ready = [place[n] for n, count in enumerate(self._unfinished) if not count and not done[n]]
        self.ready.sort()  # a heap as well

    def next(self, at_once: Mapping[str, int]) -> int | None:
        """Take the next step to start, if any.

        `at_once` limits, by tool, how many steps may be open. A step over the limit is held back and blocks
        no step of another tool. If no tool is limited, callers pop `ready` themselves, which is faster.
        """
        while self.ready:
            place = heappop(self.ready)
            number = self.order[place]
            tool = self._tools[number]
            if self._busy[tool] >= at_once.get(tool, self._busy[tool] + 1):
                heappush(self._held[tool], place)
                continue
            self._busy[tool] += 1
            self.open += 1
            return number
        return None

    def _leave(self, number: int) -> None:
        """A step is not open any more: one held back for its tool becomes ready."""
        self.open -= 1
        if self._busy:
            tool = self._tools[number]
            self._busy[tool] = max(0, self._busy[tool] - 1)
            if self._held[tool]:
                heappush(self.ready, heappop(self._held[tool]))

    def leads_to(self, number: int, end: End) -> None:
        """A step ends the plan.

        A plain answer takes effect once all steps are done; any other end keeps further steps from starting.
        If several steps end the plan so, the first in the order of the plan counts.
        """
        if end.status is Status.DONE and not end.terminated:
            self._answer = end
            return
        self.ready.clear()
        self._held.clear()
        if self._stop is None or number < self._stop[0]:
            self._stop = (number, end)

    def end(self, steps: Sequence[StepCode], slots: Sequence[JSON]) -> End:
        """How the run ends, now that no step is open or ready.

        In this order: with the end that stopped it, as failed if a step failed, with the answer of a step, or
        with the value that the plan's last step stored.
        """
        if self._stop is not None:
            return self._stop[1]
        if self.failures:
            return self._failure(steps)
        if self._answer is not None:
            return self._answer
        slot = steps[-1].out_slot if steps else NOWHERE
        return End(Status.DONE, "" if slot == NOWHERE else to_text(slots[slot]))

    def _failure(self, steps: Sequence[StepCode]) -> End:
        first, *more = sorted(self.failures)
        error = f"step {steps[first].id} failed: {self.failures[first]}"
        if more:
            error += f" (and {len(more)} more failed)"
        return End(Status.FAILED, error, error=error, ended_at=steps[first].id)

    def numbers_done(self) -> set[int]:
        """The numbers of the steps that have succeeded."""
        return set(compress(range(len(self._done)), self._done))

    def done(self, number: int) -> None:
        """A step has succeeded: steps that waited only for it become ready."""
        if self._busy:
            self._leave(number)
        else:
            self.open -= 1
        self._done[number] = 1
        unfinished = self._unfinished
        for follower in self._dependents[number]:
            unfinished[follower] = count = unfinished[follower] - 1
            if not count and self._stop is None:
                heappush(self.ready, self._place[follower])

    def heir(self, number: int) -> int:
        """As `done`, but gives the follower if it is the only step that can start now, otherwise NOWHERE.

        That step is not added to `ready`: the caller starts it or calls `put_back`. This is the fast path for
        chains of steps.
        """
        followers = self._dependents[number]
        if len(followers) != 1 or self.ready or self._busy or self._stop is not None:
            self.done(number)
            return NOWHERE
        self.open -= 1
        self._done[number] = 1
        follower = followers[0]
        self._unfinished[follower] = count = self._unfinished[follower] - 1
        return NOWHERE if count else follower

    def put_back(self, number: int) -> None:
        """Add a step given by `heir` to the ready ones."""
        heappush(self.ready, self._place[number])

    def failed(self, number: int, error: str) -> list[int]:
        """A step has failed; returns the steps that cannot start any more, in the order of the plan."""
        self._leave(number)
        self.failures[number] = error
        lost = sorted(n for n in self._reached(number) if n not in self.dropped)
        self.dropped.update(lost)
        return lost

    def _reached(self, number: int) -> Iterator[int]:
        """All steps that depend on a step, directly or not, and were not dropped before."""
        stack, seen = [number], set[int]()
        while stack:
            for follower in self._dependents[stack.pop()]:
                if follower not in seen and follower not in self.dropped:
                    seen.add(follower)
                    stack.append(follower)
                    yield follower

    def parts(self) -> tuple[bytearray, dict[int, str], End | None, tuple[int, End] | None]:
        """The state for `restore`: successful steps, errors of failed ones, answer, why the run stopped."""
        return self._done, self.failures, self._answer, self._stop

    def restore(
        self,
        done: bytearray,
        failures: dict[int, str],
        answer: End | None,
        stop: tuple[int, End] | None,
        under_way: Collection[int],
    ) -> None:
        """Restore the state from `parts` and the open steps; the rest is derived from the graph."""
        self._done, self.failures, self._answer, self._stop = done, failures, answer, stop
        self.open = len(under_way)
        for number in under_way:
            self._busy[self._tools[number]] += 1
        for number in compress(range(len(done)), done):
            for follower in self._dependents[number]:
                self._unfinished[follower] -= 1
        for number in failures:
            self.dropped.update(self._reached(number))
        self._find_ready()
        begun = failures.keys() | set(under_way)
        self.ready = [] if stop is not None else [at for at in self.ready if self.order[at] not in begun]

    def try_again(self) -> None:
        """After a failure: let failed steps start again, and let their dependents wait for them again."""
        self.failures.clear()
        self.dropped.clear()
        self._stop = None
        self._held.clear()
        self._find_ready()
