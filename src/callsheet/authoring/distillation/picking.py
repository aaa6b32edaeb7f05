"""Items of lists that something tells from the others, and the lists that loops go over.

In: lists with their values in every example, and what is wanted of their items. Out: code that picks the same
items in all examples, or filters and sorts the same lists, the likeliest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, pairwise
from math import prod
from typing import Any, cast

from callsheet.authoring.distillation.item_tests import (
    NEAR_WORDS,
    conditions_of,
    field_code,
    price_fields,
    words_in,
    words_of_field,
)
from callsheet.authoring.distillation.leaves import NAMES_OF_IDS, Source, is_number, leaves_of
from callsheet.authoring.distillation.rules import LIKELY, Rule, rows_of, rules_for, said_in, tests_of
from callsheet.authoring.distillation.scopes import MOST_ROWS, Looped, Scope, Term, kept_by
from callsheet.authoring.distillation.wording import NUMBER_WORDS, is_kin
from callsheet.ir import JSON

_SHORTEST, _LEAST = 4, 3
_CLEAR = 4
"""Of so many choices the first line is no chance, although no word names it."""
_NO_CHANCE = 50
"""Of so many choices an item by a field that no word asks for is none."""
_ASKED = 0.4
_MOST_TESTS, _MOST_NAMED = 200, 6
_SUPERLATIVES = {
    "min": frozenset(["least", "lowest", "smallest", "cheapest", "shortest", "fewest", "nearest", "minimum"]),
    "max": frozenset(
        ["most", "highest", "largest", "biggest", "greatest", "longest", "best", "top", "maximum", "dearest"]
    ),
}
_OF_TIME = {
    "min": frozenset(["earliest", "oldest", "first", "next", "soonest"]),
    "max": frozenset(["latest", "newest", "last", "recent"]),
}
_OF_PRICES = frozenset(["cheapest", "priciest", "dearest"])
_EXTREMES = frozenset[str]().union(*_SUPERLATIVES.values()) - {"best", "top", "most"}
"""Words that name the least or the greatest, which no place in a list does."""
_SORTED = frozenset(("sorted", "sort", "alphabetical", "alphabetically"))
_ORDERLY = _SORTED | {"name", "order"}
_PLACES = {
    "0": frozenset(("first", "next", "latest", "newest", "top")),
    "-1": frozenset(("last", "latest", "newest")),
}


def related(value: JSON, part: JSON) -> int:
    """How much a value has of a part: 3 if it is the same, 2 if one is in the other, 1 if a word is, or 0."""
    if isinstance(part, bool | None | list | dict) or isinstance(value, bool | None | list | dict):
        return 3 if isinstance(part, list | dict) and value == part and part else 0
    return _alike(str(value), str(part))


@lru_cache(maxsize=100_000)
def _alike(one: str, two: str) -> int:
    if one == two:
        return 3
    short, long = (one, two) if len(one) < len(two) else (two, one)
    if (
        len(short) >= _LEAST
        and short in long
        and re.search(rf"(?<![^\W_]){re.escape(short)}(?![^\W_])", long)
    ):
        return 2
    return (
        1
        if len(two.split()) > 1
        and len(two) > _SHORTEST
        and any(len(x) > _SHORTEST and x in one for x in two.split())
        else 0
    )


def picks(
    scope: Scope, term: Term, goal: Sequence[JSON]
) -> Iterator[tuple[str, tuple[JSON, ...], float, tuple[str, ...]]]:
    """How the items of a list are picked that have something of the wanted values."""
    tables = cast("tuple[list[JSON], ...]", term.values)
    ties: list[list[int]] = []
    if sum(map(len, tables)) > MOST_ROWS or (scope.gone_through and term.code in scope.gone_through):
        return
    for table, value in zip(tables, goal, strict=True):
        scores = [max((related(value, leaf.values[0]) for leaf in _cells(item)), default=0) for item in table]
        top = max(scores)
        if not top:
            return
        ties.append([place for place, score in enumerate(scores) if score == top])
    found = _untied(scope, tables, ties)
    if found is None:
        return
    places = [one[0] for one in found]
    items = tuple(table[place] for table, place in zip(tables, places, strict=True))
    code, cost = term.code, term.cost
    is_extreme = bool(scope.words & _EXTREMES) and not scope.is_ordered
    rows = rows_of([*chain.from_iterable(tables)])
    wanted = [place == n for place, table in zip(places, tables, strict=True) for n in range(len(table))]
    at_hand = scope.at_hand([*map(len, tables)])
    is_asked = is_extreme and _is_asked_of(scope.request, code)
    only_said = scope.only_said or is_asked  # what else the chosen ones have in common is chance
    rules = rules_for(rows, wanted, at_hand, scope.words, only_said=only_said, has_bounds=scope.has_bounds)
    is_named = any(
        one.is_given
        and len({*map(str, one.values)}) > 1
        and rule.code.endswith((f" == {one.code}", f".startswith({one.code})"))
        for rule in rules
        for one in at_hand
    )  # what the user says of one item tells it from the others, wherever it is
    extremes = [*_extremes(scope, code, tables, items, cost + 0.5, is_named=is_named)]
    yield from extremes
    for at, places_at in (("0", [0] * len(places)), ("-1", [len(table) - 1 for table in tables])):
        if (
            places == places_at
            and not is_named
            and (
                scope.words & _PLACES[at]
                or not (scope.only_said or is_extreme or (at == "-1" and _is_chance(scope, tables)))
            )
        ):
            likely = 0.2 if scope.words & _PLACES[at] else 0.7 if at == "0" else 1.3
            yield f"{code}[{at}]", items, cost + likely, ()
    for rule in rules:
        kept = f"[each for each in {code} if {rule.code}]"
        asks = (*scope.conditions_in(rule.code), *conditions_of(rule.code, code))
        likely = cost - 0.3 + rule.cost
        only = (f"{kept}[0]", items, likely + 1.0 * is_extreme, (f"len({kept}) == 1",))
        # of one item each that words tell apart the runs show no order, but the words may have it
        ranked = is_asked and [*_extremes(scope, kept, kept_by(tables, rule), items, likely, is_named=True)]
        for picked, chosen, price, conditions in ranked or (only,):
            yield picked, chosen, price, (*asks, *conditions)
    goal_bits = sum(1 << n for n, one in enumerate(wanted) if one)
    seen: set[int] = set()
    tests = [*tests_of(rows, wanted, at_hand, scope.words, only_said=only_said)]
    for test in _with_pairs(tests, goal_bits):
        if test.passes & goal_bits != goal_bits or test.passes in seen or test.passes == goal_bits:
            continue
        seen.add(test.passes)
        kept = kept_by(tables, test)
        if kept != [*tables] and any(len(one) > 1 for one in kept):
            listing = f"[each for each in {code} if {test.code}]"
            named = 0.4 if scope.words & _PLACES["0"] else 0
            is_line = all(isinstance(item, str) for item in items)  # any text has some lines with a word
            is_meant = bool(named) or (not is_extreme and (not is_line or prod(map(len, kept)) >= _CLEAR))
            asks = (*conditions_of(test.code, code), *_of_bounds(scope, test.code, code, tests))
            if is_meant and all(one[0] == item for one, item in zip(kept, items, strict=True)):
                yield f"{listing}[0]", items, cost + 0.3 + test.cost - named, asks
            if extremes and test.cost >= LIKELY:
                continue  # the whole list has the same item there: the test is chance
            for picked, chosen, price, conditions in _extremes(
                scope, listing, kept, items, cost + 0.1 + test.cost
            ):
                yield picked, chosen, price, (*asks, *conditions)


def _with_pairs(tests: Iterable[Rule], wanted: int) -> list[Rule]:
    """The likeliest tests, and two at once of those that words of the user name and the wanted rows pass."""
    single = sorted(tests, key=lambda one: one.cost)[:_MOST_TESTS]
    named = [one for one in single if one.cost < LIKELY and one.passes & wanted == wanted][:_MOST_NAMED]
    pairs = (
        Rule(f"{one.code} and {two.code}", one.passes & two.passes, one.cost + two.cost)
        for one, two in combinations(named, 2)
    )
    return [*single, *pairs]


def _of_bounds(scope: Scope, test: str, listing: str, tests: Sequence[Rule]) -> Iterator[str]:
    """The conditions that no item is at a bound, if neither words nor the record say whether it is within."""
    passes = {one.code: one.passes for one in tests}
    for at, sign, bound in re.findall(r"(each(?:\[[^\]]+\])+) ([<>])=? (\w+)\b", test):
        less, least = (f"{at} {sign}{end} {bound}" for end in ("", "="))
        if scope.signs.get(bound) == "" and passes.get(less) == passes.get(least):
            yield f"all({at} != {bound} for each in {listing})"


def _untied(
    scope: Scope, tables: Sequence[list[JSON]], possible: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]] | None:
    """The places of the items that are meant, of several possible ones: those that the words select."""
    if all(len(one) == 1 for one in possible):
        return possible
    if sum(map(len, tables)) > MOST_ROWS:
        return None
    rows = rows_of([*chain.from_iterable(tables)])
    at_hand = scope.at_hand([*map(len, tables)], only_given=True)
    tests = tests_of(rows, [True] * len(rows), at_hand, scope.words, only_said=True)
    for test in sorted(tests, key=lambda one: one.cost):
        bits = iter(range(len(rows)))
        kept = [[n for n in range(len(table)) if test.passes >> next(bits) & 1] for table in tables]
        if all(len(one) == 1 and one[0] in each for one, each in zip(kept, possible, strict=True)):
            return kept
    return None


def _cells(item: JSON) -> Iterator[Any]:
    source = Source("", (item,))
    yield from leaves_of(source)
    for cell in item if isinstance(item, list) else ():
        yield from leaves_of(Source("", (cell,)))


def _extremes(
    scope: Scope,
    code: str,
    tables: Sequence[Sequence[JSON]],
    items: Sequence[JSON],
    cost: float,
    *,
    is_named: bool = False,
) -> Iterator[tuple[str, tuple[JSON, ...], float, tuple[str, ...]]]:
    """The least or the greatest of each list by a field; with `is_named` only what words ask for."""
    every = [rows_of(table) for table in tables]
    prices = price_fields(every[0][0]) if scope.words & _OF_PRICES else []
    prices += [name for name in every[0][0] if prices and said_in(name, scope.words) and name not in prices]
    for name in prices or every[0][0]:
        columns: list[list[Any]] = [[row.get(name) for row in rows] for rows in every]
        if not _comparable([*chain.from_iterable(columns)]) or NAMES_OF_IDS & {*words_of_field(name)}:
            continue
        at = field_code("one", name)
        for function, word in ((min, "min"), (max, "max")):
            places = [column.index(function(column)) for column in columns]
            are_alone = all(column.count(function(column)) == 1 for column in columns)
            if are_alone and all(
                table[place] == item for table, place, item in zip(tables, places, items, strict=True)
            ):
                bonus = _bonus(scope, name, word, columns)
                other = _bonus(scope, name, "min" if word == "max" else "max", columns)
                if other > bonus and not said_in(name, scope.words):
                    continue  # the user asks for the opposite, of another field
                if bonus < _ASKED and (scope.only_said or is_named or _is_chance(scope, every)):
                    continue
                picked = f"{word}({code}, key=lambda one: {at})"
                alone = f"len([one for one in {code} if {at} == {field_code(picked, name)}]) == 1"
                yield picked, (*items,), cost + 0.5 - bonus, (*conditions_of(at, code), alone)


def _is_chance(scope: Scope, tables: Sequence[Sequence[object]]) -> bool:
    """Whether an item may be the least, the greatest or the last by chance: by how many there were."""
    return not scope.is_answered and (scope.means_all or prod(map(len, tables)) < _NO_CHANCE)


def _is_asked_of(request: str, code: str) -> bool:
    """Whether the words ask for the least or the greatest of the things that a list is called after."""
    words, names = words_in(request), re.findall(r"[a-z]{3,}", code.lower())
    return any(
        is_kin(noun, name)
        for place, word in enumerate(words)
        if word in _EXTREMES
        for noun in words[place + 1 : place + 1 + NEAR_WORDS]
        for name in names
    )


def _bonus(scope: Scope, name: str, word: str, columns: Sequence[Sequence[JSON]]) -> float:
    """What the words of the user make likelier: the least or the greatest, of days or of numbers."""
    is_time = any(isinstance(x, str) for column in columns for x in column)
    is_price = price_fields([name]) or said_in(name, scope.words)
    likely = _OF_TIME[word] if is_time else _SUPERLATIVES[word] - (frozenset() if is_price else _OF_PRICES)
    return _ASKED * bool(scope.words & likely) + 0.3 * said_in(name, scope.words)


def _comparable(column: Sequence[JSON]) -> bool:
    return all(map(is_number, column)) or all(
        isinstance(one, str) and one[:4].isdigit() and "-" in one for one in column
    )


def loops(
    scope: Scope, groups: Sequence[Sequence[dict[str, JSON]]], *, may_end: bool = False
) -> list[Looped]:
    """The lists with an item for each round: their code, filtered and sorted as the rounds show.

    `groups` has the arguments of each round, by example. With `may_end` the rounds may end before the list.
    """
    found: list[Looped] = []
    lists = {one.code: one for one in (*(scope.every_list if scope.is_look else ()), *scope.lists)}
    for term in lists.values():  # what is looked up for each item may be what the words ask for
        tables = cast("tuple[list[JSON], ...]", term.values)
        if any(len(table) < len(group) for table, group in zip(tables, groups, strict=True)):
            continue
        for places in _places(scope, tables, groups):
            found += _looped(scope, term, tables, places, may_end=may_end)
    found = [one._replace(cost=one.cost - scope.met_by(one.code, one.code)) for one in found]
    found.sort(key=lambda one: one.cost)
    return [*{one.code: one for one in reversed(found)}.values()][::-1]


def _places(
    scope: Scope, tables: Sequence[list[JSON]], groups: Sequence[Sequence[dict[str, JSON]]]
) -> Iterator[list[list[int]]]:
    """The items that the rounds are about, by their places: those that words select, the first that fit."""
    once = {id(table): rows_of(table) for table in tables}
    every = [once[id(table)] for table in tables]
    rounds = [(number, args) for number, group in enumerate(groups) for args in group]
    if not rounds:
        return
    possible = [{*range(len(tables[number]))} for number, _ in rounds]
    fields = {name for rows in once.values() for row in rows for name in row}
    is_related = False
    for least in (3, 2, 1):
        for arg in rounds[0][1]:
            for name in fields:
                narrower: list[set[int]] = []
                for (number, args), known in zip(rounds, possible, strict=True):
                    value, rows = args.get(arg), every[number]
                    kept = {n for n in known if related(value, rows[n].get(name)) >= least}
                    if not kept:  # of one round it says nothing, and so of none
                        break
                    narrower.append(kept)
                else:
                    possible, is_related = narrower, True
    if not is_related:
        return
    if any(len(one) > 1 for one in possible):
        yield from _selected(scope, tables, rounds, possible)
    places: list[list[int]] = [[] for _ in groups]
    for (number, _), found in zip(rounds, possible, strict=True):
        taken = places[number]
        free = sorted(found - {*taken})
        later = [one for one in free if not taken or one > taken[-1]]
        if not free:
            return
        taken.append((later or free)[0])
    yield places


def _selected(
    scope: Scope,
    tables: Sequence[list[JSON]],
    rounds: Sequence[tuple[int, dict[str, JSON]]],
    possible: Sequence[set[int]],
) -> Iterator[list[list[int]]]:
    """The places of the items that words select, if each round may be about one, in their order."""
    if sum(map(len, tables)) > MOST_ROWS:
        return
    rows = rows_of([*chain.from_iterable(tables)])
    at_hand = scope.at_hand([*map(len, tables)], only_given=True)
    seen: list[list[list[int]]] = []
    for test in tests_of(rows, [True] * len(rows), at_hand, scope.words, only_said=True):
        bits = iter(range(len(rows)))
        kept = [[n for n in range(len(table)) if test.passes >> next(bits) & 1] for table in tables]
        about = [(number, place) for number, one in enumerate(kept) for place in one]
        is_it = len(about) == len(rounds) and all(
            number == at and place in each
            for (number, place), (at, _), each in zip(about, rounds, possible, strict=True)
        )
        if is_it and kept not in seen:
            seen.append(kept)
            yield kept


def _looped(
    scope: Scope, term: Term, tables: Sequence[list[JSON]], places: Sequence[list[int]], *, may_end: bool
) -> Iterator[Looped]:
    taken = [[n in one for n in range(len(table))] for table, one in zip(tables, places, strict=True)]
    items = tuple([table[n] for n in one] for table, one in zip(tables, places, strict=True))
    in_order = all(one == sorted(one) for one in places)
    wanted = [*chain.from_iterable(taken)]
    if all(wanted) and not scope.is_look and scope.is_unclear(term.code):
        return  # what the words leave out, the run does not show
    if all(wanted) and in_order:
        yield from _as_they_are(scope, term, items)
        return
    rows = rows_of([*chain.from_iterable(tables)])
    at_hand = scope.at_hand([*map(len, tables)], term.code)
    options = (
        [Rule("", (1 << len(rows)) - 1, -1.0)]
        if all(wanted)
        else rules_for(
            rows,
            wanted,
            at_hand,
            scope.words,
            only_said=scope.readings is not None,
            has_bounds=scope.has_bounds,
        )
    )
    for rule in options:
        code = f"[each for each in {term.code} if {rule.code}]" if rule.code else term.code
        asks = tuple(conditions_of(rule.code, term.code))
        if in_order:
            yield Looped(code, items, term.cost + rule.cost, conditions=asks)
        else:
            for one in _sorted(scope, code, kept_by(tables, rule), items, term.cost + rule.cost):
                yield one._replace(conditions=(*asks, *one.conditions))
    counts = [*map(len, items)]
    given = (term for term in scope.plain if term.is_given and all(type(v) is int for v in term.values))
    limits = [(term.code, term.cost) for term in given if [*term.values] == counts]
    if len({*counts}) == 1 and scope.words & {*NUMBER_WORDS[counts[0] : counts[0] + 1]}:
        limits.append((str(counts[0]), 0.8))
    if not may_end and not limits:
        return
    tests = [
        Rule("", (1 << len(rows)) - 1, -1.0),
        *tests_of(rows, wanted, at_hand, scope.words, only_said=scope.readings is not None),
    ]
    goal = sum(1 << n for n, one in enumerate(wanted) if one)
    for test in sorted((one for one in tests if one.passes & goal == goal), key=lambda one: one.cost)[:40]:
        code = f"[each for each in {term.code} if {test.code}]" if test.code else term.code
        kept = kept_by(tables, test)
        begun = [*_sorted(scope, code, kept, items, term.cost + test.cost)]
        if all(one[: len(item)] == item for one, item in zip(kept, items, strict=True)):
            begun.append(Looped(code, items, term.cost + test.cost + 0.3))
        asks = tuple(conditions_of(test.code, term.code))
        for one in begun:
            yield from (
                Looped(
                    f"{one.code}[:{limit}]", items, one.cost + cost - 0.6, conditions=(*asks, *one.conditions)
                )
                for limit, cost in limits
            )
            if may_end:
                yield one._replace(is_prefix=True)


def _as_they_are(scope: Scope, term: Term, items: tuple[list[JSON], ...]) -> Iterator[Looped]:
    """A whole list; and in the order that the words want, which it had in the record, perhaps by chance."""
    yield Looped(term.code, items, term.cost)
    words = [word for word in words_in(scope.request) if word not in {"the", "their", "its"}]
    after = [two for one, two in pairwise(words) if one == "by"]
    for one in (
        _sorted(scope, term.code, items, items, term.cost - 0.6) if after or _SORTED & {*words} else ()
    ):
        field = words_of_field(one.code.rpartition("lambda one: ")[2].rpartition('["')[2])
        if _SORTED & {*words} or any(is_kin(word, part) for word in after for part in field):
            yield one


def _sorted(
    scope: Scope, code: str, kept: Sequence[list[JSON]], items: Sequence[list[JSON]], cost: float
) -> Iterator[Looped]:
    """A list in the order of a field, of which the first items are the wanted ones."""
    every = [rows_of(table) for table in kept]
    for name in next((rows[0] for rows in every if rows), dict[str, JSON]()):
        columns: list[list[Any]] = [[row.get(name) for row in rows] for rows in every]
        is_text = all(isinstance(x, str) for column in columns for x in column) and bool(
            scope.words & _ORDERLY
        )
        if not is_text and not all(_comparable(column) for column in columns):
            continue
        for backwards in (False, True):
            order = [sorted(range(len(one)), key=one.__getitem__, reverse=backwards) for one in columns]
            if all([t[n] for n in o][: len(i)] == i for t, o, i in zip(kept, order, items, strict=True)):
                reverse = ", reverse=True" if backwards else ""
                word = "max" if backwards else "min"
                bonus = _bonus(scope, name, word, columns)
                yield Looped(
                    f"sorted({code}, key=lambda one: {field_code('one', name)}{reverse})",
                    tuple([*one] for one in items),
                    cost + 0.8 - bonus,
                    conditions=tuple(conditions_of(field_code("one", name), code)),
                )
