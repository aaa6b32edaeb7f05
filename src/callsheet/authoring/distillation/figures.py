"""Figures about a list that a user asks for: how many items it has, their sum, mean, greatest and least.

In: a list in each round of a loop, its code, and which figures the user's words ask for. Out: the code of
each figure with its values, and the conditions without which it has none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from callsheet.ir import JSON

NAMES_OF_IDS = frozenset(("id", "number", "no", "key", "index", "code", "year", "zip", "phone"))
"""Fields whose numbers are names, with which nobody calculates."""
_ROUNDED = (None, 2, 1, 0)


def figures_of(
    code: str, tables: Sequence[list[JSON]], asked: frozenset[str]
) -> Iterator[tuple[str, tuple[JSON, ...], tuple[str, ...]]]:
    """The figures of a list in each round: code, values, conditions.

    >>> [*figures_of("prices", [[1, 2]], frozenset(["mean"]))][0]
    ('sum(prices) / len(prices)', (1.5,), ('len(prices) > 0',))
    """
    filled = (f"len({code}) > 0",)
    if "count" in asked:
        yield f"len({code})", tuple(len(table) for table in tables), ()
    if any(not table for table in tables):
        return
    for column, columns in _number_columns(code, tables):
        if "sum" in asked:
            yield from _each(f"sum({column})", [sum(values) for values in columns], ())
        if "mean" in asked:
            means = [sum(values) / len(values) for values in columns]
            yield from _each(f"sum({column}) / len({code})", means, filled)
        functions: tuple[tuple[str, Callable[..., float]], ...] = (("max", max), ("min", min))
        for name, function in functions:
            if name in asked:
                yield from _each(f"{name}({column})", [function(values) for values in columns], filled)


def _each(
    code: str, values: Sequence[float], conditions: tuple[str, ...]
) -> Iterator[tuple[str, tuple[JSON, ...], tuple[str, ...]]]:
    """A figure as it is, and rounded where it has places."""
    for places in _ROUNDED:
        if places is None:
            yield code, tuple(values), conditions
        elif any(isinstance(value, float) for value in values):
            rounded = tuple(round(value, places) if places else round(value) for value in values)
            yield f"round({code}, {places})" if places else f"round({code})", rounded, conditions
            yield f"format({code}, '.{places}f')", tuple(f"{v:.{places}f}" for v in values), conditions


def _number_columns(code: str, tables: Sequence[list[JSON]]) -> Iterator[tuple[str, list[list[float]]]]:
    """The numbers in lists, and the fields of numbers of their objects; no numbers that are names."""
    if all(is_number(value) for table in tables for value in table):
        yield code, [cast("list[float]", table) for table in tables]
        return
    if not all(isinstance(row, dict) for table in tables for row in table):
        return
    rows = [cast("dict[str, Any]", row) for table in tables for row in table]
    for name in rows[0]:
        if name.lower() not in NAMES_OF_IDS and all(is_number(row.get(name)) for row in rows):
            field = json.dumps(name, ensure_ascii=False)
            columns = [[cast("dict[str, Any]", row)[name] for row in table] for table in tables]
            yield f"[row[{field}] for row in {code}]", columns


def is_number(value: object) -> bool:
    """Whether a value is a number, and no flag."""
    return isinstance(value, int | float) and not isinstance(value, bool)
