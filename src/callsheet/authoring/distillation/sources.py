"""What a plan knows at one of its places: results of calls, the items of lists, and the parts the words name.

In: results so far, and the words of the user. Out: sources for explanations, and on what the inner calls of a
loop depend.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.choices import Part, part_named
from callsheet.authoring.distillation.inputs import GIVEN, Inputs
from callsheet.authoring.distillation.leaves import Source
from callsheet.authoring.distillation.lists import all_lists, lists_in, without_tables
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in
from callsheet.authoring.distillation.rounds import Segment
from callsheet.ir import JSON

_PLACE = re.compile(r"\b(?:first|last)\b")
NEAR = 0
LOOP = 10
BEFORE = 20
"""The ranks of sources: in the same round, of a loop's list, of earlier calls (the latest first)."""


@dataclass
class Known:
    """A variable of the plan: the result of a call, or the results of all rounds of a loop."""

    name: str
    values: tuple[JSON, ...]
    is_list: bool
    asked: frozenset[str] = frozenset()
    """The texts in the arguments of the call."""
    nouns: frozenset[str] = frozenset()
    """The words for what the tool lists."""
    is_read: bool = False


@dataclass
class Sources:
    """What is known so far; `arguments` are the texts in the arguments of all calls."""

    inputs: Inputs
    arguments: frozenset[str]
    known: list[Known] = field(default_factory=list[Known])
    parts: dict[str, dict[str, tuple[Part, ...]]] = field(
        default_factory=dict[str, dict[str, tuple[Part, ...]]]
    )
    """By the name of a result, the parts of its lists that the user's words may mean; none if unclear."""
    lists: dict[tuple[str, int], list[tuple[str, list[JSON]]]] = field(
        default_factory=dict[tuple[str, int], list[tuple[str, list[JSON]]]]
    )
    """By the name of a result and a length, its lists of that length."""
    figures: list[Source] = field(default_factory=list[Source])
    """What the user's condition compares."""
    items: int = 0
    """How many items of loops were thought of; those that are used get a name."""

    def outer(self, count: int) -> list[Source]:
        """The results before and the inputs so far, which are the same in each of `count` rounds."""
        chosen: list[Source] = []
        results: list[Source] = []
        for age, one in enumerate(reversed(self.known)):
            value = [*one.values] if one.is_list else one.values[0]
            if self.parts_of(one):
                value = without_tables(value)
            for part in chain.from_iterable(self.parts_of(one).values()):
                code, items = part.picked or part.code, [*part.items]
                whole = items[0] if part.picked else items
                rank = BEFORE + age
                chosen.append(
                    Source(code, (whole,) * count, rank, is_chosen=True, conditions=part.conditions)
                )
            results.append(Source(one.name, (value,) * count, BEFORE + age, asked=one.asked))
        given = (
            Source(name, (value,) * count, GIVEN, is_given=True) for name, value in self.inputs.values.items()
        )
        figures = (one._replace(values=one.values * count) for one in self.figures)
        return [*figures, *chosen, *results, *given]

    def parts_of(self, one: Known) -> dict[str, tuple[Part, ...]]:
        """The parts of its lists that the user's words name, by the code of the list, the likeliest first.

        A text that the calls were made with may be a condition besides, or not: the record tells.
        """
        found = self.parts.get(one.name)
        if found is None:
            times = (False, True) if _PLACE.search(self.inputs.request.lower()) else (False,)
            found = self.parts[one.name] = {}
            for code, items in all_lists(one.name, [*one.values] if one.is_list else one.values[0]):
                read = [
                    part_named(
                        self.inputs.request,
                        code,
                        items,
                        asked,
                        self.inputs.said_input,
                        one.nouns,
                        by_time=by_time,
                    )
                    for by_time in times
                    for asked in (one.asked, one.asked | self.arguments)
                ]
                if read[0] is not None:
                    known = (self.as_recorded(part) for part in read if isinstance(part, Part))
                    found[code] = tuple({part.code + part.picked: part for part in known}.values())
        return found

    def as_recorded(self, part: Part) -> Part:
        """A part of a list that stops the plan if its items are in states that none in the record was in."""
        if part.picked or self.inputs.means_all():
            return part
        unlike = [*guards.alike(part.code, [*part.items])]
        asked = {*re.findall(r"each((?:\[[^\]]+\])+)", part.code)}
        unlike = [one for one in unlike if not any(field in one.replace(part.code, "") for field in asked)]
        return part._replace(conditions=(*part.conditions, *unlike))

    def listed(self, count: int, *, is_tested: bool = False) -> list[Source]:
        """The lists with as many items as there are rounds, those that the user's words name first.

        Where the words ask something of what is looked up for each item, they may ask nothing of the items.
        """
        chosen: list[Source] = []
        found: list[Source] = []
        for age, one in enumerate(reversed(self.known)):
            rank = LOOP if one.is_list else BEFORE + age
            parts = self.parts_of(one)
            for part in chain.from_iterable(parts.values()):
                if not part.picked and len(part.items) == count:
                    item = self.item_of(part.code, part.items, LOOP)
                    chosen.append(item._replace(is_sure=True, conditions=part.conditions))
            for listing, items in self.lists_of(one, count):
                code = listing
                if items and all(isinstance(item, str) for item in items) and code not in parts:
                    part = part_named(
                        self.inputs.request, code, items, self.arguments, self.inputs.said_input, one.nouns
                    )
                    if part is not None and not (isinstance(part, Part) and len(part.items) == count):
                        continue  # the words ask something of these texts
                    code = part.code if part is not None else code
                if code not in parts or is_tested:
                    unlike = () if self.inputs.means_all() or one.is_list else (*guards.alike(code, items),)
                    is_kind = ".startswith(" in code  # the words name this kind of lines
                    item = self.item_of(code, tuple(items), rank)
                    found.append(item._replace(conditions=unlike, is_sure=is_kind))
        return [*chosen, *found]

    def lists_of(self, one: Known, length: int) -> list[tuple[str, list[JSON]]]:
        """The lists of this length in a result, with their code."""
        found = self.lists.get((one.name, length))
        if found is None:
            value = [*one.values] if one.is_list else one.values[0]
            found = [*lists_in(one.name, value, length, self.inputs.names_kind)]
            self.lists[one.name, length] = found
        return found

    def item_of(self, listing: str, values: tuple[JSON, ...], rank: int) -> Source:
        """The item of a list, in each round of a loop over it."""
        self.items += 1
        return Source(f"\1{self.items}\1", values, rank, listing)

    def part_in_rounds(
        self, code: str, lists: Sequence[list[JSON]], calls: Sequence[RecordedCall]
    ) -> tuple[str, list[list[JSON]]] | None:
        """The part of a list in each round that the user's words name; None if that is unclear."""
        asked = frozenset(chain.from_iterable(texts_in(call.args) for call in calls)) | self.arguments
        found = [
            part_named(self.inputs.request, code, items, asked, self.inputs.said_input, nouns_of(call))
            for items, call in zip(lists, calls, strict=True)
            if items
        ]
        parts = [part for part in found if isinstance(part, Part) and not part.picked]
        if not any(found):
            return code, [*lists]
        if len(parts) < len(found) or len({part.code for part in parts}) > 1:
            return None
        chosen = iter(parts)
        return parts[0].code, [[*next(chosen).items] if items else [] for items in lists]

    def is_known(self, segment: Segment) -> bool:
        """Whether it is known how often each round of a segment makes the calls of its tail."""
        return self.tail_of(segment, ["it"] * segment.head) is not None

    def tail_of(self, segment: Segment, names: Sequence[str]) -> tuple[str, list[JSON]] | None:
        """What a tail depends on: a list of a result in the head, with all its items, or a test of one.

        `names` are the names of the results in the head. A test has no items.
        """
        times = segment.times()
        for position in reversed(range(segment.head)):
            calls = [one[position] for one in segment.rounds]
            lists = [dict(all_lists(names[position], call.result)) for call in calls]
            for code in dict.fromkeys(chain.from_iterable(lists)):
                if not all(code in one for one in lists):
                    continue
                named = self.part_in_rounds(code, [one[code] for one in lists], calls)
                if named is not None and [*map(len, named[1])] == times and {*times} != {1}:
                    return named[0], [*chain.from_iterable(named[1])]
            results = [call.result for call in calls]
            found = part_named(
                self.inputs.request, "it", results, self.arguments, self.inputs.said_input, nouns_of(calls[0])
            )
            wanted = [call.result for call, count in zip(calls, times, strict=True) if count == 1]
            if isinstance(found, Part) and found.test and [*found.items] == wanted and max(times) == 1:
                return found.test.replace("each[", f"{names[position]}["), []
        return None

    def of_rounds(self, result: str, values: tuple[JSON, ...], calls: Sequence[RecordedCall]) -> list[Source]:
        """What the result of a call in a loop gives in its round; of its lists, what the words name."""
        tables = [dict(all_lists(result, value)) for value in values]
        found: list[Source] = []
        is_whole = True
        for code in dict.fromkeys(chain.from_iterable(tables)):
            if not all(code in table for table in tables):
                continue
            named = self.part_in_rounds(code, [table[code] for table in tables], calls)
            if named is None or named[0] != code:
                is_whole = False
                found += [Source(named[0], (*named[1],), NEAR)] if named is not None else []
        whole = values if is_whole else tuple(map(without_tables, values))
        return [*found, Source(result, whole, NEAR, asked=frozenset(texts_in(calls[0].args)))]


def nouns_of(call: RecordedCall) -> frozenset[str]:
    """The words for what a call lists: those of its tool after the verb, and the fields with lists."""
    words = call.tool.lower().rpartition("__")[2].split("_")[1:]
    for code, _ in all_lists("", call.result):
        words += re.findall(r"[a-z]+", code.lower())
    return frozenset(form for word in words for form in (word, word.rstrip("s")))
