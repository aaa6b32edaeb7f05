"""Finds the likely cause of a failed visit: the visit in its backward slice with the least confident result.

The slice follows data and conditions. If every result in it is more confident than an assumption, the failed
visit itself is suspected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callsheet.trace.projection.basis import ASSUMED, Worth
from callsheet.trace.projection.record import BEFORE_ALL, Record

METHOD = "backward slice over data and conditions, least basis first"

_BROKEN = 0.70
_DOUBTFUL = 0.50
_ALONE = 0.60


class Suspect(NamedTuple):
    """The likely cause of a failure: the place of a visit, and the confidence in that, from 0 to 1.

    `steps` is the number of visits in the slice without the failed one. `write` is the number of the doubtful
    value, None if the failed visit itself is suspected.
    """

    place: int
    confidence: float
    steps: int
    write: int | None = None


def backward_slice(record: Record, place: int) -> set[int]:
    """The places of all visits that a visit depends on, directly or not, without its own."""
    reached: set[int] = set()
    stack = [place]
    while stack:
        for write in record.visits[stack.pop()].reads:
            if write.visit != BEFORE_ALL and write.visit not in reached:
                reached.add(write.visit)
                stack.append(write.visit)
    return reached - {place}


def suspect(record: Record, place: int, worth: Mapping[int, Worth]) -> Suspect:
    """The likely cause of the failure of the visit at `place`; `worth` is by the numbers of writes."""
    reached = backward_slice(record, place)
    rows = [
        (worth[write.number].basis.value, at, write.number)
        for at in reached
        for write in record.visits[at].wrote
        if record.visits[at].step is not None
    ]
    if rows:
        value, at, number = min(rows)
        if value <= ASSUMED.value:
            return Suspect(at, _BROKEN if value == 0 else _DOUBTFUL, len(reached), number)
    return Suspect(place, _ALONE, len(reached))
