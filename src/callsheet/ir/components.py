"""Strongly connected components of a graph, by Tarjan's algorithm without recursion.

In: adjacency lists. Out: the component number of each node. Linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence


def strong_parts(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    """The component number of each node reachable from the root, -1 for the others.

    Numbers are in reverse topological order: an edge between components leads to the lower number.

    >>> strong_parts([[1], [0, 2], []], 0)
    [1, 1, 0]
    """
    size = len(successors)
    index = [-1] * size
    low = [0] * size
    part_of = [-1] * size
    open_nodes: list[int] = []
    parts = 0
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
            if part_of[following] < 0:
                low[node] = min(low[node], index[following])
        else:
            stack.pop()
            if stack:
                above = stack[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == index[node]:
                while True:
                    member = open_nodes.pop()
                    part_of[member] = parts
                    if member == node:
                        break
                parts += 1
    return part_of
