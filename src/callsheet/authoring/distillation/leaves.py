"""The data that expressions may use, and all that can be reached in it: fields, only items, columns, lines.

In: sources, which have a value in each round of a loop. Out: leaves, with their code and their values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from callsheet.ir import JSON

_DEEPEST = 6
LEAST_SUM = 10
NAMES_OF_IDS = frozenset(("id", "number", "no", "key", "index", "code", "year", "zip", "phone"))
"""Fields whose numbers are names, with which nobody calculates."""
_LABELLED = re.compile(r"^(\w[\w ]{0,30}): +(\S.*?)\s*$", re.MULTILINE)


def is_number(value: object) -> bool:
    """Whether a value is a number, and no flag."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Source(NamedTuple):
    """Data that an expression may use: its code, its value in each round, and the list that a loop goes over.

    `rank` says how near it is: of several explanations the nearest counts. `is_sure` is whether the user has
    asked for it, so that an equal value is no coincidence, however short it is. `asked` are the texts in the
    arguments of the call that gave it, which such an answer repeats. `is_given` is whether the user has said
    it, `is_chosen` whether the user's words pick it from a list.
    """

    code: str
    values: tuple[JSON, ...]
    rank: int
    listing: str = ""
    is_sure: bool = False
    asked: frozenset[str] = frozenset()
    is_given: bool = False
    is_chosen: bool = False
    conditions: tuple[str, ...] = ()


class Explained(NamedTuple):
    """An expression, the sources that it uses, and the conditions without which it is not known to hold.

    `is_only` is whether it takes the only item of a list, which a loop over the list might have done, too.
    """

    code: str
    used: tuple[Source, ...]
    conditions: tuple[str, ...] = ()
    is_only: bool = False


class Leaf(NamedTuple):
    """What can be reached in a source: its code, the name of its field, and its value in each round.

    `is_sure` and `conditions` are those of a source, and of what was done to get here. `is_only` is whether
    that took the only item of a list.
    """

    code: str
    key: str
    values: tuple[JSON, ...]
    source: Source
    is_sure: bool = False
    conditions: tuple[str, ...] = ()
    is_only: bool = False


def is_filled(code: str) -> str:
    """The condition that a list has something in it."""
    return f"len({code}) > 0"


def leaves_of(source: Source) -> Iterator[Leaf]:
    """All that can be reached in the values of a source."""
    for leaf in _leaves_below(source.code, "", source.values, source, 0):
        yield leaf._replace(is_sure=source.is_sure)


def _leaves_below(
    code: str, key: str, values: tuple[JSON, ...], source: Source, depth: int
) -> Iterator[Leaf]:
    """What can be reached in the values of all rounds alike: whole values, fields of objects, only items."""
    yield Leaf(code, key, values, source)
    first = values[0]
    is_one = all(isinstance(value, list) and len(value) == 1 for value in values)
    if is_one and depth < _DEEPEST and not source.is_chosen:
        only = tuple(cast("list[JSON]", value)[0] for value in values)
        for leaf in _leaves_below(f"{code}[0]", key, only, source, depth + 1):
            yield leaf._replace(conditions=(f"len({code}) == 1", *leaf.conditions), is_only=True)
    if depth < _DEEPEST and isinstance(first, dict):
        for name in first:
            if all(isinstance(value, dict) and name in value for value in values):
                below = tuple(cast("dict[str, JSON]", value)[name] for value in values)
                quoted = json.dumps(name, ensure_ascii=False)
                yield from _leaves_below(f"{code}[{quoted}]", name, below, source, depth + 1)


def columns_of(
    leaves: Sequence[Leaf], *, of_one: bool = False
) -> Iterator[tuple[Leaf, str, tuple[list[JSON], ...]]]:
    """The columns of tables: for each list of several objects its fields, and lists of plain values.

    `of_one` is whether a list that the user's words choose may have one item.
    """
    for leaf in leaves:
        least = 1 if of_one and leaf.source.is_chosen else 2
        if not all(isinstance(value, list) and len(value) >= least for value in leaf.values):
            continue
        tables = cast("tuple[list[JSON], ...]", leaf.values)
        yield leaf, leaf.code, tables
        first = tables[0][0]
        for name in first if isinstance(first, dict) else ():
            rows = [[row.get(name) if isinstance(row, dict) else None for row in table] for table in tables]
            code = f"[row[{json.dumps(name, ensure_ascii=False)}] for row in {leaf.code}]"
            if all(value is not None for row in rows for value in row):
                yield leaf, code, tuple(rows)
