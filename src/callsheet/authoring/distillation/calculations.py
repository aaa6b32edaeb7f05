"""Numbers that follow from others: sums of columns, figures that the user asks for, and simple calculations.

In: numbers in each round, and leaves. Out: an expression that gives all of them, if it is no coincidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import cast

from callsheet.authoring.distillation.figures import figures_of, is_number
from callsheet.authoring.distillation.leaves import (
    LEAST_SUM,
    Explained,
    Leaf,
    Source,
    columns_of,
    leaves_of,
)
from callsheet.ir import JSON

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?!\w|\.\d)")
_LEAST_WRITTEN = 2
"""The digits of a number in a text that is looked for in calculations."""
_COUNT = re.compile(r"count|total|number_of|size", re.IGNORECASE)


def column_sums(value: JSON) -> Iterator[float]:
    """The sums of the columns of numbers in a value, except small ones."""
    for _, _, columns in columns_of([*leaves_of(Source("", (value,), 0))]):
        if all(map(is_number, columns[0])):
            total = sum(cast("list[float]", columns[0]))
            if abs(total) >= LEAST_SUM:
                yield total


def written_sum(texts: tuple[str, ...], leaves: Sequence[Leaf]) -> Explained | None:
    """A text that is nothing but the sum of a column."""
    if not all(re.fullmatch(r"-?\d{2,15}", text) for text in texts):
        return None
    found = summed(tuple(map(int, texts)), leaves)
    return None if found is None else Explained(f"str({found.code})", found.used)


def summed(values: tuple[JSON, ...], leaves: Sequence[Leaf]) -> Explained | None:
    """A number that is the sum of a column, if it is no small one."""
    if not all(
        isinstance(v, int | float) and not isinstance(v, bool) and abs(v) >= LEAST_SUM for v in values
    ):
        return None
    for leaf, code, columns in columns_of(leaves):
        numbers = all(is_number(value) for column in columns for value in column)
        if numbers and tuple(sum(cast("list[float]", column)) for column in columns) == values:
            return Explained(f"sum({code})", (leaf.source,))
    return None


_CALCULATIONS: tuple[tuple[str, Callable[[float, float], float]], ...] = (
    ("{} - {}", lambda a, b: a - b),
    ("{} + {}", lambda a, b: a + b),
    ("{} * {}", lambda a, b: a * b),
    ("round({} * (1 + {} / 100), 2)", lambda a, b: round(a * (1 + b / 100), 2)),
    ("round({} * (1 - {} / 100), 2)", lambda a, b: round(a * (1 - b / 100), 2)),
    ("round({} * {}, 2)", lambda a, b: round(a * b, 2)),
)
_SIGNS = (("more", "+"), ("less", "-"), ("times", "*"))
_MOST_NUMBERS, _PARTS = 40, 3
_LIKELY, _LIKELY_WITH_SAID, _LIKELY_WITH_WORD = 50, 8, 2
"""How many numbers of as many digits there have to be for each calculation that gives one of them."""


def calculated(values: tuple[JSON, ...], leaves: Sequence[Leaf], asked: frozenset[str]) -> Explained | None:
    """Numbers that follow from two others in each round; None if in several ways, or perhaps by chance.

    It is no chance if the numbers have more digits than calculations could hit. A number that the user has
    said is there to be used, and `asked` has what the words want to be done with it.
    """
    if not all(map(is_number, values)):
        return None
    numbers = [leaf for leaf in leaves if all(map(is_number, leaf.values))][:_MOST_NUMBERS]
    found: dict[str, Explained] = {}
    hits: set[float] = set()
    digits = _digits(values[0])
    first = cast("float", values[0])
    for left, right in permutations(numbers, 2):
        pairs = [*zip(left.values, right.values, strict=True)]
        a, b = cast("tuple[float, float]", pairs[0])
        for form, function in _CALCULATIONS:
            result = function(a, b)
            if type(result) is type(first) and result > 0 and _digits(result) == digits:
                hits.add(result)
            if result == first and all(
                function(cast("float", one), cast("float", other)) == value
                for (one, other), value in zip(pairs, values, strict=True)
            ):
                code = form.format(left.code, right.code)
                conditions = (*left.conditions, *right.conditions)
                found[code] = Explained(code, (left.source, right.source), conditions)
                break
    if len({*map(_either_way, found)}) != 1:
        return None
    best = next(iter(found.values()))
    factor = _LIKELY_WITH_SAID if any(source.is_given for source in best.used) else _LIKELY
    if any(f" {sign} " in best.code and word in asked for word, sign in _SIGNS):
        factor = _LIKELY_WITH_WORD
    digits = sum(_digits(value) for value in {*map(str, values)})
    return best if len(hits) * factor <= 10**digits else None


def _digits(value: JSON) -> int:
    """How many digits a number has that tell something."""
    return len(str(value).lstrip("-0.").replace(".", "").removesuffix("0"))


def _either_way(code: str) -> tuple[str, ...]:
    """A calculation without the order of its parts, which a sum and a product do not have."""
    parts = code.removeprefix("round(").removesuffix(", 2)").split(" ")
    return (code,) if "-" in parts or len(parts) != _PARTS else tuple(sorted(parts))


def asked_leaves(leaves: Sequence[Leaf], asked: frozenset[str]) -> Iterator[Leaf]:
    """What the user has asked for about the lists: how many, their sum, and so on."""
    for leaf in leaves if asked else ():
        if all(isinstance(value, list) for value in leaf.values):
            tables = cast("tuple[list[JSON], ...]", leaf.values)
            for code, values, conditions in figures_of(leaf.code, tables, asked):
                yield Leaf(code, "", values, leaf.source, True, conditions)
        elif "count" in asked and _COUNT.search(leaf.key) and all(map(is_number, leaf.values)):
            yield leaf._replace(is_sure=True)


def numbers_in(text: str, leaves: Sequence[Leaf], asked: frozenset[str]) -> Iterator[Leaf]:
    """The numbers in a text that no data has, but a sum or a calculation gives."""
    known = {str(leaf.values[0]) for leaf in leaves if is_number(leaf.values[0])}
    for written in dict.fromkeys(_NUMBER.findall(text)):
        if written in known or len(written) < _LEAST_WRITTEN:
            continue
        number = float(written) if "." in written else int(written)
        found = summed((number,), leaves) or calculated((number,), leaves, asked)
        if found is not None and not any(source.listing for source in found.used):
            source, *others = found.used
            conditions = (*found.conditions, *(one for other in others for one in other.conditions))
            exact = found.code.removeprefix("round(").removesuffix(", 2)")
            if re.fullmatch(r"\d+\.\d\d", written):
                code = f"format({exact}, '.2f')"
                yield Leaf(code, "", (written,), source, True, conditions)
            else:
                yield Leaf(found.code, "", (number,), source, True, conditions)
