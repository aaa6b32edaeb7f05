"""Finds the fewest elements that must move to turn one order into another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def staying(places: Sequence[int]) -> set[int]:
    """The positions of a longest increasing subsequence, which need not move. O(n log n).

    >>> sorted(staying([2, 0, 1, 3]))
    [1, 2, 3]
    """
    tails: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for position, place in enumerate(places):
        length = bisect_left(tails, place)
        before.append(holders[length - 1] if length else -1)
        if length == len(tails):
            tails.append(place)
            holders.append(position)
        else:
            tails[length] = place
            holders[length] = position
    unmoved: set[int] = set()
    position = holders[-1] if holders else -1
    while position != -1:
        unmoved.add(position)
        position = before[position]
    return unmoved
