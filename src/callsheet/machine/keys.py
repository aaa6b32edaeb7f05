"""The names of calls, `[rN/]step[@visit].item.attempt`: how a step stands in them, and taken apart.

An id that would read as something else there (JSON plans may name a step `r2/x` or `a@3`) stands
with `%25`, `%2F` and `%40` for its `%`, `/` and `@`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_AMBIGUOUS = re.compile(r"[@%]|^r[0-9]+/")
_ESCAPES = {"%": "%25", "/": "%2F", "@": "%40"}


@dataclass(frozen=True, slots=True)
class Key:
    """A call's name in parts. `generation` counts re-plans from 0, `visit` and `attempt` from 1."""

    generation: int
    step: str
    visit: int
    index: int
    attempt: int


def name_in_key(step: str) -> str:
    """A step's id as it stands in keys.

    >>> name_in_key("S3"), name_in_key("a/b"), name_in_key("r2/a@b")
    ('S3', 'a/b', 'r2%2Fa%40b')
    """
    if _AMBIGUOUS.search(step) is None:
        return step
    return "".join(_ESCAPES.get(char, char) for char in step)


def _step_named(name: str) -> str:
    if "%" not in name:
        return name
    return name.replace("%40", "@").replace("%2F", "/").replace("%25", "%")


def step_of(key: str) -> str:
    """The step of a key alone.

    >>> step_of("r2/S3@4.7.2")
    'S3'
    """
    return place_of_key(key)[0]


def place_of_key(key: str) -> tuple[str, int, int]:
    """The step, item and attempt of a key.

    >>> place_of_key("r2/S3@4.7.2")
    ('S3', 7, 2)
    """
    place, index, attempt = key.rsplit(".", 2)
    if "/" in place or "@" in place or "%" in place:
        place = parse_key(key).step
    return place, int(index), int(attempt)


def parse_key(key: str) -> Key:
    """The parts of a key that a machine made.

    >>> parse_key("S3.0.1")
    Key(generation=0, step='S3', visit=1, index=0, attempt=1)
    >>> parse_key("r2/S3@4.7.2")
    Key(generation=2, step='S3', visit=4, index=7, attempt=2)
    >>> parse_key("r2%2Fx.0.1").step
    'r2/x'
    """
    place, index, attempt = key.rsplit(".", 2)
    generation = 0
    if place[0] == "r" and "/" in place:
        number, _, rest = place[1:].partition("/")
        if number.isascii() and number.isdigit():
            generation, place = int(number), rest
    step, at, visit = place.rpartition("@")
    if not at:
        step, visit = place, "1"
    return Key(generation, _step_named(step), int(visit), int(index), int(attempt))
