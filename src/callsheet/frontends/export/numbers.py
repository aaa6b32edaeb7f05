"""The grammar of whole and decimal numbers within bounds.

In: the bounds of a JSON schema. Out: a node that matches only numbers within them, not always all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.frontends.export.rules import Chars, Many, Node, Text, chars, choice, optional, seq

_DIGIT = chars("0-9")
_BIGGEST = 10**9 - 1
"""The largest whole part of a number without a bound: nine digits."""


def integers(low: int | None, high: int | None) -> Node | None:
    """The whole numbers from `low` to `high`; None if there are none.

    >>> integers(0, 9)
    Chars(ranges=((48, 57),), outside=False)
    """
    first = low if low is not None else min(-_BIGGEST, _BIGGEST if high is None else high - _BIGGEST)
    last = high if high is not None else max(_BIGGEST, first + _BIGGEST)
    if first > last:
        return None
    negative = choice(*_from_to(max(1, -last), -first)) if first < 0 else None
    positive = choice(*_from_to(max(0, first), last)) if last >= 0 else None
    return choice(None if negative is None else seq("-", negative), positive)


def numbers(schema: Mapping[str, Any]) -> Node | None:
    """Numbers within the bounds of a schema, with up to six decimals."""
    low, is_above = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, _ = _bound(schema, "maximum", "exclusiveMaximum", min)
    some = Many(_DIGIT, 1, 6)
    if low is None and high is None:
        return seq(optional(seq("-")), integers(0, None) or "0", optional(seq(".", some)))
    first = None if low is None else math.ceil(low)
    last = None if high is None else math.floor(high) - 1
    above = integers(max(0, (first or 0) + is_above), last) if last is None or last >= 0 else None
    below = None
    if first is None or first < 0:
        below = integers(max(0, -last) if last is not None else 0, None if first is None else -first - 1)
    alternatives = choice(
        whole_numbers(schema),
        None if above is None else seq(above, ".", some),
        seq(str(first), ".", _not_zero()) if is_above and 0 <= (first or 0) <= (last or 0) else None,
        None if below is None else seq("-", below, ".", some),
    )
    if alternatives is None and low is not None and high is not None and low < high:
        return Text(repr((low + high) / 2))
    return alternatives


def whole_numbers(schema: Mapping[str, Any]) -> Node | None:
    """Whole numbers within the bounds of a schema."""
    low, is_above = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_below = _bound(schema, "maximum", "exclusiveMaximum", min)
    first = None if low is None else math.floor(low) + 1 if is_above else math.ceil(low)
    last = None if high is None else math.ceil(high) - 1 if is_below else math.floor(high)
    return integers(first, last)


def _bound(schema: Mapping[str, Any], name: str, exclusive: str, pick: Any) -> tuple[float | None, bool]:
    """The stricter bound, and whether it is exclusive."""
    bounds = [
        (value, key == exclusive)
        for key in (name, exclusive)
        if isinstance(value := schema.get(key), int | float) and not isinstance(value, bool)
    ]
    if not bounds:
        return None, False
    value = pick(bound for bound, _ in bounds)
    return value, any(is_out for bound, is_out in bounds if bound == value)


def _not_zero() -> Node:
    """Decimals that are not all zero."""
    return seq(Many(_DIGIT, 0, 5), chars("1-9"))


def _from_to(first: int, last: int) -> Iterator[Node]:
    """The numbers from `first` to `last`, neither below 0, by their number of digits."""
    full: list[int] = []
    for length in range(len(str(first)), len(str(last)) + 1):
        floor, ceiling = 10 ** (length - 1) if length > 1 else 0, 10**length - 1
        least, most = max(first, floor), min(last, ceiling)
        if length > 1 and (least, most) == (floor, ceiling):
            full.append(length - 1)
        elif least <= most:
            yield from _same_length(str(least), str(most))
    if full:
        yield seq(chars("1-9"), Many(_DIGIT, full[0], full[-1]))


def _same_length(first: str, last: str) -> Iterator[Node]:
    if not first:
        yield Text("")
        return
    rest = len(first) - 1
    nines, zeros = "9" * rest, "0" * rest
    if first[1:] == zeros and last[1:] == nines:
        yield seq(_digits(first[0], last[0]), _any(rest))
    elif first[0] == last[0]:
        inner = choice(*_same_length(first[1:], last[1:]))
        if inner is not None:
            yield seq(first[0], inner)
    else:
        yield from _same_length(first, first[0] + nines)
        low, high = chr(ord(first[0]) + 1), chr(ord(last[0]) - 1)
        if low <= high:
            yield seq(_digits(low, high), _any(rest))
        yield from _same_length(last[0] + zeros, last)


def _digits(first: str, last: str) -> Node:
    return Text(first) if first == last else Chars(((ord(first), ord(last)),))


def _any(count: int) -> Node:
    return Text("") if not count else _DIGIT if count == 1 else Many(_DIGIT, count, count)
