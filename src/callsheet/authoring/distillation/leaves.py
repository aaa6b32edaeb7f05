"""The data that expressions may use, and all that can be reached in it: fields, only items, columns, lines.

In: sources, which have a value in each round of a loop. Out: leaves, with their code and their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from callsheet.ir import JSON

_DEEPEST = 6
NAMES_OF_IDS = frozenset(("id", "number", "no", "key", "index", "code", "year", "zip", "phone"))
"""Fields whose numbers are names, with which nobody calculates."""


_LARGEST, _LONGEST = 1e100, 30


def is_number(value: object) -> bool:
    """Whether a value is a number with which anything can be calculated, and no flag."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


def number_of(digits: str) -> int | float | None:
    """The number that is written with digits; None if that is none, or too large.

    >>> number_of("12"), number_of("1.5"), number_of("²"), number_of("9" * 5000)
    (12, 1.5, None, None)
    """
    if len(digits) > _LONGEST or re.fullmatch(r"\d+(?:\.\d+)?", digits) is None:
        return None
    return float(digits) if "." in digits else int(digits)


class Source(NamedTuple):
    """Data that an expression may use: its code, and its value in each round.

    `is_given` is whether the user has said it.
    """

    code: str
    values: tuple[JSON, ...]
    is_given: bool = False


class Leaf(NamedTuple):
    """What can be reached in a source: its code, its value in each round, and what has to hold for it."""

    code: str
    values: tuple[JSON, ...]
    is_given: bool
    conditions: tuple[str, ...] = ()


def leaves_of(source: Source) -> Iterator[Leaf]:
    """All that can be reached in a source in each round alike: the value, fields of objects, only items."""
    yield from _leaves_below(source, 0)


def _leaves_below(whole: Source, depth: int) -> Iterator[Leaf]:
    code, values, is_given = whole
    yield Leaf(code, values, is_given)
    first = values[0]
    if depth == _DEEPEST:
        return
    if all(isinstance(value, list) and len(value) == 1 for value in values):
        only = tuple(cast("list[JSON]", value)[0] for value in values)
        for leaf in _leaves_below(Source(f"{code}[0]", only, is_given), depth + 1):
            yield leaf._replace(conditions=(f"len({code}) == 1", *leaf.conditions))
    for name in first if isinstance(first, dict) else ():
        if all(isinstance(value, dict) and name in value for value in values):
            below = tuple(cast("dict[str, JSON]", value)[name] for value in values)
            quoted = json.dumps(name, ensure_ascii=False)
            yield from _leaves_below(Source(f"{code}[{quoted}]", below, is_given), depth + 1)
