"""What the user's words say about the items of a list: which of them are meant.

In: the words, and a list as a tool gave it. Out: the part of the list that the words name, with its code; or
None if they name none; or UNCLEAR if they restrict it in a way that is not understood. A recorded choice
alone proves no rule, since what was chosen often has something in common by chance. So the rule comes from
the words (English ones), and the record only confirms it: whoever uses a part compares its items with calls.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.figures import NAMES_OF_IDS, is_number
from callsheet.authoring.distillation.wording import SMALL_WORDS, is_kin, word_set
from callsheet.ir import JSON

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PLACES = {"first": "0", "second": "1", "third": "2", "last": "-1"}
_TIMES = {"first": "earliest", "last": "latest"}
_FUNCTIONS = {
    **dict.fromkeys(("largest", "biggest", "highest", "greatest", "maximum", "longest", "heaviest"), "max"),
    **dict.fromkeys(("smallest", "lowest", "least", "minimum", "shortest", "lightest"), "min"),
    **{"most": "max", "fewest": "min", "priciest": "max", "cheapest": "min"},
    **{"newest": "max", "latest": "max", "oldest": "min", "earliest": "min"},
}
_PAIRS = (
    ("most recent", "newest"),
    ("most expensive", "priciest"),
    ("least expensive", "cheapest"),
)
_ORDERS = frozenset((*_FUNCTIONS, *_PLACES))
_PRICES = word_set("price cost fare fee amount total rate")
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
_NOT = word_set(
    "not no never without isn't aren't isnt arent non nobody none missing lacks lacking lack nothing"
)
_WITH = frozenset(("with", "have", "has", "having"))
_NEAR_WORDS = 3
BOUND = re.compile(
    r"\b(over|above|more than|greater than|larger than|bigger than|longer than|higher than|at least"
    r"|under|below|less than|fewer than|smaller than|shorter than|lower than|cheaper than"
    r"|at most|up to|exactly)"
    r"\s+[^\w\s-]?(\d+(?:\.\d+)?)(?:\s*(\w+))?"
)
_DAY_BOUND = re.compile(
    r"\b(before|after|since|until|from|by|on or after|on or before)\s+(\d{4}-\d\d-\d\d)\b"
)
_CONTAINED = re.compile(
    r"\b(contain|contains|containing|mention|mentions|mentioning|including|include|includes"
    r"|start with|starts with|starting with|begin with|beginning with"
    r"|end with|ends with|ending with|ending in)"
    r"\s+(?:the (?:word|text) )?\W?([^\s\"',;:]*[^\s\"',;:.!?])"
)
UNITS = word_set("kb mb gb tb k m kib mib day days hour hours week weeks month months minute minutes years")
"""Units in which data need not be."""
_QUANTIFIERS = word_set("all each every both these those what which their his her many number count")
_CLAUSES = word_set("that which whose")
_RELATIVES = word_set("that which who whose with without where older newer due still")
COMPARED: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(
        (
            "over",
            "above",
            *(f"{w} than" for w in ("more", "greater", "larger", "bigger", "longer", "higher")),
        ),
        (">", operator.gt),
    ),
    **dict.fromkeys(
        (
            "under",
            "below",
            *(f"{w} than" for w in ("less", "fewer", "smaller", "shorter", "lower", "cheaper")),
        ),
        ("<", operator.lt),
    ),
    "at least": (">=", operator.ge),
    **dict.fromkeys(("at most", "up to"), ("<=", operator.le)),
    "exactly": ("==", operator.eq),
    "before": ("<", operator.lt),
    "after": (">", operator.gt),
    **dict.fromkeys(("since", "from", "on or after"), (">=", operator.ge)),
    **dict.fromkeys(("until", "by", "on or before"), ("<=", operator.le)),
}
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?\Z")
_FILES = word_set("file files document documents attachment attachments image images report reports")
_FILE = re.compile(r"\w\.[A-Za-z][A-Za-z0-9]{1,4}$")
_SHORTEST = 3
_DEEPEST = 2
_WITHIN = "\0"
"""Between the names of a field and of the object that it is in."""
_TEXT = ""
"""The name of the only field of a text."""


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


class _Test(NamedTuple):
    """What is asked of a field: its code, how the field must compare with a value, and the words that ask."""

    code: str
    field: str
    compare: Callable[[Any, Any], bool]
    value: JSON
    words: frozenset[str] = frozenset()

    def holds(self, row: dict[str, JSON]) -> bool:
        """Whether an item passes."""
        return self.compare(row[self.field], self.value)


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
    rows = [_flat(item) for item in items if isinstance(item, dict)]
    if not rows or len(rows) < len(items):
        return None
    whole = {id(row): item for row, item in zip(rows, items, strict=True)}
    words = _words_in(said)
    tests = [*_tests(said, words, rows, asked, input_for)]
    if None in tests or _UNCLEAR & {*words} or (words and words[0] in _VAGUE):
        return UNCLEAR
    code, asks, kept = listing, "", rows
    known = [test for test in tests if test is not None]
    if known:
        asks = " and ".join(test.code for test in known)
        code = f"[each for each in {listing} if {asks}]"
        kept = [row for row in rows if all(test.holds(row) for test in known)]
    if by_time:
        words = [_TIMES.get(word, word) for word in words]
    ranks = [*_ranks(words, code, kept, nouns, input_for)]
    understood = {word for test in known for word in test.words} | _ORDERS & {*words}
    if _is_restricted(words, nouns, asked, understood):
        return UNCLEAR
    if not ranks:
        return Part(code, tuple(whole[id(row)] for row in kept), test=asks) if known else None
    if len(ranks) > 1 or ranks[0] is None or not kept:
        return UNCLEAR
    part = ranks[0]
    return part._replace(items=tuple(whole[id(row)] for row in part.items), test=asks)


def _flat(item: dict[str, JSON], before: str = "", depth: int = 0) -> dict[str, JSON]:
    """The fields of an object, with those of the objects in it."""
    found: dict[str, JSON] = {}
    for name, value in item.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            found |= _flat(value, f"{before}{name}{_WITHIN}", depth + 1)
        else:
            found[before + name] = value
    return found


def _at(item: str, field: str) -> str:
    """The code of a field of an item."""
    names = field.split(_WITHIN) if field != _TEXT else []
    return item + "".join(f"[{json.dumps(name, ensure_ascii=False)}]" for name in names)


def _texts_named(
    said: str, listing: str, items: Sequence[str], input_for: Callable[[str, JSON], str]
) -> Part | Unclear | None:
    """The part of a list of texts that the words name: by what they have in them, or by their place."""
    words = _words_in(said)
    rows: list[dict[str, JSON]] = [{_TEXT: item} for item in items]
    tests = [*_content_tests(said, words, rows, input_for), *_kind_tests(words, rows, input_for)]
    if None in tests or _UNCLEAR & {*words}:
        return UNCLEAR
    known = [test for test in tests if test is not None]
    if not known:
        return None
    asks = " and ".join(test.code for test in known)
    kept = tuple(cast("str", row[_TEXT]) for row in rows if all(test.holds(row) for test in known))
    return Part(f"[each for each in {listing} if {asks}]", kept, test=asks)


def _words_in(said: str) -> list[str]:
    """The words, with those that say the same in two words as one."""
    text = said.lower()
    for pair, word in _PAIRS:
        text = text.replace(pair, word)
    return re.findall(r"[\w'-]+", text)


def _is_restricted(
    words: Sequence[str], nouns: frozenset[str], asked: frozenset[str], understood: set[str]
) -> bool:
    """Whether what stands by the word for the items says which are meant, and is not understood."""
    data = {word for text in asked for word in re.findall(r"[\w'-]+", text.lower())}
    known = SMALL_WORDS | _QUANTIFIERS | nouns | data | understood
    for place, word in enumerate(words):
        if word not in nouns and word.rstrip("s") not in nouns:
            continue
        before = words[place - 1] if place > 1 else ""
        if before and before not in known and not (before in _NUMBERS and understood):
            return True
        after = words[place + 1 : place + 2 + 2 * _NEAR_WORDS]
        if after and after[0] in _RELATIVES and not (understood | data) & {*after}:
            return True
        clauses = (
            words[at + 1 : at + 2 + _NEAR_WORDS]
            for at in range(place + 1, len(words))
            if words[at] in _CLAUSES and words[at - 1] not in SMALL_WORDS  # "to that number" is no clause
        )
        if any(not (understood | data) & {*clause} for clause in clauses):
            return True
    return False


def _tests(
    said: str,
    words: Sequence[str],
    rows: Sequence[dict[str, JSON]],
    asked: frozenset[str],
    input_for: Callable[[str, JSON], str],
) -> Iterator[_Test | None]:
    """What the words ask of an item; None for something that is not understood."""
    for field, values in _fields(rows):
        at = _at("each", field)
        if all(isinstance(value, bool) for value in values):
            yield from _flag_tests(field, at, words)
        elif any(value is None or value in ("", []) for value in values):
            yield from _presence_tests(field, at, words)
        elif all(isinstance(value, str) for value in values):
            texts = [text for text in dict.fromkeys(cast("list[str]", values)) if text not in asked]
            texts = [text for text in texts if _is_said(text, said) and not _is_within(text, said, asked)]
            if len(texts) > 1 or (texts and _NOT & {*words}):
                yield None
            elif texts:
                said_words = frozenset(_words_in(texts[0].replace("_", " ")))
                yield _Test(f"{at} == {input_for(field, texts[0])}", field, operator.eq, texts[0], said_words)
        if all(isinstance(value, list) for value in values):
            items = {item for value in values for item in cast("list[JSON]", value) if isinstance(item, str)}
            named = [item for item in sorted(items - asked) if _is_said(item, said)]
            if len(named) > 1 or (named and _NOT & {*words}):
                yield None
            elif named:
                code = f"{input_for(field, named[0])} in {at}"
                yield _Test(code, field, operator.contains, named[0], frozenset(_words_in(named[0])))
        if all(map(is_number, values)):
            yield from _amount_tests(field, at, words)
    yield from _number_tests(said, words, rows, asked, input_for)
    yield from _day_tests(said, words, rows, asked, input_for)
    yield from _content_tests(said, words, rows, input_for)
    yield from _kind_tests(words, rows, input_for)


def _flag_tests(field: str, at: str, words: Sequence[str]) -> Iterator[_Test]:
    """Whether a flag is set: its name, after a word that denies it or not; or the opposite of its name."""
    place = _place_of(field, words)
    name = "".join(_words_of(field))
    if place is None:
        place = next((at for at, word in enumerate(words) if is_kin(word, name)), None)
    if place is not None:
        negated = bool(_NOT & {*words[max(0, place - 3) : place]})
        yield _Test(
            f"not {at}" if negated else at, field, operator.eq, not negated, frozenset([words[place]])
        )
        return
    opposites = {prefix + name for prefix in ("un", "non", "non-", "in", "dis")}
    opposites |= {name.replace("on", "off", 1)} if name.startswith("on") else set()
    opposites &= {*words}
    if opposites and not _NOT & {*words}:
        yield _Test(f"not {at}", field, operator.eq, False, frozenset(opposites))


def _presence_tests(field: str, at: str, words: Sequence[str]) -> Iterator[_Test | None]:
    """Whether a field has something, which some items do not have."""
    parts = _words_of(field)
    for place, word in enumerate(words):
        opposite = word.startswith("un") and any(is_kin(word[2:], part) for part in parts)
        if not opposite and not any(is_kin(word, part) for part in parts):
            continue
        near = {*words[max(0, place - _NEAR_WORDS) : place]}
        if opposite or near & _NOT:
            yield _Test(f"not {at}", field, _has, False, frozenset((word, *(near & _NOT))))
            return
        if near & _WITH:
            yield _Test(at, field, _has, True, frozenset((word, *(near & _WITH))))
            return


def _amount_tests(field: str, at: str, words: Sequence[str]) -> Iterator[_Test]:
    """Whether there is any of what a number counts, as in "that has seats" and "without comments"."""
    place = _place_of(field, words)
    before = [*words[max(0, place - 2) : place]] if place else list[str]()
    if not before or (before[-1] not in _WITH | _NOT and not (before[0] in _WITH and before[-1] in _NOT)):
        return
    is_none = bool(_NOT & {*before})
    compare = operator.le if is_none else operator.gt
    yield _Test(f"{at} {'<=' if is_none else '>'} 0", field, compare, 0, frozenset((*before, field)))


def _has(value: JSON, wanted: JSON) -> bool:
    return bool(value) is wanted


def _number_tests(
    said: str,
    words: Sequence[str],
    rows: Sequence[dict[str, JSON]],
    asked: frozenset[str],
    input_for: Callable[[str, JSON], str],
) -> Iterator[_Test | None]:
    """How a number compares with one that the user has said."""
    bounds = BOUND.findall(said.lower())
    if not bounds:
        return
    word, digits, unit = bounds[0]
    field = _number_field([unit, *words] if unit else words, rows)
    is_other_unit = unit in UNITS and unit not in _words_of(field or "")
    if field is None or len(bounds) > 1 or is_other_unit or _NOT & {*words}:
        yield None
        return
    if digits in asked:
        return
    number = float(digits) if "." in digits else int(digits)
    sign, compare = COMPARED[word]
    name = input_for(f"{word.replace(' ', '_')}", number)
    code = f"{_at('each', field)} {sign} {name}"
    yield _Test(code, field, compare, number, frozenset(word.split()))


def _day_tests(
    said: str,
    words: Sequence[str],
    rows: Sequence[dict[str, JSON]],
    asked: frozenset[str],
    input_for: Callable[[str, JSON], str],
) -> Iterator[_Test | None]:
    """How a day compares with one that the user has said."""
    bounds = [(word, day) for word, day in _DAY_BOUND.findall(said.lower()) if day not in asked]
    field = _day_field(rows)
    if not bounds or field is None:
        return
    if len(bounds) > 1 or _NOT & {*words}:
        yield None
        return
    word, day = bounds[0]
    sign, compare = COMPARED[word]
    code = f"{_at('each', field)}[:10] {sign} {input_for(word.replace(' ', '_'), day)}"
    yield _Test(code, field, partial(_day_compares, compare), day, frozenset(word.split()))


def _day_compares(compare: Callable[[Any, Any], bool], value: Any, limit: Any) -> bool:
    return compare(value[:10], limit)


def _has_within(value: Any, part: Any) -> bool:
    return str(part).lower() in str(value).lower()


def _content_tests(
    said: str, words: Sequence[str], rows: Sequence[dict[str, JSON]], input_for: Callable[[str, JSON], str]
) -> Iterator[_Test | None]:
    """What a text has in it: in the field that is named, or the only one that has it."""
    for verb, part in _CONTAINED.findall(said):
        texts = [name for name, values in _fields(rows) if all(isinstance(value, str) for value in values)]
        named = [name for name in texts if _place_of(name, words) is not None]
        having = [name for name in texts if any(part.lower() in str(row[name]).lower() for row in rows)]
        chosen = [name for name in having if name in named] or having
        if len(chosen) != 1 or _NOT & {*words}:
            yield None
            return
        at = _at("each", chosen[0])
        name = input_for("part", part)
        understood = frozenset((*verb.split(), "whose", *_words_in(part)))
        if verb.startswith(("start", "begin")):
            yield _Test(f"{at}.startswith({name})", chosen[0], str.startswith, part, understood)
        elif verb.startswith("end"):
            yield _Test(f"{at}.endswith({name})", chosen[0], str.endswith, part, understood)
        else:
            code = f"{name}.lower() in {at}.lower()"
            yield _Test(code, chosen[0], _has_within, part, understood)


def _kind_tests(
    words: Sequence[str], rows: Sequence[dict[str, JSON]], input_for: Callable[[str, JSON], str]
) -> Iterator[_Test]:
    """The kind of a file, which its name ends with."""
    for field, values in _fields(rows):
        names = [value for value in values if isinstance(value, str)]
        kinds = {name.rpartition(".")[2].lower() for name in names if _FILE.search(name)}
        for word, noun in pairwise(words):
            if word in kinds and noun in _FILES and len(names) == len(values):
                code = f'{_at("each", field)}.lower().endswith("." + {input_for("kind", word)}.lower())'
                yield _Test(code, field, _ends_with_kind, word, frozenset((word,)))


def _ends_with_kind(value: Any, kind: Any) -> bool:
    return str(value).lower().endswith(f".{kind}")


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
        if len(rows) == 1 and not nouns & {*words[place + 1 : place + 1 + _NEAR_WORDS]}:
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
        field = _day_field(rows) if word in _OF_TIME else _number_field(words, rows)
        if word in {"cheapest", "priciest"}:
            prices = {name: _number_field([name], rows) for name in (*_PRICES, *words)}
            field = next((one for name, one in prices.items() if one and name in _words_of(one)), None)
        place = words.index(word)
        if word in _OF_A_NAMED_FIELD and (field is None or _place_of(field, words) != place + 1):
            yield None
            continue
        if field is None or not rows:
            yield None
            continue
        at = _at("", field)
        near = [*words[max(0, place - 1) : place], *words[place + 1 : place + 2]]
        near += [before for before, noun in pairwise(words) if noun in nouns and noun.endswith("s")]
        count = next((number for number in map(_count_in, near) if number is not None), None)
        values = cast("list[Any]", [row[field] for row in rows])
        if count is not None:
            if len({*values}) < len(values):
                yield None  # nobody has said in which order equal ones come
                continue
            name = input_for("count", count)
            yield _topmost(listing, rows, values, at, (name, count), is_last=function == "max")
            continue
        best = max(values) if function == "max" else min(values)
        if values.count(best) > 1:
            yield None  # which of two equal ones was meant, nobody has said
            continue
        picked = f"{function}({listing}, key=lambda one: one{at})"
        is_alone = f"len([each for each in {listing} if each{at} == {picked}{at}]) == 1"
        yield Part(listing, (rows[values.index(best)],), picked, (is_alone,))


def _topmost(
    listing: str,
    rows: Sequence[dict[str, JSON]],
    values: Sequence[Any],
    at: str,
    count: tuple[str, int],
    *,
    is_last: bool,
) -> Part:
    """The first items by a field; nobody has said which of two equal ones comes first."""
    order = sorted(range(len(rows)), key=lambda number: values[number], reverse=is_last)
    code = f"sorted({listing}, key=lambda one: one{at}{', reverse=True' if is_last else ''})"
    are_apart = f"len({{each{at} for each in {listing}}}) == len({listing})"
    return Part(f"{code}[:{count[0]}]", tuple(rows[number] for number in order[: count[1]]), "", (are_apart,))


def _count_in(word: str) -> int | None:
    if word.isdigit():
        return int(word) or None
    return _NUMBERS.index(word) + 1 if word in _NUMBERS[1:] else None


def _fields(rows: Sequence[dict[str, JSON]]) -> Iterator[tuple[str, list[JSON]]]:
    """The fields that all items have, with their values."""
    for name in rows[0] if rows else ():
        if all(name in row for row in rows):
            yield name, [row[name] for row in rows]


def _words_of(field: str) -> list[str]:
    parts = re.findall(r"[A-Z]?[a-z]+|\d+", field.rsplit(_WITHIN, maxsplit=1)[-1])
    return [part.lower() for part in parts if part.lower() not in {"is", "has", "was", "are"}]


def _place_of(field: str, words: Sequence[str]) -> int | None:
    """Where the words name a field; None if they do not."""
    parts = _words_of(field)
    if not parts or not all(part in words for part in parts):
        return None
    return words.index(parts[0])


def _is_said(text: str, said: str) -> bool:
    if len(text) < _SHORTEST or len(text) > len(said):
        return False
    return re.search(rf"(?<!\w){re.escape(text)}s?(?!\w)", said, re.IGNORECASE) is not None or (
        "_" in text and _is_said(text.replace("_", " "), said)
    )


def _is_within(text: str, said: str, asked: frozenset[str]) -> bool:
    """Whether a text is said only as a part of others that the tools were given, as a first name is."""
    longer = [one for one in asked if text.lower() in one.lower() and one != text and one in said]
    for one in longer:
        said = said.replace(one, " ")
    return bool(longer) and not _is_said(text, said)


def _number_field(words: Sequence[str], rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field of numbers that the words are about: the one that they name, or the only one."""
    found = [
        name
        for name, values in _fields(rows)
        if all(map(is_number, values)) and not NAMES_OF_IDS & {*_words_of(name)}
    ]
    named = [name for name in found if _place_of(name, words) is not None]
    chosen = named or found
    return chosen[0] if len(chosen) == 1 else None


def _day_field(rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field of days or times, if there is only one."""
    found = [
        name
        for name, values in _fields(rows)
        if all(isinstance(value, str) and _DAY.match(value) for value in values)
    ]
    return found[0] if len(found) == 1 else None
