"""The names of functions and methods of expressions; what they do is in `machine.expressions`."""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final = frozenset(
    {
        *("len", "sum", "min", "max", "sorted", "any", "all", "zip", "enumerate", "range", "reversed"),
        *("round", "abs", "int", "float", "str", "bool", "list", "tuple", "dict", "set"),
        *("date", "datetime", "duration", "now", "today", "match", "find_all", "json", "FAILED", "IS_EMPTY"),
        *("pystr", "pyrepr"),
    }
)
"""The functions of expressions."""

VERSION_1: Final = frozenset(
    f"v1.{name}"
    for name in (
        *("value", "path", "text", "joined", "elements", "empty", "equal", "contains"),
        *("greater", "less", "at_least", "at_most", "int", "float", "bool", "list", "json"),
    )
)
"""The functions that have the lenient meaning of version 1; `callsheet upgrade` writes them."""

KEYED: Final = frozenset({"sorted", "min", "max"})
"""The functions that take a lambda as their `key`."""

_OF_TEXTS = frozenset(
    {
        "capitalize",
        "casefold",
        "center",
        "count",
        "endswith",
        "expandtabs",
        "find",
        "index",
        "isalnum",
        "isalpha",
        "isascii",
        "isdecimal",
        "isdigit",
        "isidentifier",
        "islower",
        "isnumeric",
        "isprintable",
        "isspace",
        "istitle",
        "isupper",
        "join",
        "ljust",
        "lower",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rfind",
        "rindex",
        "rjust",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "swapcase",
        "title",
        "upper",
        "zfill",
    }
)
_OF_LISTS = frozenset({"count", "index", "copy"})
_OF_DICTS = frozenset({"get", "keys", "values", "items", "copy"})
_OF_SETS = frozenset(
    {
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "copy",
    }
)
_OF_DATES = frozenset(
    {"isoformat", "weekday", "isoweekday", "strftime", "replace", "date", "timestamp", "astimezone"}
)
_OF_DURATIONS = frozenset({"total_seconds"})

METHODS: Final[dict[str, frozenset[str]]] = {
    "str": _OF_TEXTS,
    "list": _OF_LISTS,
    "tuple": _OF_LISTS - {"copy"},
    "dict": _OF_DICTS,
    "set": _OF_SETS,
    "date": _OF_DATES - {"date", "timestamp", "astimezone"},
    "datetime": _OF_DATES,
    "duration": _OF_DURATIONS,
}
"""The methods of each type of value, all of which change nothing."""

METHOD_NAMES: Final = frozenset[str]().union(*METHODS.values())
"""The names of all methods."""
