"""Why a visit failed, as far as a record tells: the backward slice of what it read, and its doubtful part.

The slice goes over what arguments were made of and what decided that a step is done. The likely cause is
the member whose own result rests on the least; where all rest on more than an assumption, the visit itself.
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
    """The visit that is the likely cause of a failure, by its place, and how sure that is.

    `steps` is how many visits the slice has, the failed one not counted. `write` is the number of the
    doubtful value, None where the failed visit itself is suspected.
    """

    place: int
    confidence: float
    steps: int
    write: int | None = None


def backward_slice(record: Record, place: int) -> set[int]:
    """The places of all visits that a visit depended on, itself not among them."""
    found: set[int] = set()
    stack = [place]
    while stack:
        for write in record.visits[stack.pop()].reads:
            if write.visit != BEFORE_ALL and write.visit not in found:
                found.add(write.visit)
                stack.append(write.visit)
    return found - {place}


def suspect(record: Record, place: int, worth: Mapping[int, Worth]) -> Suspect:
    """The likely cause of the failure of the visit at a place."""
    found = backward_slice(record, place)
    rows = [
        (worth[write.number].basis.value, at, write.number)
        for at in found
        for write in record.visits[at].wrote
        if record.visits[at].step is not None
    ]
    if rows:
        value, at, number = min(rows)
        if value <= ASSUMED.value:
            return Suspect(at, _BROKEN if value == 0 else _DOUBTFUL, len(found), number)
    return Suspect(place, _ALONE, len(found))
