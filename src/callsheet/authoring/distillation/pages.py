"""Pages: the same listing asked for again with a cursor, or the next number, until there is no more.

In: recorded calls in order. Out: the calls at a place that are pages of one list, and how one is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from callsheet.authoring.distillation.guards import is_more
from callsheet.authoring.distillation.lists import own_lists
from callsheet.authoring.distillation.recorded_calls import RecordedCall
from callsheet.ir import JSON


class Pages(NamedTuple):
    """The pages of one list: their calls, the argument that differs, and code over the latest answer, `it`.

    `more` is whether there is a next page, `next_page` the argument that asks for it (empty for one more than
    the last), `listing` the items of a page.
    """

    calls: tuple[RecordedCall, ...]
    argument: str
    listing: str
    more: str
    next_page: str

    @property
    def items(self) -> list[JSON]:
        """The items of all pages."""
        return [item for call in self.calls for item in dict(own_lists("it", call.result))[self.listing]]


def pages_at(calls: Sequence[RecordedCall], place: int, only_reads: bool) -> Pages | None:
    """The pages that begin at a place, the most of them; None if there are not two.

    >>> answer = lambda number, last: {"items": [number], "next": None if last else number + 1}
    >>> asked = [RecordedCall(n, "LIST", {"page": n + 1}, answer(n + 1, n == 1)) for n in (0, 1)]
    >>> pages_at(asked, 0, True)[1:]
    ('page', 'it["items"]', 'it["next"]', 'it["next"]')
    """
    first = calls[place]
    same = [first]
    for call in calls[place + 1 :]:
        if call.tool != first.tool:
            break
        same.append(call)
    if len(same) < 2 or not only_reads:
        return None
    shown = first.result.values() if isinstance(first.result, dict) else ()
    for argument in same[1].args:
        asked = [one.args.get(argument) for one in same[:2]]
        if asked[1] not in shown and not _counts_up(asked):
            continue
        rest = [{name: value for name, value in call.args.items() if name != argument} for call in same]
        count = next((n for n, one in enumerate(rest) if one != rest[0]), len(rest))
        for end in range(count, 1, -1):
            found = _pages(same[:end], argument) if _may_be_last(same[end - 1].result) else None
            if found is not None:
                return found
    return None


def _may_be_last(result: JSON) -> bool:
    """Whether a page may be the last one: it is empty, or has an empty field."""
    return not result if isinstance(result, list) else isinstance(result, dict) and not all(result.values())


def _pages(calls: Sequence[RecordedCall], argument: str) -> Pages | None:
    whole = [call.result for call in calls]
    asked = [call.args.get(argument) for call in calls]
    if (
        all(isinstance(one, list) for one in whole)
        and all(whole[:-1])
        and not whole[-1]
        and _counts_up(asked)
    ):
        return Pages(tuple(calls), argument, "it", "it", "")
    listings = [code for code, _ in own_lists("it", calls[0].result)]
    tables = [call.result for call in calls if isinstance(call.result, dict)]
    if len(listings) != 1 or len(tables) < len(calls) or None in asked[1:]:
        return None
    if any([code for code, _ in own_lists("it", call.result)] != listings for call in calls):
        return None
    for name in tables[0]:
        values = [table.get(name) for table in tables]
        at = f"it[{json.dumps(name, ensure_ascii=False)}]"
        if not all(values[:-1]) or values[-1] or any(name not in table for table in tables):
            continue
        if values[:-1] == asked[1:]:
            return Pages(tuple(calls), argument, listings[0], at, at)
        if is_more(name) and _counts_up(asked):
            return Pages(tuple(calls), argument, listings[0], at, "")
    return None


def _counts_up(asked: Sequence[JSON]) -> bool:
    numbers = [one for one in asked if isinstance(one, int) and not isinstance(one, bool)]
    return len(numbers) == len(asked) and all(after == before + 1 for before, after in pairwise(numbers))
