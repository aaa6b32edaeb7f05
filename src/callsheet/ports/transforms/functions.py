"""The query functions beyond those of JMESPath, on strings, numbers, lists and patterns, and their limits.

Patterns are matched by RE2, in time linear in the text. A null as first argument gives null.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern
from callsheet.machine.values import parse_json, read_number, to_text
from callsheet.ports.transforms import dates
from callsheet.ports.transforms.arithmetic import exact, plain, rounded
from callsheet.ports.transforms.work import Fault, TooMuchWork, Work

MAX_RANGE = 100_000


def lower(work: Work, text: str | None) -> JSON:
    """The text in lower case."""
    return _limited_text(work, text, None if text is None else text.lower())


def upper(work: Work, text: str | None) -> JSON:
    """The text in upper case."""
    return _limited_text(work, text, None if text is None else text.upper())


def trim(work: Work, text: str | None, characters: str | None = None) -> JSON:
    """The text without white space, or the given characters, at its ends."""
    return _limited_text(work, text, None if text is None else text.strip(characters))


def _limited_text(work: Work, text: str | None, text_made: str | None) -> JSON:
    work.charge_text(len(text or ""))
    return text_made


def split(work: Work, text: str | None, separator: str) -> JSON:
    """The parts of a text between the separators."""
    if not separator:
        raise Fault("the separator is empty")
    if text is None:
        return None
    work.charge_text(len(text))
    work.charge(text.count(separator))
    return list[JSON](text.split(separator))


def replace(work: Work, text: str | None, old: str, new: str) -> JSON:
    """The text with every `old` replaced by `new`."""
    if not old:
        raise Fault("the text to be replaced is empty")
    if text is None:
        return None
    work.charge_text(len(text))
    work.charge_text(text.count(old) * len(new))
    return text.replace(old, new)


def to_number(work: Work, value: JSON) -> JSON:
    """The value as a number, parsed if it is a string; null if it is not a number."""
    work.charge(1)
    return read_number(value)


def from_json(work: Work, text: str | None) -> JSON:
    """The value of a JSON text, null if it is invalid."""
    work.charge_text(16 * len(text or ""))
    return None if text is None else parse_json(text)[1]


def round_(work: Work, value: float | None, places: int = 0) -> JSON:
    """The number rounded to `places` decimal places, halves away from zero."""
    work.charge(1)
    if isinstance(places, float):
        raise Fault("the number of decimal places must be a whole number")
    return None if value is None else plain(rounded(exact(value), places))


def comparable(value: JSON) -> Any:
    """A hashable key that is equal for equal values."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    if isinstance(value, list):
        return tuple(comparable(item) for item in value)
    if isinstance(value, dict):
        return frozenset((key, comparable(item)) for key, item in value.items())
    return value


def unique(work: Work, items: list[JSON] | None) -> JSON:
    """The items without duplicates, each at its first position."""
    if items is None:
        return None
    work.charge_values([items])
    first: dict[Any, JSON] = {}
    for item in items:
        first.setdefault(comparable(item), item)
    return list(first.values())


def pairs(work: Work, value: dict[str, JSON] | None) -> JSON:
    """The fields of an object as a list of [key, value]."""
    if value is None:
        return None
    work.charge(len(value))
    return [[key, item] for key, item in value.items()]


def zip_(work: Work, *lists: list[JSON]) -> JSON:
    """Lists of the first items, the second items, and so on, as long as the shortest list."""
    work.charge(len(lists) * min(map(len, lists)))
    return [list(items) for items in zip(*lists, strict=False)]


def range_(work: Work, first: float, second: float | None = None, step: float = 1) -> JSON:
    """The integers from `first` up to `second` (excluded); from 0 up to `first` without `second`."""
    bounds = (0, first, step) if second is None else (first, second, step)
    if any(bound != int(bound) for bound in bounds):
        raise Fault("a range consists of whole numbers")
    start, stop, by = map(int, bounds)
    if by == 0:
        raise Fault("the step of a range cannot be 0")
    numbers = range(start, stop, by)
    if max(0, (stop - start) // by) > MAX_RANGE:
        raise Fault(f"a range has at most {MAX_RANGE:,} numbers")
    work.charge(len(numbers))
    return list[JSON](islice(numbers, MAX_RANGE))


def grouped(work: Work, items: list[JSON], keys: list[JSON]) -> JSON:
    """The items grouped by the text of their keys, in an object ordered by first appearance."""
    work.charge(len(items))
    groups: dict[str, list[JSON]] = {}
    for item, key in zip(items, keys, strict=True):
        name = "null" if key is None else to_text(key)
        groups.setdefault(name, []).append(item)
    return cast("dict[str, JSON]", groups)


MAX_PATTERN = 1_000
MAX_TEXT = 1_000_000
MAX_SECONDS = 10.0
"""The most seconds for one function: each match takes linear time, but there may be many matches."""
_MEMORY = 8 << 20
_SCANNED = 50_000


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern, memory=_MEMORY)
    except UnicodeEncodeError:
        raise Fault("the pattern contains half a character (a lone surrogate)") from None
    except PatternRejected as error:
        raise Fault(f"the pattern cannot be read: {error}") from None


def compiled(pattern: str) -> Any:
    """The compiled pattern; raises Fault if it is invalid or too long."""
    if len(pattern) > MAX_PATTERN:
        raise Fault(f"a pattern has at most {MAX_PATTERN:,} characters")
    return _compiled(pattern)


def _matches(work: Work, text: str, pattern: str) -> Iterator[Any]:
    regex = compiled(pattern)
    if len(text) > MAX_TEXT:
        raise Fault(f"a text for a pattern has at most {MAX_TEXT:,} characters")
    work.charge_text(len(text))
    end = time.monotonic() + MAX_SECONDS
    try:
        for one_match in regex.finditer(text):
            work.charge(1 + (len(text) - one_match.end()) // _SCANNED)
            yield one_match
            if time.monotonic() > end:
                raise TooMuchWork(f"the pattern took longer than {MAX_SECONDS:g} s")
    except UnicodeEncodeError:
        raise Fault("the text contains half a character (a lone surrogate)") from None


def _match_value(one_match: Any) -> JSON:
    """The value of a match: its named groups as an object, its groups, the only group, or the whole match."""
    named: dict[str, JSON] = one_match.groupdict()
    groups: tuple[str | None, ...] = one_match.groups()
    if named:
        return dict(sorted(named.items(), key=lambda pair: one_match.re.groupindex[pair[0]]))
    if len(groups) == 1:
        return groups[0]
    return list(groups) if groups else cast("str", one_match.group())


def match(work: Work, text: str | None, pattern: str) -> JSON:
    """Whether the pattern matches anywhere in the text."""
    return text is not None and next(_matches(work, text, pattern), None) is not None


def extract(work: Work, text: str | None, pattern: str) -> JSON:
    """The value of the first match, null if there is none."""
    first_match = None if text is None else next(_matches(work, text, pattern), None)
    return None if first_match is None else _match_value(first_match)


def extract_all(work: Work, text: str | None, pattern: str) -> JSON:
    """The values of all matches."""
    return None if text is None else [_match_value(found) for found in _matches(work, text, pattern)]


def _pieces(work: Work, text: str, pattern: str) -> list[str]:
    pieces: list[str] = []
    start = 0
    for one_match in _matches(work, text, pattern):
        pieces.append(text[start : one_match.start()])
        start = one_match.end()
    return [*pieces, text[start:]]


def split_pattern(work: Work, text: str | None, pattern: str) -> JSON:
    """The parts of a text between the matches."""
    return None if text is None else list[JSON](_pieces(work, text, pattern))


def replace_pattern(work: Work, text: str | None, pattern: str, new: str) -> JSON:
    """The text with every match replaced by `new`, taken literally."""
    if text is None:
        return None
    pieces = _pieces(work, text, pattern)
    work.charge_text(len(text) + len(new) * len(pieces))
    return new.join(pieces)


Kinds = frozenset[str]

_TEXT = frozenset({"string"})
_MAYBE_TEXT = frozenset({"string", "null"})
_NUMBER = frozenset({"number"})
_MAYBE_NUMBER = frozenset({"number", "null"})
_LIST = frozenset({"array"})
_ANY = frozenset({"string", "number", "boolean", "array", "object", "null"})
_EXPRESSION = frozenset({"expression"})


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the kinds that each argument may have, and how many are required.

    `pattern` and `format` are the positions of arguments that are validated before the run if they are
    literal; `more` means that the last kind may be repeated.
    """

    call: Callable[..., Any]
    kinds: tuple[Kinds, ...]
    least: int
    more: bool = False
    pattern: int | None = None
    format: int | None = None

    def check_count(self, name: str, count: int) -> None:
        """Raise Fault if the function does not take this number of arguments."""
        most = len(self.kinds)
        if count < self.least or (count > most and not self.more):
            wanted = plural(most) if most == self.least else f"{self.least} to {plural(most)}"
            wanted = f"at least {plural(self.least)}" if self.more else wanted
            raise Fault(f"{name}() takes {wanted}, not {count}")

    def check_literal(self, place: int, literal: object) -> None:
        """Raise Fault for an invalid literal pattern or date format."""
        if isinstance(literal, str) and place == self.pattern:
            compiled(literal)
        elif isinstance(literal, str) and place == self.format:
            dates.parts_of(literal)

    def check_kinds(self, name: str, given: list[Any]) -> None:
        """Raise Fault for an argument of the wrong kind."""
        for place, value in enumerate(given):
            kinds = self.kinds[min(place, len(self.kinds) - 1)]
            kind = kind_of(value)
            if kind not in kinds:
                raise Fault(f"argument {place + 1} of {name}() is {kind}, not {' or '.join(sorted(kinds))}")


def plural(count: int) -> str:
    """A number of arguments, as text."""
    return "1 argument" if count == 1 else f"{count} arguments"


def kind_of(value: object) -> str:
    """The JMESPath type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return _KINDS.get(type(value), "null" if value is None else "expression")


_KINDS: dict[type, str] = {str: "string", int: "number", float: "number", list: "array", dict: "object"}


def _group_by(work: Work, items: list[Any] | None, expression: Any) -> Any:
    if items is None:
        return None
    keys = [expression.visit(expression.expression, item) for item in items]
    work.charge_values(keys)
    return grouped(work, items, keys)


FUNCTIONS: dict[str, Function] = {
    "match": Function(match, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "extract": Function(extract, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "extract_all": Function(extract_all, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "split_pattern": Function(split_pattern, (_MAYBE_TEXT, _TEXT), 2, pattern=1),
    "replace_pattern": Function(replace_pattern, (_MAYBE_TEXT, _TEXT, _TEXT), 3, pattern=1),
    "split": Function(split, (_MAYBE_TEXT, _TEXT), 2),
    "replace": Function(replace, (_MAYBE_TEXT, _TEXT, _TEXT), 3),
    "lower": Function(lower, (_MAYBE_TEXT,), 1),
    "upper": Function(upper, (_MAYBE_TEXT,), 1),
    "trim": Function(trim, (_MAYBE_TEXT, _TEXT), 1),
    "to_number": Function(to_number, (_ANY,), 1),
    "from_json": Function(from_json, (_MAYBE_TEXT,), 1),
    "round": Function(round_, (_MAYBE_NUMBER, _NUMBER), 1),
    "parse_date": Function(dates.parse_date, (_ANY, _TEXT), 1, format=1),
    "format_date": Function(dates.format_date, (_ANY, _TEXT), 2, format=1),
    "days_between": Function(dates.days_between, (_ANY, _ANY), 2),
    "add_days": Function(dates.add_days, (_ANY, _NUMBER), 2),
    "unique": Function(unique, (_LIST | {"null"},), 1),
    "group_by": Function(_group_by, (_LIST | {"null"}, _EXPRESSION), 2),
    "items": Function(pairs, (frozenset({"object", "null"}),), 1),
    "zip": Function(zip_, (_LIST, _LIST), 2, more=True),
    "range": Function(range_, (_NUMBER, _NUMBER, _NUMBER), 1),
}
