"""Graphs: strongly connected components, dominators, the partial order of steps; without recursion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callsheet.ir.plan import Plan


def strong_components(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    """The component number of each node reachable from the root, -1 for the others.

    Numbers are in reverse topological order: an edge between components leads to the lower number.

    >>> strong_components([[1], [0, 2], []], 0)
    [1, 1, 0]
    """
    size = len(successors)
    index = [-1] * size
    low = [0] * size
    component_of = [-1] * size
    open_nodes: list[int] = []
    components = 0
    index[root] = 0
    counter = 1
    open_nodes.append(root)
    stack = [(root, iter(successors[root]))]
    while stack:
        node, rest = stack[-1]
        for following in rest:
            if index[following] < 0:
                index[following] = low[following] = counter
                counter += 1
                open_nodes.append(following)
                stack.append((following, iter(successors[following])))
                break
            if component_of[following] < 0:
                low[node] = min(low[node], index[following])
        else:
            stack.pop()
            if stack:
                above = stack[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == index[node]:
                _close(node, open_nodes, component_of, components)
                components += 1
    return component_of


def _close(root: int, open_nodes: list[int], component_of: list[int], number: int) -> None:
    """Move the nodes of a component, from its root to the end, out of the open nodes, and number them."""
    member = -1
    while member != root:
        member = open_nodes.pop()
        component_of[member] = number


NONE = -1
"""The dominator of the root and of unreachable nodes."""


def preorder(successors: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The reachable nodes in depth-first preorder, and the parent of each node in that search.

    >>> preorder([[1, 2], [2], []], 0)
    ([0, 1, 2], [-1, 0, 1])
    """
    parent = [NONE] * len(successors)
    order = [root]
    seen = bytearray(len(successors))
    seen[root] = 1
    stack = [(root, iter(successors[root]))]
    while stack:
        node, rest = stack[-1]
        for following in rest:
            if not seen[following]:
                break
        else:
            stack.pop()
            continue
        seen[following] = 1
        parent[following] = node
        order.append(following)
        followers = successors[following]
        while len(followers) == 1 and not seen[below := followers[0]]:  # a chain needs no stack entries
            seen[below] = 1
            parent[below] = following
            order.append(below)
            following = below
            followers = successors[below]
        if len(followers) > 1:
            stack.append((following, iter(followers)))
    return order, parent


class _Forest:
    """The link-eval forest with path compression: processed nodes and the least semidominator above each."""

    def __init__(self, size: int, rank: list[int]) -> None:
        self.semi = list(rank)
        self.above = [NONE] * size
        self.least = list(range(size))

    def best(self, node: int) -> int:
        """The node with the least semidominator on the path from `node` to its root, root excluded."""
        if self.above[node] == NONE:
            return node
        path: list[int] = []
        while self.above[self.above[node]] != NONE:
            path.append(node)
            node = self.above[node]
        top = self.above[node]
        least = self.least[node]
        for lower in reversed(path):
            if self.semi[least] < self.semi[self.least[lower]]:
                self.least[lower] = least
            least = self.least[lower]
            self.above[lower] = top
        return least


def immediate_dominators(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    """The immediate dominator of each node: the last other node on every path from the root to it.

    >>> immediate_dominators([[1, 2], [3], [3], []], 0)
    [-1, 0, 0, 0]
    """
    return dominator_tree(successors, root)[1]


def dominator_tree(successors: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The reachable nodes, each after its dominators, and the immediate dominator of each node.

    >>> dominator_tree([[1, 2], [3], [3], []], 0)
    ([0, 1, 3, 2], [-1, 0, 0, 0])
    """
    size = len(successors)
    order, parent = preorder(successors, root)
    if sum([len(successors[node]) for node in order]) == len(order) - 1:
        return order, parent  # the reachable graph is a tree, so parents are dominators
    rank = [NONE] * size
    predecessors: list[list[int]] = [[] for _ in range(size)]
    for number, node in enumerate(order):
        rank[node] = number
        for following in successors[node]:
            predecessors[following].append(node)
    forest = _Forest(size, rank)
    semi = forest.semi
    waiting: dict[int, list[int]] = {}
    dominator = [NONE] * size
    for node in reversed(order[1:]):
        above = parent[node]
        if len(predecessors[node]) == 1:
            semi[node] = rank[above]
            dominator[node] = above
        else:
            semi[node] = min(semi[forest.best(before)] for before in predecessors[node])
            waiting.setdefault(order[semi[node]], []).append(node)
        forest.above[node] = above
        for node_held in waiting.pop(above, ()):
            best = forest.best(node_held)
            dominator[node_held] = best if semi[best] < semi[node_held] else above
    for node in order[1:]:
        if dominator[node] != order[semi[node]]:
            dominator[node] = dominator[dominator[node]]
    return order, dominator


def spans_below(order: Sequence[int], dominator: Sequence[int]) -> tuple[list[int], list[int]]:
    """Preorder intervals of a dominator tree: each node's number, and the last number in its subtree.

    A node strictly dominates another if the other's number is greater than its own and at most its last.
    Unreachable nodes have -1.

    >>> spans_below([0, 1, 3, 2], [-1, 0, 0, 0])
    ([0, 1, 3, 2], [3, 1, 3, 2])
    """
    size = [1] * len(dominator)
    for node in reversed(order[1:]):
        size[dominator[node]] += size[node]
    first, last, free = [NONE] * len(size), [NONE] * len(size), [0] * len(size)
    for node in order:
        above = dominator[node]
        number = 0
        if above != NONE:
            number = free[above]
            free[above] = number + size[node]
        first[node], last[node], free[node] = number, number + size[node] - 1, number + 1
    return first, last


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
