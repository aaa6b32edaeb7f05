"""Durations as people write and read them: `90s`, `12h`, `1d 6h`.

In: a number or a text. Out: seconds; and the other way round, what a person says for so many seconds.
"""

from __future__ import annotations

import re
from typing import Any

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(?:\s*\d+(?:\.\d+)?\s*[smhdw])+\s*", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)


def read_duration(value: Any) -> float | None:
    """The seconds that a number or a text such as `90s`, `12h` or `1d 6h` says; None for anything else.

    >>> read_duration("1d 6h"), read_duration(90), read_duration("90"), read_duration("later")
    (108000.0, 90.0, 90.0, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if abs(value) < 1e15 else None
    if not isinstance(value, str) or len(value) > 60:
        return None
    text = value.strip().lower()
    if text.isascii() and text.isdigit():
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def in_words(seconds: float) -> str:
    """A duration as a person says it.

    >>> in_words(129600), in_words(90), in_words(0.5)
    ('1d 12h', '1m 30s', '0.5s')
    """
    if seconds < 1 or seconds != int(seconds):
        return f"{seconds:g}s"
    parts: list[str] = []
    rest = int(seconds)
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts)
