"""Chooses the rows of a long picture to show on a small screen: those with activity, and their neighbours.

In: how many rows there are, how many lines there is room for, the rows that matter. Out: the rows to
show and the gaps between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Gap(NamedTuple):
    """So many rows that are not shown."""

    rows: int


def shown_rows(count: int, room: int, focus: Sequence[int]) -> list[int | Gap]:
    """The rows from 0 on in their order, in at most `room` lines (at least 3), a gap taking one.

    Rows of `focus` come first, the earlier the more important; then those near them.

    >>> shown_rows(9, 5, [4])
    [Gap(rows=3), 3, 4, 5, Gap(rows=3)]
    """
    room = max(room, 3)
    if count <= room:
        return list(range(count))
    chosen: set[int] = set()
    lines = 1  # all rows in one gap
    for row in _by_importance(count, focus, room):
        if row in chosen:
            continue
        beside = (row - 1 in chosen or row == 0) + (row + 1 in chosen or row == count - 1)
        more = 2 - beside  # it splits a gap, narrows it, or closes it
        if lines + more <= room:
            lines += more
            chosen.add(row)
    return list(_with_gaps(count, sorted(chosen)))


def _by_importance(count: int, focus: Sequence[int], room: int) -> Iterator[int]:
    """The rows of the focus, then those after and before them, nearest first."""
    centres = [row for row in dict.fromkeys(focus) if 0 <= row < count][:room] or [0]
    yield from centres
    for distance in range(1, room + 1):
        for row in centres:
            if row + distance < count:
                yield row + distance
            if row >= distance:
                yield row - distance


def _with_gaps(count: int, chosen: Iterable[int]) -> Iterator[int | Gap]:
    following = 0
    for row in chosen:
        if row > following:
            yield Gap(row - following)
        yield row
        following = row + 1
    if following < count:
        yield Gap(count - following)
