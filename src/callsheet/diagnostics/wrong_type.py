"""Arguments and settings of another type than wanted: errors that name the argument or the field.

Types that only a value deep inside would miss are told at once, where the caller sees which of the arguments
it was. In a field, what says the same in another type is converted: a text for a path or a member of an enum,
a list for a tuple.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

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


_WORDS: Mapping[object, str] = {
    str: "a text",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    Path: "a path (str or Path)",
    NoneType: "None",
}
_LISTS = (tuple, frozenset)
_NO_HINTS: Mapping[str, Any] = {}


def check_fields(settings: Any, *, positive: Collection[str] = (), signed: Collection[str] = ()) -> None:
    """Check all fields; the numbers in `positive` must be more than 0, those in `signed` may be less.

    The default of a field fits; if all are, the types of the fields are not even read. Raises TypeError for a
    value of another type, ValueError for one that is none of the choices, for such a number or one that is
    not finite, and for a path that no file can have.
    """
    made_by: Any = cast("Any", type(settings)).__init__
    defaults: Mapping[str, Any] = made_by.__kwdefaults__ or {}
    names = [name for name in made_by.__annotations__ if name != "return"]
    given_by_name = {name: getattr(settings, name) for name in names}
    chosen = {name: each for name, each in given_by_name.items() if each is not defaults.get(name, names)}
    hints = _hints(cast("Any", type(settings))) if chosen else _NO_HINTS
    for name, given in chosen.items():
        fitting = _fitting(name, given, hints[name])
        if fitting is not given:
            object.__setattr__(settings, name, fitting)
        if isinstance(fitting, int | float) and not isinstance(fitting, bool):
            if name not in signed and fitting < 0:
                raise ValueError(f"{name} must not be negative, and is {fitting}")
            if name in positive and not fitting > 0:
                raise ValueError(f"{name} must be more than 0, and is {fitting}")


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _fitting(name: str, given: Any, hint: Any) -> Any:
    """The value, as the type that is declared for it; a type that is not known here takes anything."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _fitting_one(name, given, get_args(hint))
    if origin is Literal:
        if given not in get_args(hint):
            raise ValueError(f"{name} must be {_choices(get_args(hint))}, not {given!r}")
        return given
    if origin in _LISTS:
        return _fitting_list(name, given, hint)
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _fitting_mapping(name, given, hint)
    if not isinstance(hint, type) or hint is object:
        return given
    if hint is Path:
        return wanted_path(name, given)
    kind: type[Any] = hint
    if hint is float:
        return _number(name, given, int | float, "a number")
    if hint is int:
        return _number(name, given, int, "a whole number")
    if issubclass(kind, Enum) and isinstance(given, str):
        values: list[object] = [member.value for member in kind]
        if given not in values:
            raise ValueError(f"{name} must be {_choices(values)}, not {given!r}")
        return kind(given)
    if not isinstance(given, kind):
        raise wrong(name, given, _WORDS.get(kind, f"{kind.__name__}(…)"))
    return given


def _fitting_one(name: str, given: Any, hints: tuple[Any, ...]) -> Any:
    """The value as one of several types; the error is that of the first, which is what settings ask for."""
    errors: list[TypeError | ValueError] = []
    for hint in hints:
        try:
            return _fitting(name, given, hint)
        except (TypeError, ValueError) as error:
            errors.append(error)
    told = [error for error in errors if isinstance(error, ValueError)] or errors
    if len(told) == len(hints):
        words = " or ".join(_WORDS.get(hint) or getattr(hint, "__name__", str(hint)) for hint in hints)
        raise wrong(name, given, words)
    raise told[0]


def _fitting_list(name: str, given: Any, hint: Any) -> Any:
    kind: Any = get_origin(hint)
    if isinstance(given, str | bytes) or not isinstance(given, Collection) or isinstance(given, Mapping):
        raise wrong(name, cast("object", given), "a list")
    listed, of = cast("Collection[Any]", given), get_args(hint)[0]
    found = [_fitting(f"each of {name}", each, of) for each in listed]
    return listed if isinstance(listed, kind) and all(map(_is, found, listed)) else kind(found)


def _fitting_mapping(name: str, given: Any, hint: Any) -> Any:
    if not isinstance(given, Mapping):
        raise wrong(name, given, "a dict of values by name")
    key, value = get_args(hint)
    named = cast("Mapping[Any, Any]", given)
    rows = {
        _fitting(f"each name in {name}", own, key): _fitting(f"{name}[{own!r}]", each, value)
        for own, each in named.items()
    }
    return named if all(rows[own] is each for own, each in named.items()) else rows


def _number(name: str, given: Any, kind: Any, expected: str) -> Any:
    if isinstance(given, bool) or not isinstance(given, kind):
        raise wrong(name, given, expected)
    if not -math.inf < given < math.inf:
        raise ValueError(f"{name} must be a finite number, and is {given}")
    return given


def _choices(values: Collection[Any]) -> str:
    return " or ".join("None" if value is None else repr(value) for value in values)


def _is(one: object, other: object) -> bool:
    return one is other
