"""The partial order of steps in a dependency graph: topological levels and ancestor queries.

In: the dependencies of each step, by number. Linear in the size of the graph, except for ancestor queries
that the tree index cannot answer: these take one traversal per 4,096 distinct ancestors, with a bit for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callsheet.ir.plan import Plan

UNORDERED = -1
"""The level of a step in a cycle, or that depends on one."""
_BITS = 4_096
_FEW = 8
"""Up to this many dependencies are searched linearly."""


def waits_of(plan: Plan) -> list[list[int]]:
    """For each step the numbers of its dependencies, without duplicates and unknown ids.

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
    """The partial order that dependencies define.

    `level[n]` is 0 for a step without dependencies, else one more than the highest level of its dependencies.
    """

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
        """The partial order of a plan's steps."""
        return cls(waits_of(plan))

    def levels(self) -> list[list[int]]:
        """The steps by level, each level in plan order (the batches of Kahn's algorithm).

        Steps that can never start, because of a cycle, form an additional last level.

        >>> Precedence([[1], [], [1]]).levels()
        [[1], [0, 2]]
        """
        levels: list[list[int]] = [[] for _ in range(max(self.level, default=-1) + 1)]
        stuck: list[int] = []
        for number, level in enumerate(self.level):
            (stuck if level == UNORDERED else levels[level]).append(number)
        return [*levels, stuck] if stuck else levels

    def _leveled(self) -> tuple[list[int], list[int]]:
        """The levels, and a topological order of the steps outside cycles."""
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
        """Interval numbers of a spanning forest: the first and last preorder number of each step's subtree.

        The parent of a step is its dependency of the highest level. A step whose number lies in the interval
        of another is its descendant, hence starts after it.
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
        """For each pair, whether its first step always ends before its second starts.

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
        """Answers the queries with these first steps in one traversal, with bit sets of ancestors."""
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
            bits = bit_of.get(number, 0)
            for other in waits[number]:
                bits |= before.get(other, 0)
            if bits:
                before[number] = bits
        for source in sources:
            bit = bit_of[source]
            for at in open_[source]:
                answers[at] = bool(before.get(asked[at][1], 0) & bit)
