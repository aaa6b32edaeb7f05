"""The dominator tree of a graph, by the algorithm of Lengauer and Tarjan without recursion.

In: adjacency lists. Out: the immediate dominator of each node, in time O(n log n).
"""

from __future__ import annotations

from collections.abc import Sequence

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
