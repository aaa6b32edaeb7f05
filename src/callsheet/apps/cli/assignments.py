"""Parses `NAME=VALUE` arguments of the command line.

Input: texts. Output: values, or CallsheetError (CFG011) with the name of the option.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from callsheet.diagnostics import CallsheetError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def parse_variables(assignments: Iterable[str], option: str = "--var") -> dict[str, Any]:
    """The variables of an option by name. Raises CallsheetError (CFG011) for an invalid or repeated one.

    >>> parse_variables(["n=3", "city=Oslo", 'tags=["a"]', "empty="])
    {'n': 3, 'city': 'Oslo', 'tags': ['a'], 'empty': ''}
    """
    values: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals:
            raise _error(f"{option} {text[:60]!r} has no =", f"write {option} name=value")
        name = parse_name(option, name)
        if name in values:
            raise _error(f"{option} gives {name} twice", "give each variable once")
        values[name] = parse_value(f"{option} {name}", value)
    return values


def parse_name(option: str, text: str) -> str:
    """The name of a variable without `$`. Raises CallsheetError (CFG011) for an invalid name."""
    name = text.strip().removeprefix("$")
    if not _NAME.match(name):
        raise _error(
            f"{option}: {name[:60]!r} is not a variable name",
            "a name consists of ASCII letters, digits and _, and does not start with a digit",
        )
    return name


def parse_value(option: str, raw: str) -> Any:
    """The JSON value of a text, otherwise the text itself; NaN and infinities are texts."""
    twice: list[str] = []

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            keys = [key for key, _ in pairs]
            twice.extend(key for key in parsed if keys.count(key) > 1)
        return parsed

    from callsheet.ir.strict_json import finite, refuse_constant  # noqa: PLC0415 - not for --help

    text = _decoded(option, raw)
    try:
        value = json.loads(
            text, parse_float=finite, parse_constant=refuse_constant, object_pairs_hook=as_dict
        )
    except (ValueError, RecursionError):
        return text
    if twice:
        raise _error(f"{option} gives the key {twice[0][:60]!r} twice", "give each key of an object once")
    return value


def _decoded(option: str, raw: str) -> str:
    """The value as UTF-8 text, independent of the locale."""
    try:
        return os.fsencode(raw).decode("utf-8")
    except UnicodeError:
        raise _error(f"the value of {option} is not UTF-8 text", "encode it as UTF-8") from None


def _error(message: str, help_text: str) -> CallsheetError:
    return CallsheetError.single("CFG011", message, help=help_text)
