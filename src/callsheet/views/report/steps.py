"""Builds the viewer data of the LCTL documents after each step, which the viewer assembles from parts.

In: the parts, and the visit rows of the report. Out: JSON data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callsheet.trace.projection.record import Record
from callsheet.trace.projection.stepwise import Stepwise
from callsheet.views.report.document import VisitRow


def stepwise_part(parts: Stepwise, record: Record, visits: Sequence[VisitRow]) -> dict[str, Any]:
    """Returns the entries and facts once, and the boundaries, each with the event after which it is valid."""
    return {
        "entries": parts.entries,
        "facts": [[fact.id, int(fact.is_fit), fact.text] for fact in parts.facts],
        "at": [
            [seq, *boundary[1:]]
            for seq, boundary in zip(_events(parts, record, visits), parts.boundaries, strict=True)
        ],
    }


def _events(parts: Stepwise, record: Record, visits: Sequence[VisitRow]) -> list[int]:
    """Returns for each boundary the event by which all of its visits had finished."""
    ends = {(visit.plan, visit.step, visit.nth): visit.end or visit.seq for visit in visits}
    seen: dict[tuple[int, int], int] = {}
    last, upto, numbers = 0, 0, list[int]()
    for boundary in parts.boundaries:
        for visit in record.visits[upto : boundary.visits]:
            place = visit.plan, visit.number
            if visit.step is not None:
                seen[place] = seen.get(place, 0) + 1
                last = max(last, ends.get((*place, seen[place]), last))
        upto = boundary.visits
        numbers.append(max(last, 1))
    return numbers
