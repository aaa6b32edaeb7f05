"""What the user's words ask of the items of a list: which field, and how it must compare.

In: the words, and the items as rows of fields. Out: tests with their code over an item that is called `each`,
and the words that each understands; None for something that is not understood.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.leaves import NAMES_OF_IDS, is_number, number_of
from callsheet.authoring.distillation.wording import is_kin, word_set
from callsheet.ir import JSON

_PAIRS = (
    ("most recent", "newest"),
    ("most expensive", "priciest"),
    ("least expensive", "cheapest"),
    *((f"{word} rated", "highest rating") for word in ("best", "top", "highest")),
    *((f"{word} rated", "lowest rating") for word in ("worst", "lowest")),
)
NOT = word_set(
    "not no never without isn't aren't isnt arent non nobody none missing lacks lacking lack nothing"
)
_WITH = frozenset(("with", "have", "has", "having"))
NEAR_WORDS = 3
_THAN = (
    r"\b(over|above|more than|greater than|larger than|bigger than|longer than|higher than|at least"
    r"|under|below|less than|fewer than|smaller than|shorter than|lower than|cheaper than"
    r"|at most|up to|exactly)\s+"
)
BOUND = re.compile(_THAN + r"[^\w\s-]?(\d+(?:\.\d+)?)(?:\s*(\w+))?")
_FIELD_BOUND = re.compile(_THAN + r"(?:their|its|the|his|her)\s+(?:own\s+)?(\w+)")
_DAY_BOUND = re.compile(
    r"\b(before|after|since|until|from|by|on or after|on or before)\s+(\d{4}-\d\d-\d\d)\b"
)
_CONTAINED = re.compile(
    r"\b(contain|contains|containing|mention|mentions|mentioning|including|include|includes"
    r"|start with|starts with|starting with|begin with|beginning with"
    r"|end with|ends with|ending with|ending in)"
    r"\s+(?:(?:the|an?) )?(?:(?:word|text) )?\W?([^\s\"',;:]*[^\s\"',;:.!?])"
)
UNITS = word_set("kb mb gb tb k m kib mib day days hour hours week weeks month months minute minutes years")
"""Units in which data need not be."""
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
_OR_MORE = {
    **dict.fromkeys(("later", "after", "more", "above", "over", "newer"), ">="),
    **dict.fromkeys(("earlier", "before", "less", "fewer", "below", "under", "older"), "<="),
}
_BOUND_OR = re.compile(rf"(?<![\w.:-])(\d[\d.:-]*)(?: \w+)? or ({'|'.join(_OR_MORE)})\b")
_CLAUSE_END = re.compile(r"[,;:.] |\b(?:and|that|which|who|whose|where|(?<!not )with)\b")
_REVERSED = {"<": ">=", ">": "<=", ">=": "<", "<=": ">", "==": ""}
DAY = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].*)?\Z")
_FILES = word_set("file files document documents attachment attachments image images report reports")
_FILE = re.compile(r"\w\.[A-Za-z][A-Za-z0-9]{1,4}$")
_SHORTEST, _DEEPEST = 3, 2
WITHIN = "\0"
"""Between the names of a field and of the object that it is in."""
LABEL = "\5"
"""Before what begins a line of a text, as in `Due: 2026-05-01`."""
_LABELLED = re.compile(r"^([A-Za-z][\w -]{0,30}): +(\S.*?) *$", re.MULTILINE)
CELL = "\2"
"""Before the place of a value in a row that is a list."""
TEXT = ""
"""The name of the only field of a text."""


class ItemTest(NamedTuple):
    """What is asked of a field: its code, how it compares with a value or another field, and the words."""

    code: str
    field: str
    compare: Callable[[Any, Any], bool]
    value: JSON
    words: frozenset[str] = frozenset()
    other: str = ""

    def holds(self, row: dict[str, JSON]) -> bool:
        """Whether an item passes."""
        return self.compare(row[self.field], row[self.other] if self.other else self.value)


def field_code(item: str, field: str) -> str:
    """The code of a field of an item."""
    code = item
    for name in field.split(WITHIN) if field != TEXT else ():
        if name.startswith(LABEL):
            pattern = json.dumps(f"(?m)^{re.escape(name[1:])}: +(.*?) *$".replace("\\ ", " "))
            code = f"re.search({pattern}, {code}).group(1)"
        elif name.startswith(CELL):
            code += f"[{name[1:]}]"
        else:
            code += f"[{json.dumps(name, ensure_ascii=False)}]"
    return code


def conditions_of(code: str, listing: str) -> list[str]:
    """What has to hold of the items of a list for what is asked of each, in code over `each` or `one`.

    >>> conditions_of('each["legs"][0]["stops"] == 0', "offers")
    ['all(len(each["legs"]) == 1 for each in offers)']
    """
    found = re.findall(r"\b(?:each|one)((?:\[\"[^\"]+\"\])+)\[0\]\[", code)
    return [f"all(len(each{path}) == 1 for each in {listing})" for path in dict.fromkeys(found)]


class Asking(NamedTuple):
    """What a user has said, in words too; `asked` are texts that the tool was given, and has followed itself.

    `input_for` gives the name of the input for a value that the user has said.
    """

    said: str
    words: Sequence[str]
    asked: frozenset[str]
    input_for: Callable[[str, JSON], str]

    @property
    def denies(self) -> bool:
        """Whether a word denies something, so that it is not clear what holds."""
        return bool(NOT & {*self.words})

    def denies_it(self, text: str) -> bool:
        """Whether a word of its clause denies a text that is said."""
        before = self.said.lower().partition(text.lower().replace("_", " "))[0]
        return bool(NOT & {*words_in(_CLAUSE_END.split(before)[-1])})


def words_in(said: str) -> list[str]:
    """The words, with those that say the same in two words as one."""
    text = said.lower().replace("%", " percent ")
    for pair, word in _PAIRS:
        text = text.replace(pair, word)
    return re.findall(r"[\w'-]+", text)


def item_tests(asking: Asking, rows: Sequence[dict[str, JSON]]) -> Iterator[ItemTest | None]:
    """What the words ask of an item; None for something that is not understood."""
    for field, values in fields_of(rows):
        at = field_code("each", field)
        if all(isinstance(value, bool) for value in values):
            yield from _flag_tests(field, at, asking.words)
        elif any(value is None or value in ("", []) for value in values):
            yield from _presence_tests(field, at, asking.words)
        elif all(isinstance(value, str) for value in values):
            texts = [text for text in dict.fromkeys(cast("list[str]", values)) if text not in asking.asked]
            texts = [text for text in texts if _is_said(text, asking.said) and not _is_within(text, asking)]
            if len(texts) > 1 or (texts and asking.denies_it(texts[0])):
                yield None
            elif texts:
                said_words = frozenset(words_in(texts[0].replace("_", " ")))
                code = f"{at} == {asking.input_for(field, texts[0])}"
                yield ItemTest(code, field, operator.eq, texts[0], said_words)
        if all(isinstance(value, list) for value in values):
            items = {item for value in values for item in cast("list[JSON]", value) if isinstance(item, str)}
            named = [item for item in sorted(items - asking.asked) if _is_said(item, asking.said)]
            if len(named) > 1 or (named and asking.denies_it(named[0])):
                yield None
            elif named:
                code = f"{asking.input_for(field, named[0])} in {at}"
                yield ItemTest(code, field, operator.contains, named[0], frozenset(words_in(named[0])))
        if all(map(is_number, values)):
            yield from _amount_tests(field, at, asking.words)
    yield from _number_tests(asking, rows)
    yield from _day_tests(asking, rows)
    yield from content_tests(asking, rows)
    yield from kind_tests(asking, rows)


def _flag_tests(field: str, at: str, words: Sequence[str]) -> Iterator[ItemTest]:
    """Whether a flag is set: its name, after a word that denies it or not; or the opposite of its name."""
    place = place_of_field(field, words)
    name = "".join(words_of_field(field))
    if place is None:
        place = next((at for at, word in enumerate(words) if is_kin(word, name)), None)
    if place is not None:
        negated = bool(NOT & {*words[max(0, place - 3) : place]})
        yield ItemTest(
            f"not {at}" if negated else at, field, operator.eq, not negated, frozenset([words[place]])
        )
        return
    opposites = {prefix + name for prefix in ("un", "non", "non-", "in", "dis")}
    opposites |= {name.replace("on", "off", 1)} if name.startswith("on") else set()
    opposites &= {*words}
    if opposites and not NOT & {*words}:
        yield ItemTest(f"not {at}", field, operator.eq, False, frozenset(opposites))


def _presence_tests(field: str, at: str, words: Sequence[str]) -> Iterator[ItemTest | None]:
    """Whether a field has something, which some items do not have."""
    parts = words_of_field(field)
    for place, word in enumerate(words):
        opposite = word.startswith("un") and any(is_kin(word[2:], part) for part in parts)
        if not opposite and not any(is_kin(word, part) for part in parts):
            continue
        near = {*words[max(0, place - NEAR_WORDS) : place]}
        if opposite or near & NOT:
            yield ItemTest(f"not {at}", field, _has, False, frozenset((word, *(near & NOT))))
            return
        if near & _WITH:
            yield ItemTest(at, field, _has, True, frozenset((word, *(near & _WITH))))
            return


def _amount_tests(field: str, at: str, words: Sequence[str]) -> Iterator[ItemTest]:
    """Whether there is any of what a number counts, as in "that has seats" and "without comments"."""
    place = place_of_field(field, words)
    before = [*words[max(0, place - 2) : place]] if place else list[str]()
    if not before or (before[-1] not in _WITH | NOT and not (before[0] in _WITH and before[-1] in NOT)):
        return
    is_none = bool(NOT & {*before})
    compare = operator.le if is_none else operator.gt
    yield ItemTest(f"{at} {'<=' if is_none else '>'} 0", field, compare, 0, frozenset((*before, field)))


def _has(value: JSON, wanted: JSON) -> bool:
    return bool(value) is wanted


def signs_in(said: str) -> dict[str, str]:
    """How things compare with the numbers and days that the words name; the reverse after a word that denies.

    >>> signs_in("list the orders over 50 and not changed since 2026-01-31")
    {'50': '>', '2026-01-31': '<'}
    """
    found = {bound[2]: sign for bound, sign, _ in _signed(said.lower())}
    found |= {value: _OR_MORE[word] for value, word in _BOUND_OR.findall(said.lower())}
    return {value: sign for value, sign in found.items() if sign}


def denied_bounds(said: str) -> frozenset[str]:
    """The numbers and days with which things compare the reverse, as a word denies it."""
    return frozenset(bound[2] for bound, sign, is_denied in _signed(said.lower()) if sign and is_denied)


def _signed(text: str) -> Iterator[tuple[re.Match[str], str, bool]]:
    """The bounds in words, how things compare with them, and whether a word denies it."""
    for pattern in (BOUND, _DAY_BOUND):
        for bound in pattern.finditer(text):
            sign = COMPARED[bound[1]][0]
            before = words_in(_CLAUSE_END.split(text[: bound.start()])[-1])
            is_denied = bool(NOT & {*(before[-2:] if pattern is BOUND else before)})
            is_open = not is_denied and bool(NOT & {*before})
            yield bound, "" if is_open else _REVERSED[sign] if is_denied else sign, is_denied


def _number_tests(asking: Asking, rows: Sequence[dict[str, JSON]]) -> Iterator[ItemTest | None]:
    """How a number compares with one that the user has said."""
    for word, name in _FIELD_BOUND.findall(asking.said.lower()):
        others = [one for one in numbers_of(rows) if any(is_kin(name, part) for part in words_of_field(one))]
        fields = [one for one in numbers_of(rows) if one not in others]
        if len(others) != 1 or not fields:
            continue
        named = [one for one in fields if place_of_field(one, asking.words) is not None] or fields
        sign, compare = COMPARED[word]
        code = f"{field_code('each', named[0])} {sign} {field_code('each', others[0])}"
        is_clear = len(named) == 1 and not asking.denies
        yield (
            ItemTest(code, named[0], compare, None, frozenset((*word.split(), name)), others[0])
            if is_clear
            else None
        )
    bounds = BOUND.findall(asking.said.lower())
    if not bounds:
        return
    word, digits, unit = bounds[0]
    after = re.search(rf"{re.escape(digits)}((?:\s+[a-z]+){{0,2}})", asking.said.lower())
    near = {*words_in(after[1])} if after is not None else set[str]()
    of_unit = [one for one in numbers_of(rows) if near & {*words_of_field(one)}]
    field = number_field([unit, *asking.words] if unit else asking.words, rows)
    field = of_unit[0] if len(of_unit) == 1 else field
    is_other_unit = unit in UNITS and unit not in words_of_field(field or "")
    number = number_of(digits)
    if field is None or number is None or len(bounds) > 1 or is_other_unit or asking.denies:
        yield None
        return
    if digits in asking.asked:
        return
    sign, compare = COMPARED[word]
    name = asking.input_for(f"{word.replace(' ', '_')}", number)
    code = f"{field_code('each', field)} {sign} {name}"
    yield ItemTest(code, field, compare, number, frozenset(word.split()))


def _day_tests(asking: Asking, rows: Sequence[dict[str, JSON]]) -> Iterator[ItemTest | None]:
    """How a day compares with one that the user has said."""
    bounds = [(word, day) for word, day in _DAY_BOUND.findall(asking.said.lower()) if day not in asking.asked]
    field = _compared_days(rows, asking.words)
    if not bounds or field is None:
        return
    sign = signs_in(asking.said).get(bounds[0][1], "")
    if len(bounds) > 1 or not sign:
        yield None
        return
    word, day = bounds[0]
    compare = next(function for one, function in COMPARED.values() if one == sign)
    at = field_code("each", field)
    code = f"{at}[:10] {sign} {asking.input_for(word.replace(' ', '_'), day)}"
    if not all(row[field] for row in rows):
        code = f"{at} and {code}"
    understood = frozenset(word.split())
    if sign != COMPARED[word][0]:
        understood |= NOT & {*asking.words}
    yield ItemTest(code, field, partial(_day_compares, compare), day, understood)


def _day_compares(compare: Callable[[Any, Any], bool], value: Any, limit: Any) -> bool:
    return bool(value) and compare(value[:10], limit)


def _has_within(value: Any, part: Any) -> bool:
    return str(part).lower() in str(value).lower()


def content_tests(asking: Asking, rows: Sequence[dict[str, JSON]]) -> Iterator[ItemTest | None]:
    """What a text has in it: in the field that is named, or the only one that has it."""
    for verb, part in _CONTAINED.findall(asking.said):
        texts = [name for name, values in fields_of(rows) if all(isinstance(value, str) for value in values)]
        named = [name for name in texts if place_of_field(name, asking.words) is not None]
        having = [name for name in texts if any(part.lower() in str(row[name]).lower() for row in rows)]
        chosen = [name for name in having if name in named] or having
        if len(chosen) != 1 or asking.denies:
            yield None
            return
        at = field_code("each", chosen[0])
        name = asking.input_for("part", part)
        understood = frozenset((*verb.split(), "whose", *words_in(part)))
        if verb.startswith(("start", "begin")):
            yield ItemTest(f"{at}.startswith({name})", chosen[0], str.startswith, part, understood)
        elif verb.startswith("end"):
            yield ItemTest(f"{at}.endswith({name})", chosen[0], str.endswith, part, understood)
        else:
            code = f"{name}.lower() in {at}.lower()"
            yield ItemTest(code, chosen[0], _has_within, part, understood)


def kind_tests(asking: Asking, rows: Sequence[dict[str, JSON]]) -> Iterator[ItemTest]:
    """The kind of a file, which its name ends with."""
    for field, values in fields_of(rows):
        names = [value for value in values if isinstance(value, str)]
        kinds = {name.rpartition(".")[2].lower() for name in names if _FILE.search(name)}
        for word, noun in pairwise(asking.words):
            if word in kinds and noun in _FILES and len(names) == len(values):
                kind = asking.input_for("kind", word)
                code = f'{field_code("each", field)}.lower().endswith("." + {kind}.lower())'
                yield ItemTest(code, field, _ends_with_kind, word, frozenset((word,)))


def _ends_with_kind(value: Any, kind: Any) -> bool:
    return str(value).lower().endswith(f".{kind}")


def fields_of(rows: Sequence[dict[str, JSON]]) -> Iterator[tuple[str, list[JSON]]]:
    """The fields that all items have, with their values."""
    for name in rows[0] if rows else ():
        if all(name in row for row in rows):
            yield name, [row[name] for row in rows]


def words_of_field(field: str) -> list[str]:
    """The words in the name of a field, without those of grammar."""
    parts = re.findall(r"[A-Z]?[a-z]+|\d+", field.rsplit(WITHIN, maxsplit=1)[-1])
    return [part.lower() for part in parts if part.lower() not in {"is", "has", "was", "are"}]


def place_of_field(field: str, words: Sequence[str]) -> int | None:
    """Where the words name a field; None if they do not."""
    parts = words_of_field(field)
    if not parts or not all(part in words for part in parts):
        return None
    return words.index(parts[0])


def _is_said(text: str, said: str) -> bool:
    if len(text) == _SHORTEST - 1 and text.isupper():  # as of a country
        return re.search(rf"\b{re.escape(text)}\b", said) is not None
    if len(text) < _SHORTEST or len(text) > len(said):
        return False
    return re.search(rf"(?<!\w){re.escape(text)}s?(?!\w)", said, re.IGNORECASE) is not None or (
        "_" in text and _is_said(text.replace("_", " "), said)
    )


def _is_within(text: str, asking: Asking) -> bool:
    """Whether a text is said only as a part of others: of what tools were given, or of a name in one word."""
    said = asking.said
    names = re.findall(r"\w+(?:[-.@/]\w+)+", said)
    longer = [
        one for one in (*asking.asked, *names) if text.lower() in one.lower() and one != text and one in said
    ]
    for one in longer:
        said = said.replace(one, " ")
    return bool(longer) and not _is_said(text, said)


def numbers_of(rows: Sequence[dict[str, JSON]]) -> list[str]:
    """The fields of numbers that are no names."""
    return [
        name
        for name, values in fields_of(rows)
        if all(map(is_number, values)) and not NAMES_OF_IDS & {*words_of_field(name)}
    ]


def number_field(words: Sequence[str], rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field of numbers that the words are about: the one that they name, or the only one."""
    found = numbers_of(rows)
    named = [name for name in found if place_of_field(name, words) is not None]
    if not named and len(found) > 1:  # in part, with the names of what they are in
        parts = {name: _named_parts(name, words) for name in found}
        most = max(parts.values())
        named = [name for name in found if parts[name] == most > 0]
    chosen = named or found
    return chosen[0] if len(chosen) == 1 else None


PRICES = word_set("price prices cost costs fare fee amount total rate")


def price_fields(names: Iterable[str]) -> list[str]:
    """The fields that say what something costs, by their names or those of the objects that they are in."""
    return [
        name
        for name in names
        if PRICES & {part for one in name.split(WITHIN) for part in words_of_field(one)}
    ]


def _named_parts(field: str, words: Sequence[str]) -> int:
    """How many of the words of a field, and of the objects that it is in, are said."""
    return sum(part in words for name in field.split(WITHIN) for part in words_of_field(name))


def day_field(rows: Sequence[dict[str, JSON]]) -> str | None:
    """The field of days or times, if there is only one."""
    found = [
        name
        for name, values in fields_of(rows)
        if all(isinstance(value, str) and DAY.match(value) for value in values)
    ]
    return found[0] if len(found) == 1 else None


def _compared_days(rows: Sequence[dict[str, JSON]], words: Sequence[str]) -> str | None:
    """The field of days that a comparison is about: the only one that the words name, or the only one.

    One that the words name may be missing in some items.
    """
    named = [
        name
        for name, values in fields_of(rows)
        if any(values)
        and all(isinstance(value, str) and DAY.match(value) for value in values if value not in (None, ""))
        and any(is_kin(part, word) for part in words_of_field(name) for word in words if part != "on")
    ]
    return named[0] if len(named) == 1 else day_field(rows)


def flat(item: dict[str, JSON], before: str = "", depth: int = 0) -> dict[str, JSON]:
    """The fields of an object, with those of objects in it, of the only one of a list, of lines of a text."""
    found: dict[str, JSON] = {}
    for name, value in item.items():
        if isinstance(value, dict) and depth < _DEEPEST:
            found |= flat(value, f"{before}{name}{WITHIN}", depth + 1)
            continue
        found[before + name] = value
        if isinstance(value, list) and len(value) == 1 and depth < _DEEPEST and isinstance(value[0], dict):
            found |= flat(value[0], f"{before}{name}{WITHIN}{CELL}0{WITHIN}", depth + 1)
        elif isinstance(value, str) and len(labels := _LABELLED.findall(value)) > 1:
            found |= {f"{before}{name}{WITHIN}{LABEL}{label}": text for label, text in labels}
    return found
