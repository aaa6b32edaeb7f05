"""Which nodes of a graph stand on every path to a node: Lengauer and Tarjan, without recursion.

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
                seen[following] = 1
                parent[following] = node
                order.append(following)
                stack.append((following, iter(successors[following])))
                break
        else:
            stack.pop()
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
    size = len(successors)
    order, parent = preorder(successors, root)
    rank = [NONE] * size
    predecessors: list[list[int]] = [[] for _ in range(size)]
    for number, node in enumerate(order):
        rank[node] = number
        for following in successors[node]:
            predecessors[following].append(node)
    forest = _Forest(size, rank)
    semi = forest.semi
    waiting: list[list[int]] = [[] for _ in range(size)]
    dominator = [NONE] * size
    for node in reversed(order[1:]):
        semi[node] = min(semi[forest.best(before)] for before in predecessors[node])
        waiting[order[semi[node]]].append(node)
        above = parent[node]
        forest.above[node] = above
        for held in waiting[above]:
            best = forest.best(held)
            dominator[held] = best if semi[best] < semi[held] else above
        waiting[above].clear()
    for node in order[1:]:
        if dominator[node] != order[semi[node]]:
            dominator[node] = dominator[dominator[node]]
    return dominator
