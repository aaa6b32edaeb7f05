"""Where a run of a plan of dependencies stands: what may start, what is under way, what has failed.

In: which steps have ended, and how. Out: the step to start next, the one with the highest rank
first, then in the order of the plan. When a step ends is not decided here, and no result depends
on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import compress

from callsheet.ir import JSON
from callsheet.machine.frames import End
from callsheet.machine.graph import Graph
from callsheet.machine.program import NOWHERE, StepCode
from callsheet.machine.result import Status
from callsheet.machine.values import to_text


class Schedule:
    """Where a run of a graph stands: what may start, what is under way, what has failed."""

    __slots__ = (
        "_answer",
        "_busy",
        "_dependents",
        "_done",
        "_held",
        "_left",
        "_place",
        "_stop",
        "_tools",
        "dropped",
        "failures",
        "open",
        "order",
        "ready",
    )

    def __init__(self, graph: Graph, tools: Sequence[str] = ()) -> None:
        """`tools` are those that the steps call, for `next(at_once)`."""
        self._dependents = graph.dependents
        self._place = graph.place
        self.order = graph.order
        """The steps by place."""
        self._tools = tools
        self._busy: defaultdict[str, int] = defaultdict(int)
        self._held: defaultdict[str, list[int]] = defaultdict(list)
        """Steps that may start once fewer calls of their tool are under way."""
        self._left = list(graph.waits)
        self._done = bytearray(len(graph.waits))
        self.ready: list[int] = []
        """The steps that may start, as a heap of their places."""
        self._find_ready()
        self.open = 0
        self.failures: dict[int, str] = {}
        """The steps that failed, and why."""
        self._answer: End | None = None
        self._stop: tuple[int, End] | None = None
        self.dropped: set[int] = set()
        """The steps that wait for one that failed."""

    def _find_ready(self) -> None:
        place, done = self._place, self._done
        self.ready = [place[n] for n, count in enumerate(self._left) if not count and not done[n]]
        self.ready.sort()  # a heap as well

    def next(self, at_once: Mapping[str, int]) -> int | None:
        """The step that is to be started next, if one may; without `at_once` it is the first that is `ready`.

        `at_once` says of single tools how many of their steps may be under way; one more than that is
        passed over, so that it keeps no step of another tool from starting.
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
        """A step is not under way any more: one that waits for its tool may start."""
        self.open -= 1
        if self._busy:
            tool = self._tools[number]
            self._busy[tool] = max(0, self._busy[tool] - 1)
            if self._held[tool]:
                heappush(self.ready, heappop(self._held[tool]))

    def leads_to(self, number: int, end: End) -> None:
        """A step ends the plan: with its answer, once all is done, or for others that have not started."""
        if end.status is Status.DONE and not end.terminated:
            self._answer = end
            return
        self.ready.clear()
        self._held.clear()
        if self._stop is None or number < self._stop[0]:
            self._stop = (number, end)

    def end(self, steps: Sequence[StepCode], slots: Sequence[JSON]) -> End:
        """How the run ends now that nothing is left to be done.

        Failed, if a step has; else with the answer that a step gave, or the value that the last one stored.
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
        """The steps that have ended well, by number."""
        return set(compress(range(len(self._done)), self._done))

    def done(self, number: int) -> None:
        """A step has ended well: what waited for it alone may start."""
        if self._busy:
            self._leave(number)
        else:
            self.open -= 1
        self._done[number] = 1
        left = self._left
        for follower in self._dependents[number]:
            left[follower] = count = left[follower] - 1
            if not count and self._stop is None:
                heappush(self.ready, self._place[follower])

    def heir(self, number: int) -> int:
        """As `done`; gives the step that may start now if it is the only one, else NOWHERE.

        It is not among the `ready` ones unless it is `put_back`. In chains there always is one.
        """
        followers = self._dependents[number]
        if len(followers) != 1 or self.ready or self._busy or self._stop is not None:
            self.done(number)
            return NOWHERE
        self.open -= 1
        self._done[number] = 1
        follower = followers[0]
        self._left[follower] = count = self._left[follower] - 1
        return NOWHERE if count else follower

    def put_back(self, number: int) -> None:
        """A step that was given as an heir is one of those that may start."""
        heappush(self.ready, self._place[number])

    def failed(self, number: int, error: str) -> list[int]:
        """A step has failed; gives the steps that can never start now, in the order of the plan."""
        self._leave(number)
        self.failures[number] = error
        lost = sorted(n for n in self._reached(number) if n not in self.dropped)
        self.dropped.update(lost)
        return lost

    def _reached(self, number: int) -> Iterator[int]:
        """All that hangs on a step and was not dropped before."""
        stack, seen = [number], set[int]()
        while stack:
            for follower in self._dependents[stack.pop()]:
                if follower not in seen and follower not in self.dropped:
                    seen.add(follower)
                    stack.append(follower)
                    yield follower

    def parts(self) -> tuple[bytearray, dict[int, str], End | None, tuple[int, End] | None]:
        """Which steps have ended well, which failed and why, the answer, and what has stopped the run."""
        return self._done, self.failures, self._answer, self._stop

    def put(
        self,
        done: bytearray,
        failures: dict[int, str],
        answer: End | None,
        stop: tuple[int, End] | None,
        under_way: Collection[int],
    ) -> None:
        """Be where these `parts` are, with these steps under way; the rest follows from the graph."""
        self._done, self.failures, self._answer, self._stop = done, failures, answer, stop
        self.open = len(under_way)
        for number in under_way:
            self._busy[self._tools[number]] += 1
        for number in compress(range(len(done)), done):
            for follower in self._dependents[number]:
                self._left[follower] -= 1
        for number in failures:
            self.dropped.update(self._reached(number))
        self._find_ready()
        begun = failures.keys() | set(under_way)
        self.ready = [] if stop is not None else [at for at in self.ready if self.order[at] not in begun]

    def try_again(self) -> None:
        """After a failure: let what failed start once more, and what waited for it wait again."""
        self.failures.clear()
        self.dropped.clear()
        self._stop = None
        self._held.clear()
        self._find_ready()
