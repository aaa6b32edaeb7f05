"""What the user's words say about the items of a list: which of them are meant.

In: the words, and a list as a tool gave it. Out: the part of the list that the words name, with its code; or
None if they name none; or UNCLEAR if they restrict it in a way that is not understood. A recorded choice
alone proves no rule, since what was chosen often has something in common by chance. So the rule comes from
the words (English ones), and the record only confirms it: whoever uses a part compares its items with calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.item_tests import (
    NEAR_WORDS,
    TEXT,
    Asking,
    content_tests,
    day_field,
    field_code,
    flat,
    item_tests,
    kind_tests,
    number_field,
    numbers_of,
    place_of_field,
    price_fields,
    words_in,
    words_of_field,
)
from callsheet.authoring.distillation.leaves import number_of
from callsheet.authoring.distillation.wording import NUMBER_WORDS, QUANTIFIERS, SMALL_WORDS, word_set
from callsheet.ir import JSON

_PLACES = {"first": "0", "second": "1", "third": "2", "last": "-1"}
_TIMES = {"first": "earliest", "last": "latest"}
_FUNCTIONS = {
    **dict.fromkeys(("largest", "biggest", "highest", "greatest", "maximum", "longest", "heaviest"), "max"),
    **dict.fromkeys(("smallest", "lowest", "least", "minimum", "shortest", "lightest"), "min"),
    **{"most": "max", "fewest": "min", "priciest": "max", "cheapest": "min"},
    **{"newest": "max", "latest": "max", "oldest": "min", "earliest": "min"},
}
ORDERS = frozenset((*_FUNCTIONS, *_PLACES))
_OF_TIME = frozenset(("newest", "latest", "oldest", "earliest"))
_OF_A_NAMED_FIELD = frozenset(("most", "fewest", "least"))
""""The most votes", while "most tickets" are many of them."""
_UNCLEAR = word_set(
    "except excluding unless only some few half top other others rest remaining best worst unique "
    "distinct odd even random any appropriate suitable relevant important suspicious interesting "
    "necessary overdue expired stale obsolete temporary today tomorrow yesterday"
)
"""Words that restrict a list in ways that nothing here understands."""
_VAGUE = word_set(
    "deal handle process tidy clean triage review check sort organize organise manage judge decide "
    "share split"
)
"""What a user begins with who leaves the choice to the agent."""
_CLAUSES = word_set("that which whose")
_RELATIVES = word_set("that which who whose with without where older newer due still")


def is_unclear(words: Sequence[str]) -> frozenset[str]:
    """The words that restrict a list in ways that nothing here understands; half an hour does not.

    >>> sorted(is_unclear(["only", "half", "an", "hour"]))
    ['only']
    """
    of_time = {word for word, after in pairwise(words) if word == "half" and after in {"a", "an"}}
    return _UNCLEAR & {*words} - of_time


def is_vague(said: str) -> bool:
    """Whether the user leaves the choice to the agent."""
    return words_in(said)[:1] != [] and words_in(said)[0] in _VAGUE


class Unclear(Enum):
    """The words restrict a list in a way that is not understood."""

    UNCLEAR = 0


UNCLEAR = Unclear.UNCLEAR


class Part(NamedTuple):
    """A part of a list that the words name: its code over `listing`, and its items.

    `picked` is the code of the one item that is meant, if it is one. `conditions` have to hold, or nobody
    has said which items are meant. `test` is what is asked of an item that is called `each`.
    """

    code: str
    items: tuple[JSON, ...]
    picked: str = ""
    conditions: tuple[str, ...] = ()
    test: str = ""


def part_named(
    said: str,
    listing: str,
    items: Sequence[JSON],
    asked: frozenset[str],
    input_for: Callable[[str, JSON], str],
    nouns: frozenset[str] = frozenset(),
    *,
    by_time: bool = False,
) -> Part | Unclear | None:
    """The part of a list that the words name.

    `asked` are texts that are no condition: the tool was given them, and has followed them by itself.
    `nouns` are the words for the items, as the tool has them: what stands before one, and is not understood,
    restricts the list in an unknown way. `input_for` gives the name of the input for a value that the user
    has said. The first and the last are those at these places of the list, or `by_time`.

    >>> orders = [{"id": "a", "total": 5, "open": True}, {"id": "b", "total": 9, "open": False}]
    >>> part_named("note the open orders", "orders", orders, frozenset(), lambda name, value: name).code
    '[each for each in orders if each["open"]]'
    >>> part_named("note the largest order", "orders", orders, frozenset(), lambda name, value: name).picked
    'max(orders, key=lambda one: one["total"])'
    >>> part_named("note the orders", "orders", orders, frozenset(), lambda name, value: name)
    """
    if items and all(isinstance(item, str) for item in items):
        return _texts_named(said, listing, cast("Sequence[str]", items), input_for)
    rows = [flat(item) for item in items if isinstance(item, dict)]
    if not rows or len(rows) < len(items):
        return None
    whole = {id(row): item for row, item in zip(rows, items, strict=True)}
    words = words_in(said)
    unclear = is_unclear(words)
    tests = [*item_tests(Asking(said, words, asked, input_for), rows)]
    if None in tests or unclear or (words and words[0] in _VAGUE):
        return UNCLEAR
    code, asks, kept = listing, "", rows
    known = [test for test in tests if test is not None]
    if known:
        asks = " and ".join(test.code for test in known)
        code = f"[each for each in {listing} if {asks}]"
        kept = [row for row in rows if all(test.holds(row) for test in known)]
    words = words_in(re.sub(r"\bat (?:most|least)\b", "", said.lower()))  # which is no rank
    if by_time:
        words = [_TIMES.get(word, word) for word in words]
    compared = {word for test in known if test.other for word in test.words}
    ranks = [*_ranks([word for word in words if word not in compared], code, kept, nouns, input_for)]
    understood = {word for test in known for word in test.words} | ORDERS & {*words}
    ranked = (_ranked_field(word, words, rows) for word in words if word in _FUNCTIONS)
    understood |= {part for field in ranked if field for part in words_of_field(field)}
    if _is_restricted(words, nouns, asked, understood):
        return UNCLEAR
    if not ranks:
        return Part(code, tuple(whole[id(row)] for row in kept), test=asks) if known else None
    if len(ranks) > 1 or ranks[0] is None or not kept:
        return UNCLEAR
    part = ranks[0]
    return part._replace(items=tuple(whole[id(row)] for row in part.items), test=asks)


def _texts_named(
    said: str, listing: str, items: Sequence[str], input_for: Callable[[str, JSON], str]
) -> Part | Unclear | None:
    """The part of a list of texts that the words name: by what they have in them, or by their place."""
    words = words_in(said)
    rows: list[dict[str, JSON]] = [{TEXT: item} for item in items]
    asking = Asking(said, words, frozenset(), input_for)
    tests = [*content_tests(asking, rows), *kind_tests(asking, rows)]
    if None in tests or is_unclear(words):
        return UNCLEAR
    known = [test for test in tests if test is not None]
    if not known:
        return None
    asks = " and ".join(test.code for test in known)
    kept = tuple(cast("str", row[TEXT]) for row in rows if all(test.holds(row) for test in known))
    return Part(f"[each for each in {listing} if {asks}]", kept, test=asks)


def _is_restricted(
    words: Sequence[str], nouns: frozenset[str], asked: frozenset[str], understood: set[str]
) -> bool:
    """Whether what stands by the word for the items says which are meant, and is not understood."""
    data = {word for text in asked for word in re.findall(r"[\w'-]+", text.lower())}
    known = SMALL_WORDS | QUANTIFIERS | nouns | data | understood
    for place, word in enumerate(words):
        if word not in nouns and word.rstrip("s") not in nouns:
            continue
        before = words[place - 1] if place > 1 else ""
        if before and before not in known and not (before in NUMBER_WORDS[1:] and understood):
            return True
        after = words[place + 1 : place + 2 + 2 * NEAR_WORDS]
        if after and after[0] in _RELATIVES and not (understood | data) & {*after}:
            return True
        clauses = (
            words[at + 1 : at + 2 + NEAR_WORDS]
            for at in range(place + 1, len(words))
            if words[at] in _CLAUSES and words[at - 1] not in SMALL_WORDS  # "to that number" is no clause
        )
        if any(not (understood | data) & {*clause} for clause in clauses):
            return True
    return False


def _ranks(
    words: Sequence[str],
    listing: str,
    rows: Sequence[dict[str, JSON]],
    nouns: frozenset[str],
    input_for: Callable[[str, JSON], str],
) -> Iterator[Part | None]:
    """The items that words of order name: by their place, or the greatest and least; None if unclear."""
    for word in dict.fromkeys(words):
        if word not in _PLACES:
            continue
        place = words.index(word)
        if len(rows) == 1 and not nouns & {*words[place + 1 : place + 1 + NEAR_WORDS]}:
            continue  # it may be said of another list, and changes nothing in this one
        count = _count_in(words[place + 1] if place + 1 < len(words) else "")
        at = int(_PLACES[word])
        if count is not None and word in {"first", "last"}:
            name = input_for("count", count)
            code = f"{listing}[:{name}]" if word == "first" else f"{listing}[-{name}:]"
            yield Part(code, tuple(rows[:count] if word == "first" else rows[-count:]))
        elif -len(rows) <= at < len(rows):
            yield Part(listing, (rows[at],), f"{listing}[{_PLACES[word]}]")
        else:
            yield None
    for word in dict.fromkeys(words):
        function = _FUNCTIONS.get(word)
        if function is None:
            continue
        field = _ranked_field(word, words, rows)
        if field is None and word in _OF_TIME and rows:
            continue  # of what has no days it is not said
        place = words.index(word)
        if word in _OF_A_NAMED_FIELD and (field is None or place_of_field(field, words) != place + 1):
            yield None
            continue
        if field is None or not rows:
            yield None
            continue
        near = [*words[max(0, place - 1) : place], *words[place + 1 : place + 2]]
        near += [before for before, noun in pairwise(words) if noun in nouns and noun.endswith("s")]
        count = next((number for number in map(_count_in, near) if number is not None), None)
        values = cast("list[Any]", [row[field] for row in rows])
        if count is not None:
            if len({*values}) < len(values):
                yield None  # nobody has said in which order equal ones come
                continue
            name = input_for("count", count)
            yield _topmost(listing, rows, values, field, (name, count), is_last=function == "max")
            continue
        best = max(values) if function == "max" else min(values)
        if values.count(best) > 1:
            yield None  # which of two equal ones was meant, nobody has said
            continue
        picked = f"{function}({listing}, key=lambda one: {field_code('one', field)})"
        extreme = field_code(picked, field)
        is_alone = f"len([each for each in {listing} if {field_code('each', field)} == {extreme}]) == 1"
        yield Part(listing, (rows[values.index(best)],), picked, (is_alone,))


def _ranked_field(word: str, words: Sequence[str], rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field that a word for the least or the greatest is about; None if that is not clear."""
    if word in _OF_TIME:
        return day_field(rows)
    if word not in {"cheapest", "priciest"}:
        return number_field(words, rows)
    named = [name for name in numbers_of(rows) if place_of_field(name, words) is not None]
    prices = named or price_fields(numbers_of(rows))
    return prices[0] if len(prices) == 1 else None


def _topmost(
    listing: str,
    rows: Sequence[dict[str, JSON]],
    values: Sequence[Any],
    field: str,
    count: tuple[str, int],
    *,
    is_last: bool,
) -> Part:
    """The first items by a field; nobody has said which of two equal ones comes first."""
    order = sorted(range(len(rows)), key=lambda number: values[number], reverse=is_last)
    code = (
        f"sorted({listing}, key=lambda one: {field_code('one', field)}{', reverse=True' if is_last else ''})"
    )
    are_apart = f"len({{{field_code('each', field)} for each in {listing}}}) == len({listing})"
    return Part(f"{code}[:{count[0]}]", tuple(rows[number] for number in order[: count[1]]), "", (are_apart,))


def _count_in(word: str) -> int | None:
    number = number_of(word)
    if isinstance(number, int):
        return number or None
    return NUMBER_WORDS.index(word) if word in NUMBER_WORDS[2:] else None
