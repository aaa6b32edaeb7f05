"""What is known at a place of a plan, with its values in every example: each run, each round of a loop.

In: sources with a value in each example, and the words of the user. Out: all that can be reached in them,
their lists and figures, and which values are about as likely as each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import chain, combinations, permutations
from operator import mul, sub
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.choices import Part, is_vague
from callsheet.authoring.distillation.item_tests import words_of_field
from callsheet.authoring.distillation.leaves import NAMES_OF_IDS, Source, is_number, leaves_of
from callsheet.authoring.distillation.readings import Readings
from callsheet.authoring.distillation.rules import LIKELY, AtHand, Rule, rows_of, states_of, tests_of
from callsheet.ir import JSON

MOST_ITEMS, MOST_ROWS = 300, 1_500
"""The longest list in which what was used is looked for, and how many items lists have in all examples."""
_MET, _UNMET = 1.0, 0.7
_NAMED = 0.4
"""What a part of a list costs that the words of the user name."""
_SPAN = re.compile(r"day|week")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_FARTHEST = 5_000
_MOST_LIKELY = 8
"""How many rules are thought of whose parts of a list the words name."""


class Term(NamedTuple):
    """An expression with its value in each example, what it costs, and what has to hold for it."""

    code: str
    values: tuple[JSON, ...]
    cost: float
    conditions: tuple[str, ...] = ()
    is_given: bool = False
    picked: tuple[tuple[str, tuple[JSON, ...]], ...] = ()
    """The items of lists that it is made of, by their code."""


class Looped(NamedTuple):
    """A list with an item for each round, in each example; `is_prefix` if the rounds end before the list."""

    code: str
    items: tuple[list[JSON], ...]
    cost: float
    is_prefix: bool = False
    conditions: tuple[str, ...] = ()


class _Parted(NamedTuple):
    """Lists, and their items that pass each rule that the words of the user name."""

    tables: tuple[list[JSON], ...]
    kept: list[tuple[Rule, tuple[list[JSON], ...]]]


@dataclass
class Scope:
    """What is known at a place: sources with a value in each example, and what was written there already."""

    sources: list[Source]
    size: int
    words: frozenset[str]
    seen: frozenset[str] = frozenset()
    """The texts in the results of all runs."""
    may_stay: Callable[[str], bool] = lambda text: True
    """Whether a text may be the same each time, which several runs show."""
    made: list[Term] = field(default_factory=list[Term])
    derived: dict[str, Looped] = field(default_factory=dict[str, Looped])
    """The parts of lists that texts were found to be made of, by their code."""
    is_row: bool = False
    """Whether this is within an expression for each item of a list, where nothing is picked from others."""
    is_round: bool = False
    """Whether this is within a loop, whose item is meant and not the only one of its list."""
    gone_through: str = ""
    """The code of the list of a loop that never had two rounds: an item of it is that of the loop."""
    may_pick: bool = True
    """Whether items of lists may be picked that words name besides those that the lists are read for."""
    is_ordered: bool = False
    """Whether a tool was asked for an order, so that the first is the least or the greatest of something."""
    has_bounds: bool = False
    """Whether a bound that the words name has to be part of what is asked of items."""
    request: str = ""
    """What the user of the first run has said."""
    is_look: bool = False
    """Whether the call to be written only reads."""
    asks: frozenset[str] = frozenset()
    """The figures that the words ask for: of nothing there are none, and the sum is nothing."""
    means_all: bool = False
    """Whether the user asks for all of something, in whatever state it is."""
    is_answered: bool = False
    """Whether somebody chooses between readings, to whom also those are shown that may be chance."""
    readings: Readings | None = None
    """What the words name of lists, where no second run decides that."""
    unclear: set[str] = field(default_factory=set[str])
    """The lists that the words restrict in a way that is not understood, unless a rule with them fits."""
    parted: dict[tuple[object, ...], _Parted] = field(default_factory=dict[tuple[object, ...], "_Parted"])
    """What words of the user say of lists, by their code and values: the same from call to call."""
    unmet: Callable[[str, str], Sequence[str]] = lambda code, text: ()
    """The words that restrict what a list has, of which nothing is in a text."""
    records: set[str] = field(default_factory=set[str])
    """The results of single looks, whose fields were looked up to be used."""
    signs: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the names of inputs, how the words say that things compare with them."""
    is_strict: bool = False
    """Whether nothing is taken from a list that the words restrict in a way that is not understood."""
    joins: frozenset[str] = frozenset()
    """The lists whose items have what was looked up for them, which are taken if no other fits."""
    receipts: frozenset[str] = frozenset()
    """The results of calls that changed something, with which nothing is compared."""

    @property
    def only_said(self) -> bool:
        """Whether only what the words name is picked: nothing else decides."""
        return self.readings is not None and not self.readings.is_answered

    def know(self, source: Source, *, is_receipt: bool = False) -> None:
        """Know one more value from here on."""
        self.sources.insert(0, source)
        self.receipts |= {source.code} if is_receipt else set()
        self.forget()

    def forget(self) -> None:
        """Look anew at what can be reached."""
        for name in ("plain", "every_list", "lists", "likely", "comparable"):
            vars(self).pop(name, None)

    def repeated(self, counts: Sequence[int], more: Sequence[Source]) -> Scope:
        """The same in rounds: as many of each example as its count says, and what is new there."""
        sources = [
            one._replace(
                values=tuple(chain.from_iterable([v] * n for v, n in zip(one.values, counts, strict=True)))
            )
            for one in self.sources
        ]
        return replace(
            self, sources=[*more, *sources], size=sum(counts), made=[], derived={}, parted={}, is_round=True
        )

    @cached_property
    def plain(self) -> list[Term]:
        """All that can be reached, with its cost."""
        found: list[Term] = []
        for age, source in enumerate(self.sources):
            for leaf in leaves_of(source):
                depth = leaf.code.count("[") - source.code.count("[")
                said = 0.8 if self.readings is None else _NAMED - 0.05  # what the user said is not looked up
                cost = said if source.is_given else 1 + 0.05 * depth + 0.01 * age
                cost += 0.7 * (source.code in self.joins)
                found.append(Term(leaf.code, leaf.values, cost, leaf.conditions, source.is_given))
        for term in [*found]:
            found += _cells_of(term) if self.readings is None or self.size > 1 else ()
            if isinstance(term.values[0], dict) and not term.is_given:
                found += _named(term, [one for one in found if one.is_given])
        for code, each in self.named(found).items():
            is_open = code in self.unclear and all(
                isinstance(one, list) and len(one) == 1
                for term in found
                if term.code == code
                for one in term.values
            )
            found = [one for one in found if is_open or not one.code.startswith(f"{code}[")]
            for parts in each:
                part, is_only = parts[0], not self.is_round and all(len(one.items) == 1 for one in parts)
                if part.picked or is_only:
                    alone = (f"len({part.code}) == 1",) if not part.picked else ()
                    items = tuple(one.items[0] for one in parts)
                    picked = Source(part.picked or f"{part.code}[0]", items)
                    found += (
                        Term(
                            leaf.code,
                            leaf.values,
                            _NAMED,
                            (*alone, *part.conditions),
                            picked=((picked.code, items),),
                        )
                        for leaf in leaves_of(picked)
                    )
        return found

    def named(self, terms: Sequence[Term]) -> dict[str, Sequence[tuple[Part, ...]]]:
        """The parts of lists that the words name, by the code of the list; none where that is unclear."""
        found: dict[str, Sequence[tuple[Part, ...]]] = {}
        for term in terms if self.readings is not None else ():
            if self.readings and all(isinstance(value, list) for value in term.values):
                parts = self.readings.parts(term.code, term.values)
                if parts is not None:
                    found[term.code] = parts
                if parts == () and not (self.is_strict or is_vague(self.readings.inputs.request)):
                    self.unclear.add(term.code)
        return found

    def is_unclear(self, code: str) -> bool:
        """Whether the words restrict a list in a way that is not understood."""
        return any(one in code for one in self.unclear)

    @cached_property
    def lists(self) -> list[Term]:
        """The lists that can be reached; their parts where the words name some, and no other run decides."""
        found = {one.code: one for one in self.every_list}
        for code, each in self.named(self.every_list).items():
            if code in self.unclear:
                continue
            found = {name: one for name, one in found.items() if code not in name}
            for parts in each:
                if not parts[0].picked:
                    items = tuple([*one.items] for one in parts)
                    found[parts[0].code] = Term(
                        parts[0].code, cast("Any", items), _NAMED, parts[0].conditions
                    )
        return [*found.values()]

    @cached_property
    def every_list(self) -> list[Term]:
        """The lists that can be reached, and the lines of texts."""
        found: dict[str, Term] = {}
        for looped in self.derived.values():
            found[looped.code] = Term(looped.code, cast("Any", looped.items), 1.0)
        for term in self.plain:
            if all(isinstance(value, list) and len(value) <= MOST_ITEMS for value in term.values):
                for one in (term, *_within(term)):
                    found.setdefault(one.code, one)
            elif all(isinstance(value, str) for value in term.values) and any(
                "\n" in str(value) for value in term.values
            ):
                for one in _lines(term):
                    found.setdefault(one.code, one)
        return [*found.values()]

    @cached_property
    def comparable(self) -> list[tuple[str, Term]]:
        """What items may be compared with, the likeliest first, each with a key for its values."""
        found: list[tuple[str, Term]] = []
        for term in sorted(self.plain, key=lambda one: one.cost):
            if (
                any(" == 1" not in one for one in term.conditions)
                or re.split(r"\W", term.code, maxsplit=1)[0] in self.receipts
            ):
                continue
            first = term.values[0]
            is_plain = (
                isinstance(first, str | int | float) and not isinstance(first, bool) and len(str(first)) < 200
            )
            is_list = all(
                isinstance(v, list) and all(isinstance(x, str | int) for x in v) for v in term.values
            ) and any(term.values)
            if is_plain or is_list:
                found.append((json.dumps(term.values), term))
            elif not self.is_row:
                found += ((json.dumps(one.values), one) for one in _columns_of(term))
        return found

    def at_hand(self, counts: Sequence[int], without: str = "", *, only_given: bool = False) -> list[AtHand]:
        """What items may be compared with, each as often as its example has items."""
        once: dict[str, Term] = {}
        for key, term in self.comparable:
            if term.code != without:
                once.setdefault(key, term)
        known = [
            AtHand(
                term.code,
                [v for v, n in zip(term.values, counts, strict=True) for _ in range(n)],
                term.is_given,
                self.signs.get(term.code, ""),
            )
            for term in once.values()
            if (term.is_given or not only_given) and not (without and f" in {without}]" in term.code)
        ]
        return [*known, *_shifted(known)]

    @cached_property
    def likely(self) -> list[Term]:
        """The parts of lists that words of the user name."""
        found: list[Term] = []
        for term in self.lists:
            tables = cast("tuple[list[JSON], ...]", term.values)
            if " if " in term.code or not 1 < sum(map(len, tables)) <= MOST_ROWS:
                continue
            at_hand = self.at_hand([*map(len, tables)], term.code, only_given=True)
            key = (term.code, *map(id, tables), *(one.code for one in at_hand))
            if key not in self.parted:
                self.parted[key] = _Parted(tables, [*_parted(tables, at_hand, self.words)])
            found += (
                Term(
                    f"[each for each in {term.code} if {rule.code}]",
                    cast("Any", kept),
                    term.cost + rule.cost + 0.3,
                )
                for rule, kept in self.parted[key].kept
            )
        return found

    def met_by(self, code: str, listing: str = "") -> float:
        """What code costs less that compares as the words say, and more that leaves out words for a list."""
        unmet = len(self.unmet(listing, code)) if listing else 0
        named = sum(bool(sign) and f" {sign} {name}" in code for name, sign in self.signs.items())
        return _MET * named - _UNMET * unmet

    def conditions_in(self, code: str) -> tuple[str, ...]:
        """What has to hold for the values that code compares with."""
        found = (term.conditions for term in self.plain if term.conditions and term.code in code)
        return (*dict.fromkeys(chain.from_iterable(found)),)


def _columns_of(term: Term) -> Iterator[Term]:
    """The columns of texts and numbers of lists of objects, in which an item may be."""
    if not all(isinstance(value, list) and len(value) <= MOST_ITEMS for value in term.values):
        return
    tables = cast("tuple[list[JSON], ...]", term.values)
    rows = [*chain.from_iterable(tables)]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return
    for name in cast("dict[str, JSON]", rows[0]):
        column = [cast("dict[str, JSON]", row).get(name) for row in rows]
        if all(isinstance(one, str | int) and not isinstance(one, bool) for one in column):
            at = f"one[{json.dumps(name, ensure_ascii=False)}]"
            values = tuple([cast("Any", row)[name] for row in table] for table in tables)
            yield Term(f"[{at} for one in {term.code}]", cast("Any", values), term.cost + 0.2)


def _shifted(known: Sequence[AtHand]) -> Iterator[AtHand]:
    """The days that are as far from known ones as the user has said, in days or weeks."""
    spans = [(one, found[0]) for one in known if one.is_given and (found := _SPAN.match(one.code))]
    for span, unit in spans:
        if not all(isinstance(n, int) and 0 < n <= _FARTHEST for n in span.values):
            continue
        for one in known:
            if not all(isinstance(v, str) and _DAY.match(v) for v in one.values):
                continue
            for sign in (-1, 1):
                try:
                    values = [
                        (
                            date.fromisoformat(str(v)[:10]) + sign * timedelta(**{f"{unit}s": cast("int", n)})
                        ).isoformat()
                        for v, n in zip(one.values, span.values, strict=True)
                    ]
                except (ValueError, OverflowError):
                    continue
                mark = "-" if sign < 0 else "+"
                code = (
                    f"(date.fromisoformat({one.code}[:10]) {mark} timedelta({unit}s={span.code})).isoformat()"
                )
                yield AtHand(code, values, is_given=True)


def _parted(
    tables: tuple[list[JSON], ...], at_hand: Sequence[AtHand], words: frozenset[str]
) -> Iterator[tuple[Rule, tuple[list[JSON], ...]]]:
    """What words say of the items of lists, and those that pass."""
    rows = rows_of([*chain.from_iterable(tables)])
    every = (1 << len(rows)) - 1
    given = {quoted(one.values[0]) for one in at_hand if one.is_given and one.values}
    all_tests = [
        *tests_of(rows, [True] * len(rows), at_hand, words, only_said=False),
        *(one for one in states_of(rows, words) if one.code.rpartition(" == ")[2] not in given),
    ]
    telling = (one for one in all_tests if one.cost < LIKELY and one.passes not in (0, every))
    tests = sorted(telling, key=lambda one: one.cost)[:_MOST_LIKELY]
    both = [
        Rule(f"{a.code} and {b.code}", a.passes & b.passes, a.cost + b.cost)
        for a, b in combinations(tests, 2)
    ]
    for rule in (*tests, *both):
        if rule.passes not in (0, every):
            yield rule, tuple(kept_by(tables, rule))


def _cells_of(term: Term) -> Iterator[Term]:
    """The cells of rows that are lists."""
    values = term.values
    if all(isinstance(v, list) and 1 < len(v) < 10 for v in values):
        rows = cast("tuple[list[JSON], ...]", values)
        if len({*map(len, rows)}) == 1 and not any(
            isinstance(cell, dict | list) for row in rows for cell in row
        ):
            for n in range(len(rows[0])):
                yield term._replace(
                    code=f"{term.code}[{n}]", values=tuple(row[n] for row in rows), cost=term.cost + 0.1
                )


def _named(term: Term, given: Sequence[Term]) -> Iterator[Term]:
    """The fields of an object that the user has named."""
    for one in given:
        if len({*map(str, one.values)}) > 1 and all(
            isinstance(v, dict) and isinstance(key, str) and key in v
            for v, key in zip(term.values, one.values, strict=True)
        ):
            values = tuple(cast("Any", v)[key] for v, key in zip(term.values, one.values, strict=True))
            yield term._replace(code=f"{term.code}[{one.code}]", values=values, cost=0.9)


def _within(term: Term) -> Iterator[Term]:
    """The lists in a list, as one; what its objects have in a field, each once."""
    tables = cast("tuple[list[JSON], ...]", term.values)
    rows = [*chain.from_iterable(tables)]
    if rows and all(isinstance(row, list) for row in rows):
        inner = tuple([*chain.from_iterable(cast("list[list[JSON]]", table))] for table in tables)
        yield Term(f"[item for each in {term.code} for item in each]", cast("Any", inner), term.cost + 0.5)
    if rows and all(isinstance(row, dict) for row in rows):
        objects = cast("list[dict[str, Any]]", rows)
        for name in objects[0]:
            at = f"each[{json.dumps(name, ensure_ascii=False)}]"
            if all(isinstance(row.get(name), list) for row in objects):
                flat = tuple(
                    [x for row in cast("list[dict[str, Any]]", table) for x in row[name]] for table in tables
                )
                yield Term(
                    f"[item for each in {term.code} for item in {at}]", cast("Any", flat), term.cost + 0.5
                )
            elif all(isinstance(row.get(name), str) for row in objects):
                once = tuple(
                    [*dict.fromkeys(row[name] for row in cast("list[dict[str, Any]]", table))]
                    for table in tables
                )
                if any(len(one) < len(table) for one, table in zip(once, tables, strict=True)):
                    yield Term(
                        f"[*dict.fromkeys({at} for each in {term.code})]", cast("Any", once), term.cost + 0.6
                    )


def _lines(term: Term) -> Iterator[Term]:
    """The lines of a text, and the rows of a table in one."""
    texts = cast("tuple[str, ...]", term.values)
    lines = [[line for line in text.splitlines() if line.strip()] for text in texts]
    if max(map(len, lines)) > MOST_ITEMS:
        return
    yield Term(
        f"[each for each in {term.code}.splitlines() if each.strip()]",
        cast("Any", tuple(lines)),
        term.cost + 0.5,
    )
    heads = {one[0] if one else "" for one in lines}
    head = next(iter(heads)).split(",")
    if (
        len(heads) == 1
        and len(head) > 1
        and all(line.count(",") == len(head) - 1 for one in lines for line in one)
    ):
        rows = tuple([dict(zip(head, line.split(","), strict=True)) for line in one[1:]] for one in lines)
        split = f'{term.code}.splitlines()[0].split(",")'
        kept = f"for each in {term.code}.splitlines()[1:] if each.strip()"
        yield Term(f'[dict(zip({split}, each.split(","))) {kept}]', cast("Any", rows), term.cost + 0.4)


def figures(scope: Scope, lists: Sequence[Term] | None = None) -> Iterator[Term]:
    """Figures of lists: how many items, sums, means, the greatest and the least of their numbers."""
    for term in _figures(scope, lists):
        if scope.readings is None or scope.readings.may_be(term.code):
            yield term


def _figures(scope: Scope, lists: Sequence[Term] | None) -> Iterator[Term]:
    for term in scope.lists if lists is None else lists:
        if scope.is_unclear(term.code) and " if " not in term.code:
            continue
        tables = cast("tuple[list[JSON], ...]", term.values)
        is_filled = (f"len({term.code}) > 0",) if all(tables) else ()
        may_be_none = () if "count" in scope.asks else is_filled
        yield Term(f"len({term.code})", tuple(map(len, tables)), term.cost + 0.4, may_be_none)
        is_filled = () if "sum" in scope.asks else is_filled
        rows = [*chain.from_iterable(tables)]
        columns: list[tuple[str, list[list[Any]]]] = []
        if rows and all(map(is_number, rows)):
            columns.append((term.code, cast("Any", [*tables])))
        if rows and all(isinstance(row, dict) for row in rows):
            objects = cast("list[list[dict[str, Any]]]", tables)
            names = [
                n
                for n in cast("dict[str, Any]", rows[0])
                if all(is_number(cast("Any", row).get(n)) for row in rows)
                and not NAMES_OF_IDS & {*words_of_field(n)}
            ]
            columns += [
                (f"[row[{quoted(n)}] for row in {term.code}]", [[row[n] for row in one] for one in objects])
                for n in names
            ]
            are_several = max(map(len, tables)) > 1  # of one row a figure is what it is calculated of
            for n, m in permutations(sorted(names), 2) if are_several else ():
                signs = (("*", mul), ("-", sub))[n > m : 1 + ("sum" in scope.asks)]
                for sign, function in signs:
                    code = f"[row[{quoted(n)}] {sign} row[{quoted(m)}] for row in {term.code}]"
                    columns.append((code, [[function(row[n], row[m]) for row in one] for one in objects]))
        for code, numbers in columns:
            yield Term(f"sum({code})", tuple(map(sum, numbers)), term.cost + 0.6, is_filled)
            if any(isinstance(x, float) for one in numbers for x in one):
                yield Term(
                    f"round(sum({code}), 2)",
                    tuple(round(sum(one), 2) for one in numbers),
                    term.cost + 0.7,
                    is_filled,
                )
            if all(numbers):
                means = [sum(one) / len(one) for one in numbers]
                for places in (1, 2):
                    yield Term(
                        f"round(sum({code}) / len({term.code}), {places})",
                        tuple(round(x, places) for x in means),
                        term.cost + 0.9,
                    )
                yield Term(f"max({code})", tuple(map(max, numbers)), term.cost + 0.8)
                yield Term(f"min({code})", tuple(map(min, numbers)), term.cost + 0.8)


def are_same(left: Sequence[JSON], right: Sequence[JSON]) -> bool:
    """Whether two rounds of values are the same; True is not 1."""
    return all(a == b and type(a) is type(b) for a, b in zip(left, right, strict=True))


def quoted(value: JSON) -> str:
    """A value as code."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def best(terms: Sequence[Term]) -> Term | None:
    """The likeliest term, which has to agree with those that are about as likely."""
    if not terms:
        return None
    one = terms[0]
    return one._replace(conditions=(*one.conditions, *agreeing(terms)))


def agreeing(terms: Sequence[Term]) -> list[str]:
    """The conditions that those which are about as likely as the first give the same."""
    rivals = rivals_of(terms)
    return [*chain.from_iterable((*other.conditions, f"{terms[0].code} == {other.code}") for other in rivals)]


def rivals_of(terms: Sequence[Term]) -> list[Term]:
    """The terms that are about as likely as the first, and say something else."""
    one = terms[0]
    if one.is_given or one.code in ("True", "False", "None"):
        return []
    return [other for other in terms[1:] if other.cost < one.cost + 0.6 and not other.is_given][:2]


def kept_by(tables: Sequence[Sequence[JSON]], test: Rule) -> list[list[JSON]]:
    """The items of lists that pass a rule."""
    bits = iter(range(sum(map(len, tables))))
    return [[item for item in table if test.passes >> next(bits) & 1] for table in tables]
