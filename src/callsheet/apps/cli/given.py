"""Parses `NAME=VALUE` arguments of the command line.

In: texts. Out: values, or CallsheetError (CFG011) that says which option is wrong.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from callsheet.diagnostics import CallsheetError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse_variables(given: Iterable[str], option: str = "--var") -> dict[str, Any]:
    """The variables of an option; raises CallsheetError (CFG011) for one that is none, or given twice.

    >>> parse_variables(["n=3", "city=Oslo", 'tags=["a"]', "empty="])
    {'n': 3, 'city': 'Oslo', 'tags': ['a'], 'empty': ''}
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise _wrong(f"{option} {text[:60]!r} has no =", f"write {option} name=value")
        name = check_name(option, name)
        if name in found:
            raise _wrong(f"{option} gives {name} twice", "give each variable once")
        found[name] = read_value(f"{option} {name}", value)
    return found


def check_name(option: str, given: str) -> str:
    """The name of a variable without `$`; raises CallsheetError (CFG011) for what is none."""
    name = given.strip().removeprefix("$")
    if not _NAME.match(name):
        raise _wrong(
            f"{option}: {name[:60]!r} is not a variable's name",
            "a name is made of ASCII letters, digits and _, without a digit first",
        )
    return name


def read_value(option: str, given: str) -> Any:
    """The JSON value that a text is, else the text; NaN and the infinities are texts."""
    twice: list[str] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in made if keys.count(key) > 1)
        return made

    from callsheet.ir.strict_json import finite, refuse_constant  # noqa: PLC0415 - not for --help

    text = _decoded(option, given)
    try:
        value = json.loads(
            text, parse_float=finite, parse_constant=refuse_constant, object_pairs_hook=as_dict
        )
    except (ValueError, RecursionError):
        return text
    if twice:
        raise _wrong(f"{option} gives the key {twice[0][:60]!r} twice", "give each key of an object once")
    return value


def _decoded(option: str, given: str) -> str:
    """The value as UTF-8 text, whatever the locale made of its bytes."""
    try:
        return os.fsencode(given).decode("utf-8")
    except UnicodeError:
        raise _wrong(f"the value of {option} is not UTF-8 text", "give it as UTF-8") from None


def _wrong(message: str, way_out: str) -> CallsheetError:
    return CallsheetError.single("CFG011", message, help=way_out)
