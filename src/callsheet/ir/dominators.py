"""The dominator tree of a graph, by the algorithm of Lengauer and Tarjan without recursion.

In: adjacency as lists of ints. Out: the immediate dominator of each node. About n log n.
"""

from __future__ import annotations

from collections.abc import Sequence

NONE = -1
"""The dominator of the root and of nodes that the root does not lead to."""


def preorder(successors: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The nodes that the root leads to, depth first, and the parent of each in that search.

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
        while len(followers) == 1 and not seen[below := followers[0]]:  # nothing to come back for
            seen[below] = 1
            parent[below] = following
            order.append(below)
            following = below
            followers = successors[below]
        if len(followers) > 1:
            stack.append((following, iter(followers)))
    return order, parent


class _Forest:
    """The nodes handled so far, each with the least semidominator on its way up."""

    def __init__(self, size: int, rank: list[int]) -> None:
        self.semi = list(rank)
        self.above = [NONE] * size
        self.least = list(range(size))

    def best(self, node: int) -> int:
        """The node of the least semidominator between `node` and its tree's root, root excluded."""
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
    """The last node before each node that every path from the root to it goes through.

    >>> immediate_dominators([[1, 2], [3], [3], []], 0)
    [-1, 0, 0, 0]
    """
    return dominator_tree(successors, root)[1]


def dominator_tree(successors: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int]]:
    """The nodes that the root leads to, each behind its dominators, and the immediate dominator of each.

    >>> dominator_tree([[1, 2], [3], [3], []], 0)
    ([0, 1, 3, 2], [-1, 0, 0, 0])
    """
    size = len(successors)
    order, parent = preorder(successors, root)
    if sum([len(successors[node]) for node in order]) == len(order) - 1:
        return order, parent  # one way into each node: the search went all there are
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
        for held in waiting.pop(above, ()):
            best = forest.best(held)
            dominator[held] = best if semi[best] < semi[held] else above
    for node in order[1:]:
        if dominator[node] != order[semi[node]]:
            dominator[node] = dominator[dominator[node]]
    return order, dominator


def spans_below(order: Sequence[int], dominator: Sequence[int]) -> tuple[list[int], list[int]]:
    """Numbers for the nodes of a tree of dominators: its own first one, and the last below each node.

    One node dominates another if the number of the other lies behind its own, up to its last.
    Nodes that the root does not lead to have -1.

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
