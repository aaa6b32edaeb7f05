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
from typing import Any, NamedTuple, cast

from callsheet.ir import JSON

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PLACES = {"first": "0", "second": "1", "third": "2", "last": "-1"}
_FUNCTIONS = {
    **dict.fromkeys(("largest", "biggest", "highest", "greatest", "maximum", "longest", "heaviest"), "max"),
    **dict.fromkeys(("smallest", "lowest", "least", "minimum", "shortest", "lightest"), "min"),
    **{"most": "max", "fewest": "min", "priciest": "max", "cheapest": "min"},
    **{"newest": "max", "latest": "max", "oldest": "min", "earliest": "min"},
}
_PRICES = frozenset(("price", "cost", "fare", "fee", "amount", "total", "rate"))
_OF_TIME = frozenset(("newest", "latest", "oldest", "earliest"))
_OF_A_NAMED_FIELD = frozenset(("most", "fewest", "least"))
""""The most votes", while "most tickets" are many of them."""
_UNCLEAR = frozenset(
    (
        *("except", "excluding", "unless", "only", "some", "few", "half", "top", "other", "others"),
        *("rest", "remaining", "best", "worst", "unique", "distinct", "odd", "even", "random", "any"),
    )
)
"""Words that restrict a list in ways that nothing here understands."""
_NOT = frozenset(("not", "no", "never", "without", "isn't", "aren't", "isnt", "arent", "non"))
_BOUND = re.compile(
    r"\b(over|above|more than|greater than|at least|under|below|less than|at most|exactly)"
    r"\s+\D?(\d+(?:\.\d+)?)"
)
_QUANTIFIERS = frozenset(
    (
        *("all", "each", "every", "both", "these", "those", "what", "which", "their", "his", "her"),
        *("many", "number", "count"),
    )
)
_RELATIVES = frozenset(
    ("that", "which", "who", "whose", "with", "without", "where", "older", "newer", "due", "still")
)
_CONDITIONS = frozenset(
    ("if", "unless", "whether", "otherwise", "else", "or", "depending", "provided", "when")
)
_COMPARED: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys(("over", "above", "more than", "greater than"), (">", operator.gt)),
    **dict.fromkeys(("under", "below", "less than"), ("<", operator.lt)),
    "at least": (">=", operator.ge),
    "at most": ("<=", operator.le),
    "exactly": ("==", operator.eq),
}
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?\Z")
_NAMES_OF_IDS = frozenset(("id", "number", "no", "key", "index", "code", "year", "zip", "phone"))
_SHORTEST = 3


class Unclear(Enum):
    """The words restrict a list in a way that is not understood."""

    UNCLEAR = 0


UNCLEAR = Unclear.UNCLEAR


class Part(NamedTuple):
    """A part of a list that the words name: its code over `listing`, and its items.

    `picked` is the code of the one item that is meant, if it is one.
    """

    code: str
    items: tuple[JSON, ...]
    picked: str = ""


class _Test(NamedTuple):
    """What is asked of a field: its code, and how the field must compare with a value."""

    code: str
    field: str
    compare: Callable[[Any, Any], bool]
    value: JSON

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
) -> Part | Unclear | None:
    """The part of a list that the words name.

    `asked` are texts that are no condition: the tool was given them, and has followed them by itself.
    `nouns` are the words for the items, as the tool has them: what stands before one, and is not understood,
    restricts the list in an unknown way. `input_for` gives the name of the input for a value that the user
    has said.

    >>> orders = [{"id": "a", "total": 5, "open": True}, {"id": "b", "total": 9, "open": False}]
    >>> part_named("note the open orders", "orders", orders, frozenset(), lambda name, value: name).code
    '[each for each in orders if each["open"]]'
    >>> part_named("note the largest order", "orders", orders, frozenset(), lambda name, value: name).picked
    'max(orders, key=lambda one: one["total"])'
    >>> part_named("note the orders", "orders", orders, frozenset(), lambda name, value: name)
    """
    rows = [cast("dict[str, JSON]", item) for item in items if isinstance(item, dict)]
    if not rows or len(rows) < len(items):
        return None
    words = re.findall(r"[\w'-]+", said.lower())
    tests = [*_tests(said, words, rows, asked, input_for)]
    if None in tests or (_UNCLEAR & {*words}):
        return UNCLEAR
    code, kept = listing, rows
    known = [test for test in tests if test is not None]
    if known:
        code = f"[each for each in {listing} if {' and '.join(test.code for test in known)}]"
        kept = [row for row in rows if all(test.holds(row) for test in known)]
    ranks = [*_ranks(said, words, code, kept)]
    if not ranks and not known and _is_restricted(words, nouns, asked):
        return UNCLEAR
    if not ranks:
        return Part(code, tuple(kept)) if known else None
    if len(ranks) > 1 or ranks[0] is None or not kept:
        return UNCLEAR
    return ranks[0]


def _is_restricted(words: Sequence[str], nouns: frozenset[str], asked: frozenset[str]) -> bool:
    """Whether something before or after the word for the items says which of them are meant."""
    data = {word for text in asked for word in re.findall(r"[\w'-]+", text.lower())}
    for place, word in enumerate(words):
        if word not in nouns and word.rstrip("s") not in nouns:
            continue
        before = words[place - 1] if place > 1 else ""
        if before and before not in _SMALL_WORDS | _QUANTIFIERS | nouns | data:
            return True
        if place + 1 < len(words) and words[place + 1] in _RELATIVES:
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
        at = f"each[{json.dumps(field, ensure_ascii=False)}]"
        if all(isinstance(value, bool) for value in values):
            place = _place_of(field, words)
            if place is None:
                continue
            negated = bool(_NOT & {*words[max(0, place - 3) : place]})
            yield _Test(f"not {at}" if negated else at, field, operator.eq, not negated)
        elif all(isinstance(value, str) for value in values):
            texts = [text for text in dict.fromkeys(cast("list[str]", values)) if _is_said(text, said)]
            texts = [text for text in texts if text not in asked]
            if len(texts) > 1 or (texts and _NOT & {*words}):
                yield None
            elif texts:
                yield _Test(f"{at} == {input_for(field, texts[0])}", field, operator.eq, texts[0])
    bounds = _BOUND.findall(said.lower())
    if not bounds:
        return
    field = _number_field(words, rows)
    if field is None or len(bounds) > 1 or _NOT & {*words}:
        yield None
        return
    word, digits = bounds[0]
    if digits in asked:
        return
    number = float(digits) if "." in digits else int(digits)
    sign, compare = _COMPARED[word]
    name = input_for(f"{word.replace(' ', '_')}", number)
    code = f"each[{json.dumps(field, ensure_ascii=False)}] {sign} {name}"
    yield _Test(code, field, compare, number)


def _ranks(
    said: str, words: Sequence[str], listing: str, rows: Sequence[dict[str, JSON]]
) -> Iterator[Part | None]:
    """The items that words of order name: by their place, or the greatest and least; None if unclear."""
    for word in dict.fromkeys(words):
        if word not in _PLACES:
            continue
        place = words.index(word)
        count = _count_in(words[place + 1] if place + 1 < len(words) else "")
        at = int(_PLACES[word])
        if count is not None and word in {"first", "last"}:
            code = f"{listing}[:{count}]" if word == "first" else f"{listing}[-{count}:]"
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
            field = _number_field([*_PRICES], rows)
        if word in _OF_A_NAMED_FIELD and (field is None or _place_of(field, words) != words.index(word) + 1):
            yield None
            continue
        if field is None or not rows:
            yield None
            continue
        values = cast("list[Any]", [row[field] for row in rows])
        best = max(values) if function == "max" else min(values)
        if values.count(best) > 1:
            yield None  # which of two equal ones was meant, nobody has said
            continue
        key = f"lambda one: one[{json.dumps(field, ensure_ascii=False)}]"
        yield Part(listing, (rows[values.index(best)],), f"{function}({listing}, key={key})")


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
    parts = re.findall(r"[A-Z]?[a-z]+|\d+", field)
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
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said, re.IGNORECASE) is not None


def _number_field(words: Sequence[str], rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field of numbers that the words are about: the one that they name, or the only one."""
    found = [
        name
        for name, values in _fields(rows)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        and not _NAMES_OF_IDS & {*_words_of(name)}
    ]
    named = [name for name in found if _place_of(name, words) is not None]
    chosen = named or found
    return chosen[0] if len(chosen) == 1 else None


def _day_field(rows: Sequence[dict[str, JSON]]) -> str | None:
    found = [
        name
        for name, values in _fields(rows)
        if all(isinstance(value, str) and _DAY.match(value) for value in values)
    ]
    return found[0] if len(found) == 1 else None


def unquoted(said: str) -> str:
    """The words of a request without what it quotes, which is data.

    >>> unquoted('tell bob: "call me if you can"')
    'tell bob: '
    """
    return re.sub(r"\"[^\"]*\"|“[^”]*”|«[^»]*»", "", said)


def condition_in(said: str) -> str:
    """The word with which a request makes something depend on what is found; "" if there is none.

    >>> condition_in("if it rains, tell ann"), condition_in("tell ann")
    ('if', '')
    """
    return next((word for word in re.findall(r"\w+", unquoted(said).lower()) if word in _CONDITIONS), "")


def counts(said: str) -> bool:
    """Whether the words ask for a number of things.

    >>> counts("write how many mails there are"), counts("forward the mails")
    (True, False)
    """
    return re.search(r"\b(how many|count|number of)\b", said.lower()) is not None


_SMALL_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "the",
            "you",
            "your",
            "i",
            "we",
            "my",
            "our",
            "us",
            "me",
            "it",
            "its",
            "is",
            "are",
            "was",
        ),
        *("were", "for", "of", "to", "in", "on", "at", "from", "with", "by", "about", "this", "that", "and"),
        *("as", "here", "there", "please", "hi", "hello", "dear", "re", "fwd"),
    )
)


def says_the_same(text: str, said: str, vocabulary: frozenset[str]) -> bool:
    """Whether the words of a text are those of the user in other forms, or say nothing by themselves.

    `vocabulary` are the words of the tools. A word that the user has said exactly so may be data of this one
    time, unless it is the first one, which says what to do.

    >>> says_the_same("Thank you for your mail ", "thank for mail 12", frozenset(["mail"]))
    True
    >>> says_the_same("Great work, ", "answer mail 12", frozenset(["mail"]))
    False
    """
    words = re.findall(r"\w+", said)
    for word in re.findall(r"\w+", text):
        lower = word.lower()
        if any(char.isdigit() for char in word):
            return False
        if lower in _SMALL_WORDS or lower in vocabulary or lower.rstrip("s") in vocabulary:
            continue
        if word in words[1:] or not any(_is_form(lower, other.lower()) for other in words):
            return False
    return True


def _is_form(word: str, other: str) -> bool:
    """Whether two words are forms of one: the same beginning, and little besides.

    >>> _is_form("thanks", "thank"), _is_form("open", "opinion")
    (True, False)
    """
    short, long = sorted((word, other), key=len)
    return long == short or (
        len(short) >= _SHORTEST and long.startswith(short) and len(long) <= len(short) + 3
    )
