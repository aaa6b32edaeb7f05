"""What the condition of a user's request asks of the data, as Python expressions.

In: the request, and the results of calls as they were recorded, in which the condition held. Out: the
expressions that the words may mean; where they differ for other data, nobody has said what was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from callsheet.authoring.distillation.choices import Part, part_named
from callsheet.authoring.distillation.item_tests import BOUND, COMPARED, UNITS
from callsheet.authoring.distillation.leaves import is_number, number_of
from callsheet.authoring.distillation.lists import own_lists, tables_in
from callsheet.ir import JSON

_UNDERSTOOD = frozenset(("if", "when"))
_OPEN = re.compile(r"\b(?:otherwise|else|unless|or|depending|whether|provided)\b")
_CLAUSE = re.compile(r"\b(?:if|when)\b\s*(.+?)(?:,|\bthen\b|[.;:](?:\s|$)|$)", re.DOTALL)
_ANY = re.compile(
    r"\bthere (?:are|is|were|was) (?:any|some|an?|one|more|at least one)\b|\bany\b.*\b(?:exists?|found)\b"
)
_NONE = re.compile(r"\bthere (?:are|is|were|was)(?: no|n't any| not any| none)\b|\bnothing\b|\bnobody\b")
_WHICH: tuple[tuple[str, str], ...] = (
    ("last", r"now|currently|current|last|latest|recent"),
    ("mean", r"average|mean"),
    ("max", r"ever|any|peak|highest|maximum"),
    ("min", r"always|all|lowest|minimum"),
)
_FIGURES: dict[str, tuple[str, Callable[[list[float]], float]]] = {
    "last": ("{rows}[-1][{field}]", lambda values: values[-1]),
    "first": ("{rows}[0][{field}]", lambda values: values[0]),
    "mean": ("sum([row[{field}] for row in {rows}]) / len({rows})", lambda values: sum(values) / len(values)),
    "max": ("max([row[{field}] for row in {rows}])", max),
    "min": ("min([row[{field}] for row in {rows}])", min),
}


class Result(NamedTuple):
    """The name of a result, its value, the words for what it lists, and the texts that its call was given."""

    name: str
    value: JSON
    nouns: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()


class Condition(NamedTuple):
    """The code of a condition, and the figure that it compares, if it is one, with its recorded value."""

    code: str
    figure: str = ""
    value: JSON = None


def condition_of(
    said: str, word: str, results: Sequence[Result], input_for: Callable[[str, JSON], str]
) -> list[Condition] | None:
    """The expressions that the user's condition may be; None if it is not understood.

    >>> condition_of("if it rains, tell ann", "if", [Result("weather", {"rain": True})], lambda n, v: n)
    [Condition(code='weather["rain"]', figure='', value=None)]
    >>> condition_of("tell ann or bob", "or", [], lambda n, v: n)
    """
    clause = _CLAUSE.search(said)
    if word not in _UNDERSTOOD or clause is None or _OPEN.search(said.lower()):
        return None
    found: list[Condition] = []
    for result in reversed(results):
        found += _of_result(clause[1], result, input_for)
        if found:
            return found
    return None


def _of_result(clause: str, result: Result, input_for: Callable[[str, JSON], str]) -> Iterator[Condition]:
    name, value, nouns, asked = result
    if isinstance(value, dict):
        part = part_named(_stems(clause, value), name, [value], asked, input_for)
        if isinstance(part, Part) and part.test and part.items:
            yield Condition(part.test.replace("each[", f"{name}["))
            return
    for code, rows in tables_in(name, value):
        yield from _of_table(clause, code, rows, nouns, input_for)
    yield from _of_empty(clause, name, value, nouns, input_for)


def _of_empty(
    clause: str, name: str, value: JSON, nouns: frozenset[str], input_for: Callable[[str, JSON], str]
) -> Iterator[Condition]:
    """Whether there is anything, or nothing."""
    words = {*re.findall(r"\w+", clause.lower())}
    for code, items in own_lists(name, value):
        if not nouns & words:
            continue
        part = part_named(re.sub(r"\bany\b", "", clause), code, items, frozenset(), input_for, nouns)
        if part is not None and not isinstance(part, Part):
            return
        chosen, count = (part.code, len(part.items)) if part is not None else (code, len(items))
        if _NONE.search(clause.lower()) and count == 0:
            yield Condition(f"len({chosen}) == 0")
        elif _ANY.search(clause.lower()) and count > 0:
            yield Condition(f"len({chosen}) > 0")


def _of_table(
    clause: str, code: str, rows: list[JSON], nouns: frozenset[str], input_for: Callable[[str, JSON], str]
) -> Iterator[Condition]:
    """How many there are, or a figure of them, compared with a number that the user has said."""
    bounds = BOUND.findall(clause.lower())
    if len(bounds) != 1 or bounds[0][2] in UNITS:
        return
    word, digits, unit = bounds[0]
    sign, compare = COMPARED[word]
    if (limit := number_of(digits)) is None:
        return
    name = input_for(word.replace(" ", "_"), limit)
    if unit in nouns:
        if compare(len(rows), limit):
            yield Condition(f"len({code}) {sign} {name}", f"len({code})", len(rows))
        return
    tables = [cast("dict[str, Any]", row) for row in rows]
    words = " ".join(re.findall(r"\w+", clause.lower()))
    named = [figure for figure, names in _WHICH if re.search(rf"\b(?:{names})\b", words)]
    for field in tables[0]:
        values = [row.get(field) for row in tables]
        if field in {"id", "number"} or not all(map(is_number, values)):
            continue
        is_named = field.lower() in words.split()
        if not is_named and any(each.lower() in words.split() for each in tables[0]):
            continue
        for figure in named or _FIGURES:
            form, function = _FIGURES[figure]
            value = function(cast("list[float]", values))
            if compare(value, limit):
                figured = form.format(rows=code, field=json.dumps(field))
                yield Condition(f"{figured} {sign} {name}", figured, value)


def _stems(clause: str, value: dict[str, JSON]) -> str:
    """A clause with the names of fields in place of other forms of them, as `rain` for `rains`."""
    fields = {field.lower().removeprefix("is_") for field in value}
    return re.sub(
        r"\w+",
        lambda word: next(
            (name for name in fields if word[0].lower().startswith(name) and len(word[0]) <= len(name) + 3),
            word[0],
        ),
        clause,
    )
