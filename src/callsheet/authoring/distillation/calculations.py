"""Numbers that follow from others: sums of columns, and simple calculations.

In: numbers in each round, and leaves. Out: a leaf that gives all of them, if it is no coincidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations
from typing import Protocol, TypeVar, cast

from callsheet.authoring.distillation.leaves import Leaf, Source, is_number, leaves_of
from callsheet.ir import JSON

_LEAST_SUM = 10


class _Coded(Protocol):
    """Something with its code, and its value in each round."""

    @property
    def code(self) -> str: ...
    @property
    def values(self) -> tuple[JSON, ...]: ...


_Number = TypeVar("_Number", bound=_Coded)


def column_sums(value: JSON) -> Iterator[float]:
    """The sums of the columns of numbers in a value, except small ones."""
    for leaf in leaves_of(Source("", (value,))):
        table = leaf.values[0]
        if not isinstance(table, list) or len(table) < 2:
            continue
        rows = [row for row in table if isinstance(row, dict)]
        names = rows[0] if len(rows) == len(table) else ()
        for column in (table, *([row.get(name) for row in rows] for name in names)):
            if all(map(is_number, column)):
                total = sum(cast("list[float]", column))
                if abs(total) >= _LEAST_SUM:
                    yield total


_CALCULATIONS: tuple[tuple[str, Callable[[float, float], float]], ...] = (
    ("{} - {}", lambda a, b: a - b),
    ("{} + {}", lambda a, b: a + b),
    ("{} * {}", lambda a, b: a * b),
    ("round({} * (1 + {} / 100), 2)", lambda a, b: round(a * (1 + b / 100), 2)),
    ("round({} * (1 - {} / 100), 2)", lambda a, b: round(a * (1 - b / 100), 2)),
    ("round({} * (100 + {}) / 100, 2)", lambda a, b: round(a * (100 + b) / 100, 2)),
    ("round({} * (100 - {}) / 100, 2)", lambda a, b: round(a * (100 - b) / 100, 2)),
    ("round({} * {}, 2)", lambda a, b: round(a * b, 2)),
)
_SIGNS = (("more", "+"), ("less", "-"), ("times", "*"))
_MOST_NUMBERS, _PARTS = 40, 3
_LIKELY, _LIKELY_WITH_SAID, _LIKELY_WITH_WORD = 50, 8, 2
"""How many numbers of as many digits there have to be for each calculation that gives one of them."""


def calculated(values: tuple[JSON, ...], leaves: Sequence[Leaf], asked: frozenset[str]) -> Leaf | None:
    """Numbers that follow from two others in each round; None if in several ways, or perhaps by chance.

    It is no chance if the numbers have more digits than calculations could hit. A number that the user has
    said is there to be used, and `asked` has what the words want to be done with it.
    """
    if not all(map(is_number, values)):
        return None
    numbers = [leaf for leaf in leaves if all(map(is_number, leaf.values))][:_MOST_NUMBERS]
    differing = with_differences(
        numbers, lambda one, two, code, gone: Leaf(code, gone, False, (*one.conditions, *two.conditions))
    )
    return _of_pairs(values, permutations(numbers, 2), asked) or _of_pairs(values, differing, asked)


def _is_one_measure(one: str, two: str) -> bool:
    """Whether codes name the same field of two results.

    >>> _is_one_measure('before["litres"]', 'after["litres"]'), _is_one_measure("a", "b")
    (True, False)
    """
    fields = [re.search(r"\[\"\w+\"\]\Z", code) for code in (one, two)]
    return one != two and fields[0] is not None and fields[1] is not None and fields[0][0] == fields[1][0]


def with_differences(
    numbers: Sequence[_Number], made: Callable[[_Number, _Number, str, tuple[float, ...]], _Number]
) -> Iterator[tuple[_Number, _Number]]:
    """The difference of a measure in two results, which is what was used or grew, with each other number.

    `made` makes it, of the two, its code and its values.
    """
    for one, two in permutations(numbers, 2):
        if _is_one_measure(one.code, two.code):
            pairs = cast("Sequence[tuple[float, float]]", [*zip(one.values, two.values, strict=True)])
            gone = made(one, two, f"({one.code} - {two.code})", tuple(a - b for a, b in pairs))
            yield from ((gone, other) for other in numbers if other not in (one, two))


def _of_pairs(
    values: tuple[JSON, ...], tried: Iterable[tuple[Leaf, Leaf]], asked: frozenset[str]
) -> Leaf | None:
    """The calculation of a pair that gives the numbers; None if several do, or one perhaps by chance."""
    found: dict[str, Leaf] = {}
    hits: set[float] = set()
    digits = _digits(values[0])
    first = cast("float", values[0])
    for left, right in tried:
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
                is_given = left.is_given or right.is_given
                asks = (*left.conditions, *right.conditions)
                if left.code.startswith("("):
                    code, more = in_cents(code, values)
                    asks = (*asks, *more)
                found[code] = Leaf(code, values, is_given, asks)
    if len({*map(_either_way, found)}) != 1:
        return None
    best, *others = found.values()
    if "%" in _either_way(best.code):  # which differ where a half is rounded
        best = best._replace(conditions=(*best.conditions, *(f"{best.code} == {one.code}" for one in others)))
    factor = _LIKELY_WITH_SAID if best.is_given else _LIKELY
    if any(f" {sign} " in best.code and word in asked for word, sign in _SIGNS):
        factor = _LIKELY_WITH_WORD
    digits = sum(_digits(value) for value in {*map(str, values)})
    return best if len(hits) * factor <= 10**digits else None


def in_cents(code: str, values: Sequence[JSON]) -> tuple[str, tuple[str, ...]]:
    """A calculation as its recorded values are written, and what has to hold for it.

    Of values with two decimals at most nothing shows whether they were rounded: they are, and a value with
    more stops the plan.
    """
    if code.startswith("round(") or not all(
        isinstance(one, float) and round(one, 2) == one for one in values
    ):
        return code, ()
    return f"round({code}, 2)", (f"abs({code} - round({code}, 2)) < 1e-9",)


def _digits(value: JSON) -> int:
    """How many digits a number has that tell something."""
    return len(str(value).lstrip("-0.").replace(".", "").removesuffix("0"))


def _either_way(code: str) -> tuple[str, ...]:
    """A calculation without the order of its parts, or the way to write a share, which do not matter."""
    share = re.fullmatch(r"round\((.+) \* \((?:1|100) ([+-]) (.+?)(?: / 100\)|\) / 100), 2\)", code)
    if share is not None:
        return (*share.groups(), "%")
    parts = code.removeprefix("round(").removesuffix(", 2)").split(" ")
    return (code,) if "-" in parts or len(parts) != _PARTS else tuple(sorted(parts))
