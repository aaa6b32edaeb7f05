"""The precedence of steps in a dependency graph: levels, and queries about ancestors.

In: for each step its dependencies, by number. Everything is linear in the size of the graph, except queries
that need a search: these are answered exactly, thousands at a time, by one walk over the graph with a bit for
each, so that n steps need at most n/4,096 walks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callsheet.ir.plan import Plan

UNORDERED = -1
"""The level of a step that waits for itself, directly or by way of others, or for such a step."""
_BITS = 4_096
_FEW = 8
"""So many dependencies are looked through one by one."""


def waits_of(plan: Plan) -> list[list[int]]:
    """For each step the steps it waits for, by number, once each; unknown ids are left out.

    >>> from callsheet.ir import Call, Order, Step
    >>> steps = (Step("b", Call("X"), depends_on=("a", "c", "a")), Step("a", Call("X"), depends_on=()))
    >>> waits_of(Plan(steps, Order.DAG))
    [[1], []]
    """
    number_of: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        number_of.setdefault(step.id, number)
    return [
        list(dict.fromkeys(number_of[other] for other in step.depends_on or () if other in number_of))
        for step in plan.steps
    ]


class Precedence:
    """The order that dependencies make: `level[n]` is 0 for a step that waits for none, else one more
    than the highest of those it waits for."""

    def __init__(self, waits: Sequence[Sequence[int]]) -> None:
        self.waits = waits
        self.followers: list[list[int]] = [[] for _ in waits]
        for number, waited in enumerate(waits):
            for other in waited:
                self.followers[other].append(number)
        self.level, self._order = self._leveled()
        self._first, self._last = self._numbered()

    @classmethod
    def of(cls, plan: Plan) -> Precedence:
        """The order of a plan's steps."""
        return cls(waits_of(plan))

    def levels(self) -> list[list[int]]:
        """The steps by level, each level in the order of the plan (Kahn's batches).

        Steps that can never start, for they wait in a circle, stand in a last level of their own.

        >>> Precedence([[1], [], [1]]).levels()
        [[1], [0, 2]]
        """
        found: list[list[int]] = [[] for _ in range(max(self.level, default=-1) + 1)]
        stuck: list[int] = []
        for number, level in enumerate(self.level):
            (stuck if level == UNORDERED else found[level]).append(number)
        return [*found, stuck] if stuck else found

    def _leveled(self) -> tuple[list[int], list[int]]:
        """The levels, and the steps in an order in which each follows what it waits for."""
        missing = [len(waited) for waited in self.waits]
        level = [UNORDERED] * len(missing)
        order = [number for number, count in enumerate(missing) if not count]
        for number in order:
            level[number] = 0
        for number in order:
            above = level[number] + 1
            for follower in self.followers[number]:
                missing[follower] -= 1
                level[follower] = max(level[follower], above)
                if not missing[follower]:
                    order.append(follower)
        for number, count in enumerate(missing):
            if count:
                level[number] = UNORDERED
        return level, order

    def _numbered(self) -> tuple[list[int], list[int]]:
        """For each step the first and last number of its part of a tree inside the graph.

        In the tree each step hangs from the deepest of those it waits for; a step whose number
        lies within another's part comes after it.
        """
        children: list[list[int]] = [[] for _ in self.waits]
        roots: list[int] = []
        for number in self._order:
            waited = self.waits[number]
            if waited:
                children[max(waited, key=self.level.__getitem__)].append(number)
            else:
                roots.append(number)
        first = [-1] * len(children)
        last = [-1] * len(children)
        count = 0
        stack = roots[::-1]
        while stack:
            node = stack.pop()
            if node < 0:
                last[~node] = count - 1
                continue
            first[node] = count
            count += 1
            stack.append(~node)
            stack.extend(children[node])
        return first, last

    def precede(self, pairs: Iterable[tuple[int, int]]) -> list[bool]:
        """For each pair, whether its first step is done before its second can start.

        >>> Precedence([[], [0], [1], []]).precede([(0, 2), (2, 0), (0, 3)])
        [True, False, False]
        """
        asked = list(pairs)
        answers = [False] * len(asked)
        open_: dict[int, list[int]] = {}
        for at, (before, after) in enumerate(asked):
            if not 0 <= self.level[before] < self.level[after]:
                continue
            in_tree = self._first[before] < self._first[after] <= self._last[before]
            if in_tree or (len(self.waits[after]) <= _FEW and before in self.waits[after]):
                answers[at] = True
            else:
                open_.setdefault(before, []).append(at)
        sources = sorted(open_, key=self.level.__getitem__)
        for start in range(0, len(sources), _BITS):
            self._walk(sources[start : start + _BITS], open_, asked, answers)
        return answers

    def _walk(
        self,
        sources: list[int],
        open_: dict[int, list[int]],
        asked: list[tuple[int, int]],
        answers: list[bool],
    ) -> None:
        """Answer the questions about these first steps in one walk: a set of them for each step."""
        bit_of = {source: 1 << place for place, source in enumerate(sources)}
        lowest = self.level[sources[0]]
        highest = max(self.level[asked[at][1]] for source in sources for at in open_[source])
        before: dict[int, int] = {}
        level, waits = self.level, self.waits
        for number in self._order:
            if level[number] > highest:
                break
            if level[number] < lowest:
                continue
            found = bit_of.get(number, 0)
            for other in waits[number]:
                found |= before.get(other, 0)
            if found:
                before[number] = found
        for source in sources:
            bit = bit_of[source]
            for at in open_[source]:
                answers[at] = bool(before.get(asked[at][1], 0) & bit)
