"""What the numbers, times and dates of a goal become in a plan: other units, other forms.

Pure. In: a part of a value, and the numbers that were told. Out: whether it is made of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from callsheet import lazy

_TIMES = lazy.pattern(r"(?:\d{4}-\d\d-\d\d)?(?:(?:^|T)\d\d?:\d\d(?::\d\d)?)?", re.ASCII)
"""A date, a time of day, or both."""
NUMBER = lazy.pattern(r"\d+(?:\.\d+)?", re.ASCII)
_LAST_MINUTE, _NOON = "23:59", 12
DATE = lazy.pattern(r"\d{4}-\d\d-\d\d(?!\d)", re.ASCII)


def is_date(text: str) -> bool:
    """Whether a text is a date, which identifies no thing."""
    return len(text) == len("2026-01-01") and DATE.match(text) is not None


def is_of(part: str, numbers: Collection[float]) -> bool:
    """Whether a time or date is made of these numbers, or a number of one of them (see `ways`).

    A month may have been said as a word, an hour of the afternoon by half the day; the last minute of a day
    is that of any day.

    >>> is_of("07:15", {7, 15}), is_of("2026-05-04", {4, 2026}), is_of("2026-05-04", {4, 2025})
    (True, True, False)
    >>> is_of("17:30", {5, 30}), is_of("23:59:59", {}), is_of("90", {1.5}), is_of("91", {1.5})
    (True, True, True, False)
    """
    if not _TIMES.fullmatch(part):
        return NUMBER.fullmatch(part) is not None and any(float(part) in ways(one) for one in numbers)
    date, _, time = part.rpartition("T") if "T" in part else (part, "", "") if "-" in part else ("", "", part)
    hour, *rest = [0] if not time or time.startswith(_LAST_MINUTE) else map(int, time.split(":"))
    is_told = hour in numbers or (hour > _NOON and hour - _NOON in numbers)
    stated = [*map(int, filter(None, date.split("-")[::2])), *rest]
    return (is_told or not hour) and all(one in numbers for one in stated if one)


def ways(number: float) -> Iterator[float]:
    """What a number of a goal may become in a plan: an hour of the afternoon, a factor, a smaller unit."""
    yield from (number, number + 12, number / 100, number * 60, number * 3_600, number * 100, number * 1_000)
    yield from (round(1 + number / 100, 6), round(1 - number / 100, 6))
