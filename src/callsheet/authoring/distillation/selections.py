"""The readings of a recorded choice: which rules give exactly the items of a list that were taken.

In: a list, which of its items were taken, and the values at hand. Out: rules as Python code, the likeliest
first. The record of one run proves none of them: a rule is taken only if other runs, or the user, confirm it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.figures import NAMES_OF_IDS, is_number
from callsheet.authoring.distillation.guards import is_state
from callsheet.authoring.distillation.item_tests import CELL, TEXT, WITHIN, field_code, words_of_field
from callsheet.ir import JSON

_DEEPEST = 2
_MOST_RULES, _MOST_TESTS, _MOST_SAID = 10, 60, 2
_SHORTEST = 3


class Value(NamedTuple):
    """A value at hand that items may be compared with, and its code; `is_given` if the user has said it."""

    code: str
    value: JSON
    is_given: bool = False


class Rule(NamedTuple):
    """What is asked of an item that is called `each`, and which items of the list pass.

    `is_said` is whether a field has what the user has said, which is no coincidence.
    """

    code: str
    passes: tuple[bool, ...]
    is_said: bool = False


def rows_of(items: Sequence[JSON]) -> list[dict[str, JSON]]:
    """The items as rows of fields, with those of the objects in them; a plain value is the field `""`."""
    return [*map(_row, items)]


def _row(item: JSON) -> dict[str, JSON]:
    if isinstance(item, list):
        return {f"{CELL}{place}": cell for place, cell in enumerate(item)}
    return flat(item) if isinstance(item, dict) else {TEXT: item}


def flat(item: dict[str, JSON], before: str = "", depth: int = 0) -> dict[str, JSON]:
    """The fields of an object, with those of the objects in it."""
    found: dict[str, JSON] = {}
    for name, value in item.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            found |= flat(value, f"{before}{name}{WITHIN}", depth + 1)
        else:
            found[before + name] = value
    return found


def rules(items: Sequence[JSON], taken: Sequence[bool], values: Sequence[Value]) -> list[Rule]:
    """The rules that exactly the taken items pass, also two tests together; the likeliest first.

    >>> doors = [{"open": True, "floor": 1}, {"open": False, "floor": 2}]
    >>> [rule.code for rule in rules(doors, [True, False], [])]
    ['each["open"]']
    """
    wanted = tuple(taken)
    tests = [test for test in tests_of(items, values) if not all(test.passes)]
    single = [test for test in tests if test.passes == wanted]
    wide = [test for test in tests if _covers(test.passes, wanted)][:_MOST_TESTS]
    said = [test for test in wide if test.is_said]
    pairs = [*((one, two) for one in said[:_MOST_SAID] for two in wide if two is not one and not two.is_said)]
    pairs += combinations(wide, 2) if not single else ()
    both = [
        Rule(f"{one.code} and {two.code}", wanted)
        for one, two in pairs
        if tuple(a and b for a, b in zip(one.passes, two.passes, strict=True)) == wanted
    ]
    likely = [test for test in single if test.is_said] or (both if said else [])
    every = [*likely, *single, *both]
    return [*{rule.code: rule for rule in every}.values()][:_MOST_RULES]


def _covers(passes: Sequence[bool], wanted: Sequence[bool]) -> bool:
    return all(passed for passed, is_wanted in zip(passes, wanted, strict=True) if is_wanted)


def tests_of(items: Sequence[JSON], values: Sequence[Value]) -> Iterator[Rule]:
    """What may be asked of the items of a list: of flags, of empty fields, in comparison with values."""
    rows = rows_of(items)
    fields = [name for name in (rows[0] if rows else {}) if all(name in row for row in rows)]
    for field in fields:
        column = [row[field] for row in rows]
        at = field_code("each", field)
        said = [one.code for one in values if one.is_given and isinstance(one.value, str)]
        for code, passes in _tests_of_field(field, at, column, values):
            is_said = any(code in (f"{at} == {name}", f"{at}.lower() == {name}.lower()") for name in said)
            yield Rule(code, tuple(passes), is_said)
    numbers = [field for field in fields if all(is_number(row[field]) for row in rows)]
    for one, two in permutations(numbers, 2):
        pairs = [(cast("float", row[one]), cast("float", row[two])) for row in rows]
        left, right = field_code("each", one), field_code("each", two)
        yield Rule(f"{left} < {right}", tuple(a < b for a, b in pairs))
        yield Rule(f"{left} <= {right}", tuple(a <= b for a, b in pairs))


def _tests_of_field(
    field: str, at: str, column: list[JSON], values: Sequence[Value]
) -> Iterator[tuple[str, list[bool]]]:
    if all(isinstance(one, bool) for one in column):
        yield at, [bool(one) for one in column]
        yield f"not {at}", [not one for one in column]
        return
    if any(one is None or one in ("", []) for one in column):
        yield at, [bool(one) for one in column]
        yield f"not {at}", [not one for one in column]
    given = sorted(values, key=lambda one: not one.is_given)
    if all(isinstance(one, str) for one in column):
        texts = cast("list[str]", column)
        yield from _tests_of_texts(at, texts, given)
        if all(is_state(field.rpartition(WITHIN)[2], one) for one in texts):
            for state in dict.fromkeys(texts):
                yield f"{at} == {json.dumps(state, ensure_ascii=False)}", [one == state for one in texts]
    elif all(map(is_number, column)):
        numbers = cast("list[float]", column)
        for one in given:
            if is_number(one.value):
                limit = cast("float", one.value)
                for sign, passes in (
                    ("<", [n < limit for n in numbers]), (">", [n > limit for n in numbers]),
                    (">=", [n >= limit for n in numbers]), ("<=", [n <= limit for n in numbers]),
                    ("==", [n == limit for n in numbers]),
                ):  # fmt: skip
                    yield f"{at} {sign} {one.code}", passes
        if not NAMES_OF_IDS & {*words_of_field(field)}:
            yield f"{at} > 0", [n > 0 for n in numbers]
            yield f"{at} == 0", [n == 0 for n in numbers]
    elif all(isinstance(one, list) for one in column):
        lists = cast("list[list[JSON]]", column)
        for one in given:
            if isinstance(one.value, str):
                yield f"{one.code} in {at}", [one.value in each for each in lists]


def _tests_of_texts(at: str, texts: list[str], given: Sequence[Value]) -> Iterator[tuple[str, list[bool]]]:
    are_days = all(len(text) >= 10 and text[:4].isdigit() and text[4] == "-" for text in texts)
    for one in given:
        wanted = one.value
        if isinstance(wanted, list):
            yield f"{at} in {one.code}", [text in wanted for text in texts]
            yield f"{at} not in {one.code}", [text not in wanted for text in texts]
        if not isinstance(wanted, str) or not wanted.strip():
            continue
        yield f"{at} == {one.code}", [text == wanted for text in texts]
        yield f"{at}.lower() == {one.code}.lower()", [text.lower() == wanted.lower() for text in texts]
        if are_days and len(wanted) >= 10 and wanted[:4].isdigit():
            yield f"{at} < {one.code}", [text < wanted for text in texts]
            yield f"{at} > {one.code}", [text > wanted for text in texts]
            yield f"{at} >= {one.code}", [text >= wanted for text in texts]
            yield f"{at} <= {one.code}", [text <= wanted for text in texts]
            yield f"{at}[:10] == {one.code}", [text[:10] == wanted for text in texts]
        if len(wanted) >= _SHORTEST:
            yield f"{at}.startswith({one.code})", [text.startswith(wanted) for text in texts]
            yield f"{at}.endswith({one.code})", [text.endswith(wanted) for text in texts]
            low = wanted.lower()
            yield f"{one.code}.lower() in {at}.lower()", [low in text.lower() for text in texts]


def picks(
    code: str, items: Sequence[JSON], place: int, values: Sequence[Value]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The codes that pick one item of a list, with the conditions that nothing else is as good.

    >>> [code for code, _ in picks("doors", [{"floor": 1}, {"floor": 2}], 1, [])]
    ['max(doors, key=lambda one: one["floor"])', 'doors[-1]']
    """
    alone = [each == place for each in range(len(items))]
    for rule in rules(items, alone, values) if len(items) > 1 else ():
        kept = f"[each for each in {code} if {rule.code}]"
        yield f"{kept}[0]", (f"len({kept}) == 1",)
    yield from _extremes(code, items, place)
    limits = [test for test in tests_of(items, values) if test.passes[place] and not all(test.passes)]
    seen: set[tuple[bool, ...]] = set()
    for test in limits[:_MOST_TESTS]:
        if test.passes in seen or sum(test.passes) < 2:
            continue
        seen.add(test.passes)
        kept = [item for item, passes in zip(items, test.passes, strict=True) if passes]
        at = sum(test.passes[:place])
        listing = f"[each for each in {code} if {test.code}]"
        yield from _extremes(listing, kept, at)
        if at == 0:
            yield f"{listing}[0]", ()
    if place == 0:
        yield f"{code}[0]", ()
    if place == len(items) - 1:
        yield f"{code}[-1]", ()


def _extremes(code: str, items: Sequence[JSON], place: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    rows = rows_of(items)
    for field in rows[0] if len(rows) > 1 else ():
        column: list[Any] = [row.get(field) for row in rows]
        if not _comparable(column) or column.count(column[place]) > 1:
            continue
        at = field_code("one", field)
        for function, best in (("max", max(column)), ("min", min(column))):
            if column[place] == best:
                picked = f"{function}({code}, key=lambda one: {at})"
                same = f"len([one for one in {code} if {at} == {picked}{at[3:]}]) == 1"
                yield picked, (same,)


def best_in_rounds(code: str, lists: Sequence[Sequence[JSON]]) -> Iterator[tuple[str, tuple[JSON, ...]]]:
    """The items of a list in each round: the first, the last, the greatest and the least by a field."""
    yield f"{code}[0]", tuple(items[0] for items in lists)
    yield f"{code}[-1]", tuple(items[-1] for items in lists)
    for field in rows_of(lists[0])[0]:
        tables = [[row.get(field) for row in rows_of(items)] for items in lists]
        at = field_code("one", field)
        if all(_comparable(column) for column in tables):
            for function in (min, max):
                found = [
                    items[column.index(function(cast("list[Any]", column)))]
                    for items, column in zip(lists, tables, strict=True)
                ]
                yield f"{function.__name__}({code}, key=lambda one: {at})", tuple(found)


def _comparable(column: Sequence[JSON]) -> bool:
    return all(map(is_number, column)) or all(
        isinstance(one, str) and one[:4].isdigit() and "-" in one for one in column
    )


def in_order(code: str, items: Sequence[JSON], values: Sequence[Value]) -> Iterator[tuple[str, list[JSON]]]:
    """A list and its parts by one test, as they are and sorted by each field."""
    parts = [(code, [*items])]
    for test in tests_of(items, values):
        if any(test.passes) and not all(test.passes):
            kept = [item for item, passes in zip(items, test.passes, strict=True) if passes]
            parts.append((f"[each for each in {code} if {test.code}]", kept))
    for part, kept in parts[:_MOST_TESTS]:
        yield part, kept
        rows = rows_of(kept)
        for field in rows[0]:
            column: list[Any] = [row.get(field) for row in rows]
            if _comparable(column) and len({*column}) == len(column):
                key = f"key=lambda one: {field_code('one', field)}"
                order = sorted(range(len(kept)), key=lambda place: column[place])
                yield f"sorted({part}, {key})", [kept[place] for place in order]
                yield f"sorted({part}, {key}, reverse=True)", [kept[place] for place in order[::-1]]
