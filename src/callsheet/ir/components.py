"""Strongly connected components of a graph, by Tarjan's algorithm without recursion.

In: adjacency lists. Out: the component number of each node. Linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence


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
