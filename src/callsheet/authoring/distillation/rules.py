"""What tells the items of lists apart that were taken from those that were not, in all recorded runs.

In: the items as rows of fields, whose lists they are of, and the values at hand for each. Out: rules as code
over an item that is called `each`, the likeliest first: those with words of the user, then the shortest.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.guards import is_state
from callsheet.authoring.distillation.item_tests import (
    CELL,
    LABEL,
    TEXT,
    WITHIN,
    field_code,
    flat,
    words_of_field,
)
from callsheet.authoring.distillation.leaves import NAMES_OF_IDS, is_number
from callsheet.authoring.distillation.wording import SMALL_WORDS, is_kin, word_set
from callsheet.ir import JSON

_MOST_TESTS, _MOST_RULES, _MOST_CONSTANTS = 80, 8, 12
_SHORTEST, _LONGEST = 3, 60
_LEAST_TAKEN, _MOST_WORDS = 3, 3
"""So many items show that a text which is no state and no word of the user is what counts."""
_SAID, _FOREIGN, _CONSTANT = 0.7, 0.4, 0.5
"""What a rule costs less that has a word of the user, and more that has a value of neither item nor user."""
_UNSAID = 0.4
_CLEARLY = 0.3
"""How much likelier the field of a bound has to be than any other one."""
LIKELY = 0.7
"""What the rules cost less than which have something that the user has said."""
_BOUNDS = word_set(
    "over above than under below least most up exceed exceeds exceeding within enough for beyond"
)
_DAY_BOUNDS = word_set("before after since until by from older newer due overdue later earlier past were was")
"""The words of comparisons, without which one is less likely."""
_KIND = re.compile(r"\[\w+\] ?")
"""What says before a text of which kind it is."""
_DAY = re.compile(r"\d{4}-\d\d(-\d\d.*)?\Z")
_MOMENT, _HOUR = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d"), re.compile(r"\d\d:\d\d")
_DAY_SIZE = 10
_SIGNS: tuple[tuple[str, Callable[[Any, Any], bool]], ...] = (
    ("<", operator.lt),
    (">", operator.gt),
    (">=", operator.ge),
    ("<=", operator.le),
)


class AtHand(NamedTuple):
    """A value that items may be compared with: its code, its value for each row, whether the user said it."""

    code: str
    values: Sequence[JSON]
    is_given: bool
    sign: str = ""
    """How the words say that things compare with it."""


class Rule(NamedTuple):
    """What is asked of an item, which rows pass as bits, and how unlikely it is meant."""

    code: str
    passes: int
    cost: float


def rows_of(items: Sequence[JSON]) -> list[dict[str, JSON]]:
    """The items as rows of fields, with those of the objects in them; a plain value is the field `""`."""
    return [
        {f"{CELL}{n}": cell for n, cell in enumerate(item)}
        if isinstance(item, list)
        else flat(item)
        if isinstance(item, dict)
        else {TEXT: item}
        for item in items
    ]


def rules_for(
    rows: Sequence[dict[str, JSON]],
    wanted: Sequence[bool],
    at_hand: Sequence[AtHand],
    words: frozenset[str],
    known: Sequence[bool] | None = None,
    *,
    only_said: bool = False,
    has_bounds: bool = False,
) -> list[Rule]:
    """The rules that exactly the wanted rows pass, of one test or two; only `known` rows count.

    With `only_said` the words of the user have to name each test. With `has_bounds` a bound that they name is
    part of the rule, also where the rows need none, if it is clear of which field it is.

    >>> doors = [{"open": True, "floor": 1}, {"open": False, "floor": 2}]
    >>> [rule.code for rule in rules_for(doors, [True, False], [], frozenset(["open"]))][0]
    'each["open"]'
    """
    mask = _bits(known) if known is not None else (1 << len(rows)) - 1
    goal = _bits(wanted) & mask
    tests = [
        test
        for test in tests_of(rows, [*wanted], at_hand, words, only_said=only_said)
        if test.passes & goal == goal
    ]
    single = [test for test in tests if test.passes & mask == goal]
    wide = sorted((test for test in tests if test.passes & mask != mask), key=lambda test: test.cost)
    both = [
        Rule(f"{one.code} and {two.code}", goal, one.cost + two.cost)
        for one, two in combinations(wide[:_MOST_TESTS], 2)
        if one.passes & two.passes & mask == goal and goal not in (one.passes & mask, two.passes & mask)
    ]
    bounds = sorted(
        (test for test in tests if has_bounds and test.passes & mask != mask and _is_bound(test, at_hand)),
        key=lambda test: test.cost,
    )
    if bounds and (len(bounds) == 1 or bounds[1].cost - bounds[0].cost >= _CLEARLY):
        limit = bounds[0].code
        single = [one._replace(code=f"{one.code} and {limit}") for one in single if one.code != limit]
    found = sorted([*single, *both], key=lambda rule: rule.cost)
    return [*{rule.code: rule for rule in found}.values()][:_MOST_RULES]


def _is_bound(test: Rule, at_hand: Sequence[AtHand]) -> bool:
    """Whether a test compares a field with something that the words say how to compare with."""
    code = test.code.removesuffix("[:10]")
    return any(one.is_given and one.sign and code.endswith(f" {one.sign} {one.code}") for one in at_hand)


def _bits(flags: Sequence[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def tests_of(
    rows: Sequence[dict[str, JSON]],
    wanted: Sequence[bool],
    at_hand: Sequence[AtHand],
    words: frozenset[str],
    *,
    only_said: bool,
) -> Iterator[Rule]:
    """What may be asked of rows: of flags, of empty fields, in comparison with values and other fields."""
    for rule in _tests_of(rows, wanted, at_hand, words):
        if not only_said or rule.cost < LIKELY:
            yield rule


def _tests_of(
    rows: Sequence[dict[str, JSON]],
    wanted: Sequence[bool],
    at_hand: Sequence[AtHand],
    words: frozenset[str],
) -> Iterator[Rule]:
    fields = [name for name in (rows[0] if rows else {}) if all(name in row for row in rows)]
    for field in fields:
        at, column = field_code("each", field), [row[field] for row in rows]
        support = said_in(field, words)
        for code, passes, cost, text in _tests_of_field(field, at, column, wanted, at_hand, words):
            bonus = _SAID if support or (text and said_in(text, words)) else 0
            yield Rule(code, _bits(passes), cost - bonus)
    yield from _tests_of_some(rows, at_hand, words)
    for one, two in permutations(fields, 2):
        left: list[Any] = [row[one] for row in rows]
        right: list[Any] = [row[two] for row in rows]
        if all(map(is_number, left)) and all(map(is_number, right)) and one != two:
            for sign, compare in (("<", operator.lt), ("<=", operator.le)):
                code = f"{field_code('each', one)} {sign} {field_code('each', two)}"
                bonus = _SAID if said_in(one, words) or said_in(two, words) else 0
                yield Rule(code, _bits([*map(compare, left, right)]), (1.4 if bonus else 1.9) - bonus)
            yield from _tests_of_difference(one, two, (left, right), at_hand, words)


def _tests_of_difference(
    one: str,
    two: str,
    columns: tuple[Sequence[float], Sequence[float]],
    at_hand: Sequence[AtHand],
    words: frozenset[str],
) -> Iterator[Rule]:
    """How the difference of two fields compares with what the user has said of it."""
    if NAMES_OF_IDS & {*words_of_field(one), *words_of_field(two)}:
        return
    gone = [a - b for a, b in zip(*columns, strict=True)]
    bonus = _SAID if said_in(one, words) or said_in(two, words) else 0
    for given in at_hand:
        if given.is_given and given.sign and all(map(is_number, given.values)):
            limits = cast("Sequence[float]", given.values)
            compare = dict(_SIGNS).get(given.sign, operator.eq)
            code = f"{field_code('each', one)} - {field_code('each', two)} {given.sign} {given.code}"
            yield Rule(code, _bits([*map(compare, gone, limits)]), _cost(given) + _FOREIGN - bonus)


def _tests_of_some(
    rows: Sequence[dict[str, JSON]], at_hand: Sequence[AtHand], words: frozenset[str]
) -> Iterator[Rule]:
    """Whether a field that only some rows have is as the user has said it."""
    every = {name for row in rows for name in row}
    some = sorted(name for name in every if not all(name in row for row in rows))
    for field in some:
        parent, _, name = field.rpartition(WITHIN)
        column = [row.get(field) for row in rows]
        has_parent = not parent or all(any(one.startswith(parent + WITHIN) for one in row) for row in rows)
        if not has_parent or LABEL in field or not all(one is None or isinstance(one, str) for one in column):
            continue
        at = f"{field_code('each', parent)}.get({json.dumps(name, ensure_ascii=False)})"
        for one in at_hand:
            if one.is_given:
                passes = [value == given for value, given in zip(column, one.values, strict=True)]
                yield Rule(f"{at} == {one.code}", _bits(passes), _cost(one) - _SAID)
        for text in dict.fromkeys(one for one in column if isinstance(one, str)):
            if not _is_of_this_time(text) and said_in(text, words) and len(text) < _LONGEST:
                code = f"{at} == {json.dumps(text, ensure_ascii=False)}"
                yield Rule(code, _bits([value == text for value in column]), 1.0 - _SAID)


def states_of(rows: Sequence[dict[str, JSON]], words: frozenset[str]) -> Iterator[Rule]:
    """The states of rows that words of the user name, as a test each."""
    for field in (name for name in (rows[0] if rows else {}) if all(name in row for row in rows)):
        column = [row[field] for row in rows]
        states = [*dict.fromkeys(one for one in column if isinstance(one, str))]
        if all(isinstance(one, str) for one in column) and len(states) <= _MOST_CONSTANTS:
            for state in states:
                if " " not in state and not _is_of_this_time(state) and said_in(state, words):
                    code = f"{field_code('each', field)} == {json.dumps(state, ensure_ascii=False)}"
                    yield Rule(code, _bits([one == state for one in column]), 1.0 - _SAID)


def in_all(groups: Iterable[Iterable[str]]) -> list[str]:
    """The texts that all groups have."""
    sets = [{*group} for group in groups]
    return sorted(one for one in (sets[0] if sets else ()) if all(one in each for each in sets))


def common_start(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    least, most = min(texts), max(texts)
    return least[: next((n for n, char in enumerate(least) if char != most[n]), len(least))]


def said_in(name: str, words: frozenset[str]) -> bool:
    """Whether a name or a text has a word of the user, in some form."""
    parts = [part for part in words_of_field(name) if part not in SMALL_WORDS and len(part) > 1]
    return any(is_kin(part, word) for part in parts for word in words)


def _is_of_this_time(text: str) -> bool:
    """Whether a text has a number, is an address, or is empty: another time it is another."""
    return not text.strip() or re.search(r"\d|@", text) is not None


def _cost(one: AtHand) -> float:
    return 1.0 - 0.5 * _SAID if one.is_given else 1.0 + _FOREIGN


_Found = tuple[str, Sequence[bool], float, str]


def _tests_of_field(
    field: str,
    at: str,
    column: list[JSON],
    wanted: Sequence[bool],
    at_hand: Sequence[AtHand],
    words: frozenset[str],
) -> Iterator[_Found]:
    if all(isinstance(one, bool) for one in column):
        yield at, [bool(one) for one in column], 1.0, ""
        yield f"not {at}", [not one for one in column], 1.0, ""
        return
    if any(one is None or one in ("", []) for one in column):
        yield at, [bool(one) for one in column], 1.1, ""
        yield f"not {at}", [not one for one in column], 1.1, ""
        yield from _tests_where_set(field, at, column, (at_hand, words))
    if all(isinstance(one, str) for one in column):
        yield from _tests_of_texts(field, at, cast("list[str]", column), wanted, (at_hand, words))
    elif all(map(is_number, column)):
        yield from _tests_of_numbers(field, at, cast("list[float]", column), (at_hand, words))
    elif all(isinstance(one, list) for one in column):
        lists = cast("list[list[JSON]]", column)
        for one in at_hand:
            if all(isinstance(value, str | int) for value in one.values):
                passes = [value in each for value, each in zip(one.values, lists, strict=True)]
                yield f"{one.code} in {at}", passes, _cost(one), ""
                yield f"{one.code} not in {at}", [not each for each in passes], _cost(one) + 0.1, ""
        taken = [each for each, is_wanted in zip(lists, wanted, strict=True) if is_wanted]
        for text in in_all((x for x in each if isinstance(x, str)) for each in taken):
            if "@" in text:
                continue
            yield (
                f"{json.dumps(text, ensure_ascii=False)} in {at}",
                [text in each for each in lists],
                1.5,
                text,
            )
        yield from _tests_within(at, lists, wanted, at_hand)


def _tests_where_set(
    field: str, at: str, column: Sequence[JSON], known: tuple[Sequence[AtHand], frozenset[str]]
) -> Iterator[_Found]:
    """How days and numbers compare that some items do not have; these do not pass."""
    places = [place for place, one in enumerate(column) if one not in (None, "", [])]
    there = [column[place] for place in places]
    at_hand = [one._replace(values=[one.values[place] for place in places]) for one in known[0]]
    tests: Iterator[_Found] = iter(())
    if there and all(isinstance(one, str) and _DAY.match(one) for one in there):
        days = cast("list[str]", there)
        tests = (
            test
            for one in at_hand
            if all(isinstance(value, str) and _DAY.match(value) for value in one.values)
            for test in _tests_of_days(
                at, [*zip(days, cast("Sequence[str]", one.values), strict=True)], one, known[1]
            )
        )
    elif there and all(map(is_number, there)):
        tests = _tests_of_numbers(field, at, cast("list[float]", there), (at_hand, known[1]))
    for code, passes, cost, text in tests:
        passing = {place for place, is_in in zip(places, passes, strict=True) if is_in}
        set_first = f"{at} is not None" if None in column and is_number(there[0]) else at
        yield f"{set_first} and {code}", [place in passing for place in range(len(column))], cost + 0.1, text


def _tests_of_numbers(
    field: str, at: str, numbers: list[float], known: tuple[Sequence[AtHand], frozenset[str]]
) -> Iterator[_Found]:
    """How numbers compare with those at hand and with zero, and whether they are in a list at hand."""
    at_hand, words = known
    for one in at_hand:
        if all(isinstance(value, list) for value in one.values):
            yield from _membership(at, numbers, one)
        if all(map(is_number, one.values)):
            limits = cast("Sequence[float]", one.values)
            for sign, compare in (*_SIGNS, ("==", operator.eq)):
                if one.sign not in {"", sign}:
                    continue
                passes = [compare(n, limit) for n, limit in zip(numbers, limits, strict=True)]
                if not NAMES_OF_IDS & {*words_of_field(field)} or sign == "==":
                    unsaid = _UNSAID if sign != "==" and not words & _BOUNDS else 0
                    yield f"{at} {sign} {one.code}", passes, _cost(one) + unsaid, ""
    if not NAMES_OF_IDS & {*words_of_field(field)}:
        yield f"{at} > 0", [n > 0 for n in numbers], 1.2, ""
        yield f"{at} == 0", [n == 0 for n in numbers], 1.2, ""


def _tests_within(
    at: str, lists: Sequence[Sequence[JSON]], wanted: Sequence[bool], at_hand: Sequence[AtHand]
) -> Iterator[_Found]:
    """Whether any object of a list in an item has something in a field."""
    objects = [item for each in lists for item in each]
    if not objects or not all(isinstance(item, dict) for item in objects):
        return
    tables = cast("list[list[dict[str, Any]]]", lists)
    for name in cast("dict[str, JSON]", objects[0]):
        code = f"one[{json.dumps(name, ensure_ascii=False)}]"
        taken = (one.get(name) for each, is_in in zip(tables, wanted, strict=True) if is_in for one in each)
        for text in sorted({value for value in taken if isinstance(value, str) and is_state(name, value)}):
            passes = [any(one.get(name) == text for one in each) for each in tables]
            yield f"any({code} == {json.dumps(text)} for one in {at})", passes, 1.6, text
        for one in (
            at_hand if any(isinstance(item.get(name), str) for each in tables for item in each) else ()
        ):
            passes = [
                any(item.get(name) == value for item in each)
                for each, value in zip(tables, one.values, strict=True)
            ]
            if one.is_given and any(passes):
                yield f"any({code} == {one.code} for one in {at})", passes, _cost(one) + 0.2, ""
                yield (
                    f"all({code} != {one.code} for one in {at})",
                    [not x for x in passes],
                    _cost(one) + 0.3,
                    "",
                )


def _tests_of_days(
    at: str, pairs: Sequence[tuple[str, str]], one: AtHand, words: frozenset[str]
) -> Iterator[_Found]:
    """How days or times compare with those at hand: as days, if only one side has the time."""
    left, right = (
        "[:10]" if any(len(text) > _DAY_SIZE for text in each) else "" for each in zip(*pairs, strict=True)
    )
    if left and right:
        left = right = ""
    days = [(a[:10], b[:10]) if left or right else (a, b) for a, b in pairs]
    for sign, compare in _SIGNS:
        if one.sign in {"", sign}:
            unsaid = 0 if words & _DAY_BOUNDS else _UNSAID
            passes = [compare(a, b) for a, b in days]
            yield f"{at}{left} {sign} {one.code}{right}", passes, _cost(one) + unsaid, ""
    if not at.endswith("]") or at.endswith('"]'):
        yield f"{at}[:10] == {one.code}", [a[:10] == b for a, b in pairs], _cost(one) + 0.1, ""


def _membership(at: str, column: Sequence[JSON], one: AtHand) -> Iterator[_Found]:
    """Whether a value is in a list that is at hand."""
    passes = [value in cast("list[JSON]", each) for value, each in zip(column, one.values, strict=True)]
    yield f"{at} in {one.code}", passes, _cost(one), ""
    yield f"{at} not in {one.code}", [not each for each in passes], _cost(one), ""


def _tests_of_texts(
    field: str,
    at: str,
    texts: list[str],
    wanted: Sequence[bool],
    known: tuple[Sequence[AtHand], frozenset[str]],
) -> Iterator[_Found]:
    at_hand, words = known
    are_days = all(_DAY.match(text) for text in texts)
    for one in at_hand:
        cost = _cost(one)
        if all(isinstance(value, list) for value in one.values):
            yield from _membership(at, texts, one)
        if not all(isinstance(value, str) and value.strip() for value in one.values):
            continue
        others = cast("Sequence[str]", one.values)
        pairs = [*zip(texts, others, strict=True)]
        equal = [a == b for a, b in pairs]
        yield f"{at} == {one.code}", equal, cost, ""
        if any(a != b and a.lower() == b.lower() for a, b in pairs):
            yield (
                f"{at}.lower() == {one.code}.lower()",
                [a.lower() == b.lower() for a, b in pairs],
                cost + 0.1,
                "",
            )
        if are_days and all(_DAY.match(other) for other in others):
            yield from _tests_of_days(at, pairs, one, words)
        elif all(map(_MOMENT.match, texts)) and all(map(_HOUR.fullmatch, others)):
            times = [(text[11:16], other) for text, other in pairs]
            yield from _tests_of_days(f"{at}[11:16]", times, one, words)
        elif min(map(len, others)) >= _SHORTEST:
            seen = [equal]
            for code, passes in (
                (f"{at}.startswith({one.code})", [a.startswith(b) for a, b in pairs]),
                (f"{at}.endswith({one.code})", [a.endswith(b) for a, b in pairs]),
                (f"{one.code}.lower() in {at}.lower()", [b.lower() in a.lower() for a, b in pairs]),
            ):
                if passes not in seen:
                    seen.append(passes)
                    yield code, passes, cost + 0.2, ""
    taken = [text for text, is_wanted in zip(texts, wanted, strict=True) if is_wanted]
    left = [text for text, is_wanted in zip(texts, wanted, strict=True) if not is_wanted]
    state = 0.0 if all(is_state(field.rpartition(WITHIN)[2], text) for text in texts) else _CONSTANT
    given = [one.values[0] for one in at_hand if one.is_given and len({*map(str, one.values)}) == 1]
    for text in [*dict.fromkeys(taken)][:_MOST_CONSTANTS] if not are_days else ():
        if (
            len({*taken}) == 1
            and len(text) < _LONGEST
            and text not in given
            and (not state or len(taken) >= _LEAST_TAKEN or said_in(text, words))
            and not _is_of_this_time(text)
        ):
            yield (
                f"{at} == {json.dumps(text, ensure_ascii=False)}",
                [one == text for one in texts],
                1.0 + state,
                text,
            )
    for text in [*dict.fromkeys(left)][:_MOST_CONSTANTS] if not are_days else ():
        is_many = left.count(text) > 1 or len({*left}) == 1
        is_known = not state or said_in(text, words)
        if is_many and is_known and not _is_of_this_time(text) and " " not in text:
            yield (
                f"{at} != {json.dumps(text, ensure_ascii=False)}",
                [one != text for one in texts],
                1.5 + state,
                text,
            )
    ends = [*_tests_of_ends(at, texts, taken, words)] if len({*taken}) > 1 and left else []
    yield from {tuple(one[1]): one for one in reversed(ends)}.values()


def _tests_of_ends(at: str, texts: list[str], taken: list[str], words: frozenset[str]) -> Iterator[_Found]:
    """What all taken texts begin with, or end with, or have as a word."""
    start = common_start(taken)
    if any(text[len(start) : len(start) + 1].isalnum() for text in taken):
        start = re.sub(r"\w+$", "", start)
    start = re.split(r"\d", start)[0]  # another time it is another number
    end = common_start([text[::-1] for text in taken])[::-1]
    end = re.sub(r"^\w+(?=\W)", "", end) if "." in end else end
    for part, method, cost in ((start, "startswith", 1.6), (end, "endswith", 1.7)):
        is_mark = part[-1:] in "-_:] /#" if method == "startswith" else part[:1] in "."
        if (
            len(part.strip()) >= _SHORTEST
            and (is_mark or said_in(part, words))
            and len(re.findall(r"\w+", part)) < _MOST_WORDS
        ):
            passes = [getattr(one, method)(part) for one in texts]
            code = f"{at}.{method}({json.dumps(part, ensure_ascii=False)})"
            yield code, passes, 0.6 if _KIND.fullmatch(part) else cost, part
    for word in in_all(re.findall(r"[^\W\d]{3,}", text) for text in taken):
        if said_in(word, words) or len(taken) > _LEAST_TAKEN:
            yield f"{json.dumps(word, ensure_ascii=False)} in {at}", [word in one for one in texts], 1.8, word
