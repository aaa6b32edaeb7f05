"""Walks up a tree that is given as the node above each: how deep nodes stand, and which have been told.

In: for each node the number of the one above it, negative for none. Out: depths, and nodes.
"""

from __future__ import annotations


def unmarked(marked: dict[int, int], node: int) -> int:
    """The node, or the next one up the tree that has not been told; paths are made short on the way."""
    path: list[int] = []
    while node in marked:
        path.append(node)
        node = marked[node]
    for passed in path:
        marked[passed] = node
    return node


def depths(after: list[int], end: int) -> list[int]:
    """How far below the end each node stands in the tree of post-dominators."""
    depth = [-1] * len(after)
    depth[end] = 0
    for start in range(len(after)):
        path: list[int] = []
        node = start
        while node >= 0 and depth[node] < 0:
            path.append(node)
            node = after[node]
        level = depth[node] if node >= 0 else 0
        for passed in reversed(path):
            level += 1
            depth[passed] = level
    return depth
