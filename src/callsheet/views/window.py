"""Selects the rows of a long display to show on a small screen: those in focus and their neighbours.

In: the number of rows, the number of lines, the rows in focus. Out: the rows to show and the gaps between
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Gap(NamedTuple):
    """A number of consecutive rows that are not shown."""

    rows: int


def shown_rows(count: int, room: int, focus: Sequence[int]) -> list[int | Gap]:
    """Returns rows (from 0) and gaps in order, in at most `room` lines (at least 3); a gap takes a line.

    Rows of `focus` are preferred, the first ones most; then those near them.

    >>> shown_rows(9, 5, [4])
    [Gap(rows=3), 3, 4, 5, Gap(rows=3)]
    """
    room = max(room, 3)
    if count <= room:
        return list(range(count))
    chosen: set[int] = set()
    lines = 1  # one gap with all rows
    for row in _by_importance(count, focus, room):
        if row in chosen:
            continue
        beside = (row - 1 in chosen or row == 0) + (row + 1 in chosen or row == count - 1)
        more = 2 - beside  # lines added if it splits a gap (2), narrows it (1) or closes it (0)
        if lines + more <= room:
            lines += more
            chosen.add(row)
    return list(_with_gaps(count, sorted(chosen)))


def _by_importance(count: int, focus: Sequence[int], room: int) -> Iterator[int]:
    """Yields the rows in focus, then those after and before them, nearest first."""
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
