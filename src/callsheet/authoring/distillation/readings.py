"""The readings of recorded values that one run leaves open: what the user or another run has to confirm.

In: the values of an argument, and the sources at hand. Out: expressions that give them, the likeliest first,
also where it may be a coincidence: parts of texts, days that are counted, items that were picked, lists that
were filtered, values that stay the same. Which of them is taken at which place of a plan, `Readings` say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.calculations import asked_leaves
from callsheet.authoring.distillation.explanations import explain
from callsheet.authoring.distillation.figures import is_number
from callsheet.authoring.distillation.leaves import MOST_LINES, Explained, Leaf, Source, leaves_of
from callsheet.authoring.distillation.lists import all_lists, lists_in
from callsheet.authoring.distillation.recorded_calls import texts_in
from callsheet.authoring.distillation.selections import Value, best_in_rounds, picks, rules, tests_of
from callsheet.ir import JSON

_MOST = 14
"""The readings of one value at most."""
_FIGURES = frozenset(("count", "sum", "mean", "max", "min", "more", "less", "times"))
_MOST_LISTS, _MOST_FILTERS, _MOST_ROWS, _MOST_DAYS = 8, 24, 3, 400
_COUNTED = frozenset(("count", "sum"))
_SHORTEST, _LONGEST, _SMALL = 3, 200, 100
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_WORDS = re.compile(r"\S*[\d@]\S*")
"""The words of a text that may be copied from it: with a digit, or an address."""
_LABELS = (r"(\S*\w\S*\s*\S?\s*|\W\s*)$", r"\S+\s+\S+\s*$")
_SHAPES = (
    (re.compile(r"\d+"), r"(\d+)"),
    (re.compile(r"\d[\d.,]*\d"), r"(\d[\d.,]*\d)"),
    (re.compile(r"[A-Z]+-\d+"), r"([A-Z]+-\d+)"),
    (re.compile(r"\d{4}-\d\d-\d\d"), r"(\d{4}-\d\d-\d\d)"),
    (re.compile(r"\w+"), r"(\w+)"),
    (re.compile(r"\S+@\S+\w"), r"(\S+@\S+\w)"),
    (re.compile(r"\S*\w"), r"(\S*\w)"),
    (re.compile(r"\S.*\S"), r"(\S.*\S)"),
)


@dataclass
class Readings:
    """Which reading is taken at each place of a plan, and what was to choose from.

    `chosen` and `rivals` are numbers of readings by place: a rival gave the same in all runs, so the plan
    stops where it does not. `dropped` are conditions without which another run went on. `options` is filled
    when the plan is written: the readings of each place, `supported` has how many of them the user's words
    bear out, and `values` the recorded values; `agreed` is the code with rivals, and the argument that it is
    for. `memory` has what was found for other plans of the same run.
    """

    chosen: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    rivals: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    dropped: frozenset[str] = frozenset()
    options: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    supported: dict[str, int] = field(default_factory=dict[str, int])
    values: dict[str, JSON] = field(default_factory=dict[str, JSON])
    agreed: dict[str, str] = field(default_factory=dict[str, str])
    memory: dict[str, list[Explained]] = field(default_factory=dict[str, list[Explained]])

    def of(
        self, name: str, values: Sequence[JSON], sources: Sequence[Source], asked: frozenset[str]
    ) -> list[Explained]:
        """The readings of an argument, which are found once for all plans of a run."""
        told = [(one.code, one.values, one.listing, one.is_sure, one.is_given) for one in sources]
        key = json.dumps([name, *values, sorted(asked), *told])
        found = self.memory.get(key)
        if found is None:
            found = self.memory[key] = readings(name, values, sources, asked)
        return found

    def place(self, wanted: str) -> str:
        """A name for the next place of this kind in the plan that is written."""
        number = 1
        while f"{wanted}#{number}" in self.options:
            number += 1
        return f"{wanted}#{number}"

    def take(
        self, wanted: str, options: Sequence[Explained], supported: int, value: JSON = None
    ) -> Explained:
        """The reading at the next place of this kind, which has to agree with its rivals."""
        place = self.place(wanted)
        self.options[place] = tuple(one.code for one in options)
        self.supported[place] = supported
        self.values[place] = value
        best = options[min(self.chosen.get(place, 0), len(options) - 1)]
        others = [options[number].code for number in self.rivals.get(place, ()) if number < len(options)]
        agreed = tuple(f"{best.code} == {other}" for other in others if other != best.code)
        if agreed and "\1" not in best.code:
            self.agreed[best.code] = wanted.rpartition(".")[2]
        return best._replace(conditions=(*best.conditions, *agreed))


def values_of(sources: Sequence[Source]) -> list[Value]:
    """The plain values at hand, with which items may be compared, each once."""
    found: dict[str, Value] = {}
    for source in sorted(sources, key=lambda one: not one.is_given):
        is_picked = source.is_chosen and source.rank == 0
        if source.listing or is_picked or any(value != source.values[0] for value in source.values):
            continue
        for leaf in leaves_of(source):
            value = leaf.values[0]
            if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
                found.setdefault(json.dumps(value), Value(leaf.code, value))
            is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
            if is_plain and str(value).strip() and len(str(value)) < _LONGEST:
                found.setdefault(json.dumps(value), Value(leaf.code, value, source.is_given))
    return [*found.values()]


def lists_at_hand(sources: Sequence[Source]) -> Iterator[tuple[Source, str, list[JSON]]]:
    """The lists in the sources that are the same in all rounds, and the lines of their texts."""
    for source in sources:
        if source.listing or source.is_given or source.is_chosen:
            continue
        if any(value != source.values[0] for value in source.values):
            continue
        for code, items in all_lists(source.code, source.values[0]):
            if items:
                yield source, code, items
        for leaf in leaves_of(source):
            value = leaf.values[0]
            if isinstance(value, str) and "\n" in value:
                lines = value.count("\n") + 1
                for size in range(lines, 0, -1) if lines <= MOST_LINES else ():
                    yield from (
                        (source, code, items)
                        for code, items in lists_in(leaf.code, value, size, lambda word: True)
                    )


def readings(
    name: str, values: Sequence[JSON], sources: Sequence[Source], asked: frozenset[str]
) -> list[Explained]:
    """The expressions that give the values of an argument, the likeliest first."""
    found: dict[str, Explained] = {}
    for one in _readings(_Asked(name, tuple(values), sources, asked | _COUNTED)):
        found.setdefault(one.code, one)
        if len(found) >= _MOST:
            break
    return [*found.values()]


class _Asked(NamedTuple):
    """An argument whose readings are looked for, and what is at hand for them."""

    name: str
    values: tuple[JSON, ...]
    sources: Sequence[Source]
    figures: frozenset[str]

    @property
    def is_same(self) -> bool:
        """Whether the value is the same in all rounds."""
        first = self.values[0]
        return all(value == first and type(value) is type(first) for value in self.values)

    @property
    def is_small(self) -> bool:
        """Whether it is a small number, which much may give by chance."""
        return all(is_number(value) and abs(cast("float", value)) < _SMALL for value in self.values)

    def explained(self, sources: Sequence[Source]) -> Explained | None:
        """The expression over these sources, whatever stands around data."""
        figures = _FIGURES if isinstance(self.values[0], str) else self.figures
        return explain(self.name, self.values, sources, lambda words: True, figures)


def _readings(asked: _Asked) -> Iterator[Explained]:
    leaves = [leaf for source in asked.sources for leaf in leaves_of(source)]
    yield from _from_sources(asked, leaves)
    first = asked.values[0]
    if asked.is_same and isinstance(first, str) and _is_lasting(first):
        yield Explained(json.dumps(first, ensure_ascii=False), ())
    at_hand = values_of(asked.sources)
    lists = [*lists_at_hand(asked.sources)][:_MOST_LISTS]
    for source, code, items in lists:
        yield from _picked(asked, leaves, source, [*picks_behind(asked, code, items, at_hand)])
    yield from _best_in_rounds(asked)
    given = [source for source in asked.sources if source.is_given or source.listing]
    for source, code, items in lists if asked.is_same else ():
        for listing, kept in filtered(code, items, at_hand):
            part = Source(listing, (kept,) * len(asked.values), 0, is_chosen=True, is_sure=True)
            found = asked.explained([part, *given])
            if found is not None and _has(found.code, listing):
                yield Explained(found.code, (source,), found.conditions)
    if asked.is_same and is_number(first) and not asked.is_small:
        yield Explained(json.dumps(first), ())


def _from_sources(asked: _Asked, leaves: Sequence[Leaf]) -> Iterator[Explained]:
    """What the sources give, their parts, and the fields that the user has said."""
    derived = _made_of_parts(leaves, asked.values)
    keyed = [*_named_fields(leaves)]
    named = [Source(one.code, one.values, one.source.rank, is_sure=True) for one in keyed]
    others = [
        one._replace(values=tuple(_without(value, keyed) for value in one.values)) if named else one
        for one in asked.sources
    ]
    is_text = all(isinstance(value, str) for value in asked.values)
    parts = [Source(one.code, one.values, one.source.rank, is_sure=True) for one in derived]
    if (found := asked.explained([*named, *others])) is not None:
        yield _with_sources(found, derived)
    if asked.is_small and asked.is_same:
        yield Explained(json.dumps(asked.values[0]), ())
    for leaf in asked_leaves(leaves, asked.figures):
        if leaf.values == asked.values and type(leaf.values[0]) is type(asked.values[0]):
            yield Explained(leaf.code, (leaf.source,), leaf.conditions)
    if named and (found := asked.explained(asked.sources)) is not None:
        yield found
    for leaf in derived:
        if leaf.values == asked.values:
            yield Explained(leaf.code, (leaf.source,), leaf.conditions)
    sure = [one._replace(is_sure=True) for one in (*named, *others)]
    for more in (sure, [*parts, *asked.sources] if parts else []) if is_text else ():
        if more and (found := asked.explained(more)) is not None:
            yield _with_sources(found, derived)


def picks_behind(
    asked: _Asked, code: str, items: Sequence[JSON], at_hand: Sequence[Value]
) -> Iterator[tuple[str, JSON, tuple[str, ...]]]:
    """The items of a list that have something of the values, with how they are picked, and conditions."""
    if asked.is_small and f'"{asked.name}"' not in json.dumps(items[0]):
        return
    for place in _rows_behind(asked.values, items):
        for picked, conditions in picks(code, items, place, at_hand):
            yield picked, items[place], conditions


def _picked(
    asked: _Asked,
    leaves: Sequence[Leaf],
    source: Source,
    found_picks: Sequence[tuple[str, JSON, tuple[str, ...]]],
) -> Iterator[Explained]:
    """What is made of an item that was picked from a list."""
    given = [one for one in asked.sources if one.is_given or one.listing]
    count = len(asked.values)
    for picked, row, conditions in found_picks:
        item = Source(picked, (row,) * count, 0, is_chosen=True, is_sure=True)
        cells = [
            Source(f"{picked}[{n}]", (cell,) * count, 0, is_chosen=True, is_sure=True)
            for n, cell in enumerate(row if isinstance(row, list) else [])
        ]
        found = asked.explained([item, *cells])
        if found is None:
            extra = [part for leaf in leaves_of(item) for part in _derived(leaf, asked.values, leaves)]
            whole = [one for one in extra if one.values == asked.values]
            parts = [Source(one.code, one.values, 0, is_sure=True) for one in extra]
            found = (
                Explained(whole[0].code, (), whole[0].conditions)
                if whole
                else asked.explained([*parts, item, *given])
            )
        if found is not None and _has(found.code, picked):
            used = (source, item, *(one for one in found.used if one.listing))
            yield Explained(found.code, used, (*conditions, *found.conditions))


def _best_in_rounds(asked: _Asked) -> Iterator[Explained]:
    """What is taken from an item of a list that each round has another of."""
    for source in asked.sources:
        if all(value == source.values[0] for value in source.values):
            continue
        for leaf in leaves_of(source):
            if all(isinstance(value, list) and value for value in leaf.values):
                lists = cast("tuple[list[JSON], ...]", leaf.values)
                for code, items in best_in_rounds(leaf.code, lists):
                    found = asked.explained([Source(code, items, 0, is_sure=True)])
                    if found is not None:
                        yield Explained(found.code, (source,), found.conditions)


def _made_of_parts(leaves: Sequence[Leaf], values: Sequence[JSON]) -> list[Leaf]:
    """What may be made of texts and numbers; and the fields that values at hand name."""
    named = [*_named_fields(leaves)]
    return [*named, *chain.from_iterable(_derived(leaf, values, leaves) for leaf in (*leaves, *named))]


def _named_fields(leaves: Sequence[Leaf]) -> Iterator[Leaf]:
    """The fields of objects whose names the user has said."""
    given = [leaf for leaf in leaves if leaf.source.is_given and isinstance(leaf.values[0], str)]
    for leaf in leaves:
        for one in given if isinstance(leaf.values[0], dict) else ():
            if all(isinstance(v, dict) and key in v for v, key in zip(leaf.values, one.values, strict=True)):
                found = tuple(cast("Any", v)[key] for v, key in zip(leaf.values, one.values, strict=True))
                yield Leaf(f"{leaf.code}[{one.code}]", "", found, leaf.source, True)


def _without(value: JSON, named: Sequence[Leaf]) -> JSON:
    """A value without the fields that others name."""
    if not isinstance(value, dict):
        return value
    hidden = {id(item) for leaf in named for item in leaf.values}
    return {key: _without(item, named) for key, item in value.items() if id(item) not in hidden}


def _with_sources(found: Explained, derived: Sequence[Leaf]) -> Explained:
    by_code = {one.code: one.source for one in derived}
    return found._replace(used=tuple(by_code.get(one.code, one) for one in found.used))


def _has(code: str, part: str) -> bool:
    """Whether code has a part, also within an f-string, where its quotes are others."""
    return part.replace('"', "'") in code.replace('"', "'")


def _is_lasting(text: str) -> bool:
    """Whether a text has no number in it, which another time would be another."""
    return not re.search(r"\d", text)


def _rows_behind(values: Sequence[JSON], items: Sequence[JSON]) -> list[int]:
    """The items of a list that have something of the values."""
    wanted = [str(value) for value in values]
    found: list[int] = []
    for place, item in enumerate(items):
        texts = [*texts_in(item)]
        if any(
            text in wanted
            or (len(text) > _SHORTEST and any(text in one for one in wanted))
            or any(len(one) > _SHORTEST and one in text for one in wanted)
            for text in texts
        ):
            found.append(place)
    return found if len(found) <= _MOST_ROWS else []


def filtered(code: str, items: Sequence[JSON], at_hand: Sequence[Value]) -> Iterator[tuple[str, list[JSON]]]:
    """The parts of a list that one test gives, each once."""
    seen: set[tuple[bool, ...]] = set()
    for test in tests_of(items, at_hand):
        if test.passes in seen or all(test.passes) or not any(test.passes) or len(seen) > _MOST_FILTERS:
            continue
        seen.add(test.passes)
        kept = [item for item, passes in zip(items, test.passes, strict=True) if passes]
        yield f"[each for each in {code} if {test.code}]", kept


def parts_of(
    count: int, sources: Sequence[Source], calls: Sequence[Mapping[str, JSON]]
) -> Iterator[tuple[str, list[JSON]]]:
    """The parts of lists that a loop of `count` rounds with these arguments may have gone over."""
    at_hand = values_of(sources)
    for _, code, items in lists_at_hand(sources):
        if len(items) < count:
            continue
        for name in calls[0]:
            places = _taken(name, [call[name] for call in calls], items)
            if places is None:
                continue
            if len(items) == count:
                yield code, items
                always = [test for test in tests_of(items, at_hand) if all(test.passes)]
                for test in always[:_MOST_FILTERS]:
                    yield f"[each for each in {code} if {test.code}]", items
            else:
                taken = [place in places for place in range(len(items))]
                for rule in rules(items, taken, at_hand):
                    yield f"[each for each in {code} if {rule.code}]", [items[place] for place in places]
                if places == [*range(count)]:
                    yield f"{code}[:{count}]", [*items[:count]]
            break


def _taken(name: str, values: Sequence[JSON], items: Sequence[JSON]) -> list[int] | None:
    """The places of the items that the values were made of, in their order; None if that is not clear."""
    if len({json.dumps(value) for value in values}) < len(values):
        return None
    places: list[int] = []
    for value in values:
        behind = [
            place
            for place, item in enumerate(items)
            if any(_made_of(value, leaf.values[0]) for leaf in leaves_of(Source("", (item,), 0)))
        ]
        if len(behind) != 1:
            return None
        places += behind
    return places if places == sorted({*places}) else None


def _made_of(value: JSON, part: JSON) -> bool:
    if isinstance(part, bool) or part is None or isinstance(part, list | dict):
        return False
    if part == value and type(part) is type(value):
        return True
    if not isinstance(value, str) or not isinstance(part, str):
        return False
    last = part.split()[-1:] if len(part) > _SHORTEST else []
    return len(part) > _SHORTEST and (
        part in value or any(len(one) > _SHORTEST and one in value for one in last)
    )


def _derived(leaf: Leaf, values: Sequence[JSON], leaves: Sequence[Leaf]) -> Iterator[Leaf]:
    """What may be made of an hour or a text, if the values have it: words with dashes, other days, a part."""
    if not all(isinstance(value, str) for value in values):
        return
    wanted = cast("Sequence[str]", values)
    if all(type(value) is int for value in leaf.values):
        for more in (0, 1):
            hours = tuple(f"T{cast('int', value) + more:02}:00" for value in leaf.values)
            hour = f"{leaf.code} + {more}" if more else leaf.code
            if all(one in whole for one, whole in zip(hours, wanted, strict=True)):
                code = f'"T" + format({hour}, \'02\') + ":00"'
                yield leaf._replace(code=code, values=hours, is_sure=True)
    if not all(isinstance(value, str) for value in leaf.values):
        return
    texts = cast("tuple[str, ...]", leaf.values)
    made: list[tuple[str, list[Any]]] = []
    if any(" " in text or text != text.lower() for text in texts):
        made += [
            (f'{leaf.code}.lower().replace(" ", "-")', [text.lower().replace(" ", "-") for text in texts]),
            (
                f'"-".join(re.findall("[a-z0-9]+", {leaf.code}.lower()))',
                ["-".join(re.findall("[a-z0-9]+", text.lower())) for text in texts],
            ),
        ]
    if all(_is_day(text[:10]) for text in texts):
        made += _other_days(leaf.code, [text[:10] for text in texts], wanted, leaves)
    if all(re.search(r"\.\w{1,5}$", text) for text in texts):
        made.append((f'{leaf.code}.rsplit(".", 1)[0]', [text.rsplit(".", 1)[0] for text in texts]))
    for code, given in made:
        if all(one and len(one) > 1 and one in whole for one, whole in zip(given, wanted, strict=True)):
            yield leaf._replace(code=code, values=tuple(given), is_sure=True)
    yield from _labelled(leaf, texts, wanted)


def _labelled(leaf: Leaf, texts: Sequence[str], values: Sequence[str]) -> Iterator[Leaf]:
    """A part of a text that is in the values, by what stands before it at one place only."""
    whole = values[0]
    words = [word.strip(".,;:!?()<>") for word in _WORDS.findall(texts[0])]
    parts = [whole, *(word for word in words if len(word) >= _SHORTEST and word in whole and word != whole)]
    for part in dict.fromkeys(parts):
        yield from _by_label(leaf, texts, part, values)


def _by_label(leaf: Leaf, texts: Sequence[str], wanted: str, values: Sequence[str]) -> Iterator[Leaf]:
    text = texts[0]
    if len(wanted) < 2 or wanted == text or len(text) < len(wanted) + 2 or text.count(wanted) != 1:
        return
    before = text[: text.index(wanted)].rpartition("\n")[2]
    labels = [found[0] for form in _LABELS if (found := re.search(form, before)) and found[0].strip()]
    shape = next((to for form, to in _SHAPES if form.fullmatch(wanted)), None)
    for one in labels if shape is not None else ():
        pattern = re.escape(one).replace("\\ ", " ").replace('\\"', '"') + str(shape)
        every = [re.findall(pattern, each) for each in texts]
        if any(len(each) != 1 for each in every):
            continue
        found = [cast("str", each[0]) for each in every]
        code = f"re.search({json.dumps(pattern, ensure_ascii=False)}, {leaf.code}).group(1)"
        if all(part in value for part, value in zip(found, values, strict=True)):
            yield leaf._replace(code=code, values=tuple(found), is_sure=True)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return _DAY.fullmatch(text) is not None


def _other_days(
    code: str, days: Sequence[str], wanted: Sequence[str], leaves: Sequence[Leaf]
) -> Iterator[tuple[str, list[str]]]:
    """Days that are as many days or weeks from others as a number at hand says."""
    found = [_DAY.search(text) for text in wanted]
    if not all(found):
        return
    others = [one[0] for one in found if one is not None]
    if not all(map(_is_day, others)):
        return
    far = [
        (date.fromisoformat(other) - date.fromisoformat(day)).days
        for day, other in zip(days, others, strict=True)
    ]
    if 0 in far or max(map(abs, far)) > _MOST_DAYS:
        return
    sign = "+" if far[0] > 0 else "-"
    start = f"date.fromisoformat({code}[:10]) {sign} timedelta"
    for leaf in leaves:
        if leaf.values == tuple(map(abs, far)) and all(map(is_number, leaf.values)):
            yield f"({start}(days={leaf.code})).isoformat()", others
        if all(is_number(v) for v in leaf.values) and tuple(7 * cast("int", v) for v in leaf.values) == tuple(
            map(abs, far)
        ):
            yield f"({start}(weeks={leaf.code})).isoformat()", others
