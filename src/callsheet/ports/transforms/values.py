"""Query functions for strings, numbers and lists. A null as first argument gives null."""

from __future__ import annotations

from itertools import islice
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.machine.values import parse_json, read_number, to_text
from callsheet.ports.transforms.fault import Fault
from callsheet.ports.transforms.numbers import exact, plain, rounded
from callsheet.ports.transforms.work import Work

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
