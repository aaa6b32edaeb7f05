"""Helpers on a tree given by parent numbers: node depths, and a union-find walk to the next unmarked
ancestor.

In: for each node its parent, negative for none. Out: depths, and nodes.
"""

from __future__ import annotations


def unmarked(marked: dict[int, int], node: int) -> int:
    """The node, or its nearest unmarked ancestor; compresses the paths in `marked`."""
    path: list[int] = []
    while node in marked:
        path.append(node)
        node = marked[node]
    for passed in path:
        marked[passed] = node
    return node


def depths(after: list[int], end: int) -> list[int]:
    """The depth of each node below `end` in the post-dominator tree."""
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
