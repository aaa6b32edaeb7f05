"""What lies outside of what was recorded: conditions for items, where words restrict and no test does.

In: the recorded items, all of which the words may have meant, and the words that nothing in the plan follows.
Out: conditions on another item: its states, numbers, days, lists and texts have to be as the recorded ones
were; of several fields, those that the words name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple, cast

from callsheet.authoring.distillation import guards
from callsheet.authoring.distillation.item_tests import COMPARED, DAY, words_of_field
from callsheet.authoring.distillation.leaves import NAMES_OF_IDS, is_number
from callsheet.authoring.distillation.wording import QUANTIFIERS, SMALL_WORDS, is_kin, word_set
from callsheet.ir import JSON

_HOUR = re.compile(r"\d\d:\d\d(?::\d\d)?\Z")
_TOKEN = re.compile(r"[A-Za-z][\w-]{0,20}\Z")
_CLAUSE = re.compile(
    r"\b(?:how many|that|which|who|whose|whom|where|with|without|having|except|excluding|only|unless|besides"
    r"|not|but not|yet|still|other than|apart from|unrelated|due|overdue|before|after|until|since|older|newer"
    r"|earlier|later|over|under|above|below|(?:more|less|fewer) than"
    r"|by(?= (?:to|noon|midnight|now|the|next|this|\w+day))"
    r"|(?:this|last|next|past) (?=morning|noon|week|month|year|quarter|\w+day))\b"
    r"((?:\W*[\w'-]+){0,8})"
)
_ENDS = re.compile(r"[,.;:]| (?:and|so|then|but) ")
_BY_TIME = word_set(
    "today tomorrow yesterday now due overdue expired ended past before after until since older newer earlier"
    " later old new recent upcoming future stale day days week weeks weekend month months year years morning"
    " noon afternoon evening midnight night tonight monday tuesday wednesday thursday friday saturday sunday"
    " january february march april may june july august september october november december out run"
)
_OF_TODAY = word_set("today now due overdue expired ended past before after until by already out run")
"""Words for which it is enough on which side of today a day is."""
ORDERED = word_set(" ".join((*COMPARED, "older newer earlier later")))
"""The words of comparisons, which the numbers and days after them account for."""
_DEEPEST = 2


class Reference(NamedTuple):
    """A day or a number that items may be compared with: its code, and its value for each item."""

    code: str
    values: tuple[JSON, ...]


def days_in(code: str, values: Sequence[JSON]) -> Iterator[Reference]:
    """The days and times in a value, and in the fields of an object, in each example."""
    if values and all(isinstance(one, str) and DAY.match(one) for one in values):
        yield Reference(code, (*values,))
    tables = [one for one in values if isinstance(one, dict)]
    for at, column in _columns(code, tables) if tables and len(tables) == len(values) else ():
        if all(isinstance(one, str) and DAY.match(one) for one in column):
            yield Reference(at, (*column,))


def restricting(said: str) -> list[str]:
    """The words of a request that may say which of some things are meant, wherever they stand.

    >>> restricting("remind those whose contract ended before today, and tell ann")
    ['contract', 'ended', 'before', 'today']
    >>> restricting("remind the members of the club")
    []
    """
    found: dict[str, None] = {}
    for clause in _CLAUSE.finditer(said.lower()):
        words = _ENDS.split(clause[0] + " ", maxsplit=1)[0]
        for word in re.findall(r"[^\W\d_][\w'-]*", words):
            if word not in SMALL_WORDS | QUANTIFIERS | {"without", "having", "how"}:
                found[word] = None
    return [*found]


class Outside(NamedTuple):
    """The conditions for an item, and the words of which its fields show nothing."""

    conditions: Sequence[str]
    unguarded: Sequence[str]


def outside(
    code: str,
    items: Sequence[JSON],
    words: Sequence[str],
    references: Sequence[Reference],
    *,
    only_named: bool = False,
) -> Outside:
    """The conditions that an item is not outside of what was recorded, as far as `words` may restrict it.

    With `only_named` these are states, and fields that the words name.

    >>> outside("one", [{"guests": 4}, {"guests": 9}], ["few", "guests"], []).conditions[-1]
    '4 <= one["guests"] <= 9'
    """
    tables = [item for item in items if isinstance(item, dict)]
    if not tables or len(tables) < len(items):
        return Outside((), ())
    columns = dict(_columns(code, tables))
    known = {part for at, values in columns.items() for part in _state_words(at, values)}
    states = [one for at, values in columns.items() for one in _as_state(at, values, only_named=only_named)]
    states += _no_more_fields(code, tables)
    left = [word for word in words if not any(is_kin(word, part) for part in known)]
    if not left:
        return Outside(states, ())
    named = [
        at for at in columns if any(is_kin(word, part) for word in left for part in words_of_field(_last(at)))
    ]
    if not only_named and not named and any(word in _BY_TIME for word in left):
        named = [at for at in columns if _is_time(columns[at])]
    ordered = [one for at in named for one in _as_ordered(at, columns[at], left, references)]
    ordered += (
        []
        if ordered or only_named
        else [one for at in columns for one in _as_ordered(at, columns[at], left, references)]
    )
    for at, values in columns.items():
        for word in left:
            if len(word) > 3 and all(isinstance(one, str) and word in one.lower() for one in values):
                ordered.append(f"{json.dumps(word)} in {at}.lower()")
            if all(isinstance(one, list) and word in one for one in values):
                ordered.append(f"{json.dumps(word)} in {at}")
    return Outside([*states, *ordered], () if ordered else left)


def same_as(
    code: str, items: Sequence[JSON], name: str, results: Sequence[JSON], counts: Sequence[int]
) -> Iterator[str]:
    """The conditions that a text of an item is that of a look, as of each, in the example that it is of."""
    tables = [item for item in items if isinstance(item, dict)]
    others = [
        one for one, count in zip(results, counts, strict=True) if isinstance(one, dict) for _ in range(count)
    ]
    if not tables or len(tables) < len(items) or len(others) < len(items):
        return
    known = [*_columns(name, others)]
    for at, values in _columns(code, tables):
        is_text = all(isinstance(one, str) and len(one) > 2 for one in values)
        yield from (f"{at} == {other}" for other, each in known if is_text and each == values)


def present(code: str, items: Sequence[JSON], text: str) -> Iterator[str]:
    """The conditions that an item has what each had, of what `text` uses."""
    tables = [item for item in items if isinstance(item, dict)]
    for at, values in _columns(code, tables) if tables and len(tables) == len(items) else ():
        if (
            at.removeprefix(code) in text
            and not [*_as_state(at, values)]
            and all(isinstance(one, str | list) and one for one in values)
        ):
            yield f"len({at} or '') > 0"


def _columns(
    code: str, tables: Sequence[Mapping[str, JSON]], depth: int = 0
) -> Iterator[tuple[str, list[JSON]]]:
    """The fields that all have, and those of objects in them, with their code."""
    for name in tables[0]:
        if not all(name in table for table in tables):
            continue
        at, values = f"{code}[{json.dumps(name, ensure_ascii=False)}]", [table[name] for table in tables]
        below = [one for one in values if isinstance(one, dict)]
        if below and len(below) == len(values) and depth < _DEEPEST:
            yield from _columns(at, below, depth + 1)
        else:
            yield at, values


def _no_more_fields(code: str, tables: Sequence[Mapping[str, JSON]]) -> Iterator[str]:
    """The condition that an item has no field that none had, if all had the same ones."""
    if all(table.keys() == tables[0].keys() for table in tables):
        yield f"len({code}) == {len(tables[0])}"


def _last(at: str) -> str:
    return at.rpartition("[")[2].strip('"]')


def _is_time(values: Sequence[JSON]) -> bool:
    return all(isinstance(one, str) and (DAY.match(one) or _HOUR.match(one)) for one in values)


def _state_words(at: str, values: Sequence[JSON]) -> Iterator[str]:
    """The words of a field that says a state, and of the states."""
    if [*_as_state(at, values)]:
        yield from words_of_field(_last(at))
        for value in values:
            yield from re.findall(r"[a-z]+", value.lower()) if isinstance(value, str) else ()


def _as_state(at: str, values: Sequence[JSON], *, only_named: bool = False) -> Iterator[str]:
    """The conditions on a field of flags, of words for a state, or that always was empty, or never.

    With `only_named` one word that all have is a state only in a field whose name says so.
    """
    first = values[0]
    if all(isinstance(one, bool) for one in values):
        if all(one is first for one in values):
            yield at if first else f"not {at}"
    elif all(one in (None, "", []) for one in values):
        yield f"not {at}"
    elif all(isinstance(one, list) for one in values):
        if all(values):
            yield f"len({at}) > 0"
    elif all(isinstance(one, str) and _TOKEN.match(one) for one in values):
        known = [*dict.fromkeys(cast("list[str]", values))]
        is_state = all(guards.is_state(_last(at), one) for one in values)
        if is_state or (len(known) == 1 < len(values) and not only_named):
            yield f"{at} in {json.dumps(known, ensure_ascii=False)}"


def _as_ordered(
    at: str, values: Sequence[JSON], words: Sequence[str], references: Sequence[Reference]
) -> Iterator[str]:
    """The conditions on a field of numbers, times or days: no less and no more than recorded."""
    if all(map(is_number, values)):
        if not NAMES_OF_IDS & {*words_of_field(_last(at))} and not guards.is_name(at):
            yield f"{min(cast('list[float]', values))} <= {at} <= {max(cast('list[float]', values))}"
    elif all(isinstance(one, str) and _HOUR.match(one) for one in values):
        hours = cast("list[str]", values)
        yield f"{json.dumps(min(hours))} <= {at} <= {json.dumps(max(hours))}"
    elif all(isinstance(one, str) and DAY.match(one) for one in values):
        days = [one[:10] for one in cast("list[str]", values)]
        found = [
            one
            for one in references
            if _is_time(one.values) and all(":" not in str(v)[:10] for v in one.values)
        ]
        for one in found:
            yield from _as_far(at, days, one, words)
        if not found:
            yield f"{json.dumps(min(days))} <= {at}[:10] <= {json.dumps(max(days))}"


def _as_far(at: str, days: Sequence[str], reference: Reference, words: Sequence[str]) -> Iterator[str]:
    """The conditions that a day is on the same side of another, or as far from it."""
    others = [str(one)[:10] for one in reference.values]
    try:
        far = [
            (date.fromisoformat(a) - date.fromisoformat(b)).days for a, b in zip(days, others, strict=True)
        ]
    except ValueError:
        return
    other = f"{reference.code}[:10]"
    asked = [word for word in words if word in _BY_TIME]
    if asked and all(word in _OF_TODAY for word in asked) and (max(far) <= 0 or min(far) >= 0):
        sign = "<" if max(far) < 0 else "<=" if max(far) <= 0 else ">" if min(far) > 0 else ">="
        yield f"{at}[:10] {sign} {other}"
        return
    day = f"date.fromisoformat({other})"
    yield f"{at}[:10] >= ({day} + timedelta(days={min(far)})).isoformat()"
    yield f"{at}[:10] <= ({day} + timedelta(days={max(far)})).isoformat()"
