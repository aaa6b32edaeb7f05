"""Arguments of the library that are of another type than wanted: an error that names the argument.

In: the name of an argument and what was given for it. Out: the same, or TypeError. Types that only a value
deep inside would miss are told at once, where the caller sees which of the arguments it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar, cast

T = TypeVar("T")


def wanted(name: str, given: object, kind: type[T], expected: str) -> T:
    """What is given for the argument `name`, which is to be of a type; `expected` is that type in words.

    >>> wanted("at", "7", int, "the number of an event")
    Traceback (most recent call last):
    TypeError: at must be the number of an event, not str
    """
    if not isinstance(given, kind):
        raise wrong(name, given, expected)
    return given


def wanted_path(name: str, given: object) -> Path:
    """The path that is given; one that no file can have is a ValueError."""
    if not isinstance(given, str | os.PathLike):
        raise wrong(name, given, "a path (str or Path)")
    path = Path(cast("str | os.PathLike[str]", given))
    try:
        is_name = b"\0" not in os.fsencode(path)
    except UnicodeError:
        is_name = False
    if not is_name:
        raise ValueError(f"{name} must be a path, and no file can be called {str(path)[:80]!a}")
    return path


def wanted_names(name: str, given: Mapping[str, T] | None) -> Mapping[str, T]:
    """The values by name that are given, None for none of them."""
    if given is None:
        return {}
    for key in cast("Iterable[object]", wanted(name, given, Mapping, "a dict of values by name")):
        if not isinstance(key, str):
            raise TypeError(f"{name} must have texts for keys, and not {key!r}")
    return given


def wanted_number(name: str, given: object, expected: str = "a number") -> float:
    """The number that is given."""
    if not isinstance(given, int | float):
        raise wrong(name, given, expected)
    return given


def wanted_function(name: str, given: T, expected: str = "a function") -> T:
    """The function that is given, None for none."""
    if given is not None and not callable(given):
        raise wrong(name, given, expected)
    return given


def wanted_list(name: str, given: object, of: str) -> Iterable[object]:
    """The list that is given, or another iterable."""
    if not isinstance(given, Iterable):
        raise wrong(name, given, f"a list of {of}")
    return cast("Iterable[object]", given)


def wrong(name: str, given: object, expected: str) -> TypeError:
    """That an argument is of a wrong type."""
    return TypeError(f"{name} must be {expected}, not {type(given).__name__}")
