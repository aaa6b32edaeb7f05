"""Searches: rounds of calls that look at the items of a list, one after the other, until one fits.

In: the rounds, and what is known before them. Out: the list and the test of the item that fits, or None. The
record shows a search by its end: fewer items than there are were looked at, and the last was unlike all
others; of a single look only the user's words can tell, which name what it found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from callsheet.authoring.distillation.choices import Part, part_named
from callsheet.authoring.distillation.explanations import explain
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.lists import all_lists, own_lists
from callsheet.authoring.distillation.recorded_calls import RecordedCall
from callsheet.authoring.distillation.rounds import Segment
from callsheet.authoring.distillation.sources import LOOP, Sources, nouns_of
from callsheet.ir import JSON

_ONE = re.compile(r"\b(?:first|next|a|an|any|one|some)\b")
"""What the user says who wants one of several."""


class Search(NamedTuple):
    """The item of the list that is searched, in each round, and what is asked of the last result.

    `tests` is code over the last result, which is called `it`; where several held, all of them have to agree.
    """

    item: Source
    tests: tuple[str, ...]


def search_in(segment: Segment, sources: Sources) -> Search | None:
    """The search that the rounds of a segment are; None if they are none."""
    count = len(segment.rounds)
    columns = [[one[position] for one in segment.rounds] for position in range(segment.head)]
    if segment.tail:
        return None
    results = [call.result for call in columns[-1]]
    nouns = nouns_of(columns[-1][0])
    named = part_named(
        sources.inputs.request, "it", results, sources.arguments, sources.inputs.said_input, nouns
    )
    is_named = isinstance(named, Part) and bool(named.test) and [*named.items] == results[-1:]
    if is_named:
        tests = (cast("Part", named).test.replace("each[", "it["),) if count > 1 or _asks_one(sources) else ()
    else:
        tests = (*_apart(results),) if count > 1 else ()
    items = _searched(columns, sources, count, is_named=is_named) if tests else iter(())
    item = next(items, None)
    return Search(item, tests) if item is not None else None


def _asks_one(sources: Sources) -> bool:
    return _ONE.search(sources.inputs.request.lower()) is not None


def _searched(
    columns: Sequence[Sequence[RecordedCall]], sources: Sources, count: int, *, is_named: bool
) -> Iterator[Source]:
    """The items of the longer lists from which the arguments of the first calls were taken.

    `is_named` is whether the user's words are about what was looked up, so not about the list itself.
    """
    first = columns[0]
    usual = [*sources.outer(count), *sources.listed(count)]
    for name in first[0].args:
        values = [call.args[name] for call in first]
        if sources.inputs.has_said(values[0]) or explain(name, values, usual) is not None:
            continue
        for one in reversed(sources.known):
            for code, items in all_lists(one.name, [*one.values] if one.is_list else one.values[0]):
                parts = sources.parts_of(one).get(code)
                if parts is None or (not parts and is_named):
                    lists = [(code, (*items,))]
                else:
                    lists = [(part.code, part.items) for part in parts if not part.picked]
                for at, rows in lists:
                    if len(rows) > count:
                        item = sources.item_of(at, rows[:count], LOOP)
                        if explain(name, values, [item]) is not None:
                            yield item


def _apart(results: Sequence[JSON]) -> Iterator[str]:
    """What is true of the last result, and of no other: a flag, or that a list or a text has something."""
    *others, last = results
    for name, value in last.items() if isinstance(last, dict) else ():
        before = [cast("dict[str, JSON]", one).get(name) for one in others if isinstance(one, dict)]
        at = f"it[{json.dumps(name, ensure_ascii=False)}]"
        if (
            isinstance(value, bool)
            and len(before) == len(others)
            and all(one is (not value) for one in before)
        ):
            yield at if value else f"not {at}"
    for at, items in own_lists("it", last):
        lists = [dict(own_lists("it", one)).get(at) for one in others]
        if all(one is not None and bool(one) is not bool(items) for one in lists):
            yield f"len({at}) > 0" if items else f"len({at}) == 0"
