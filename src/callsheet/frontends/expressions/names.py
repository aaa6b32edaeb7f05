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

OTHER_WORDS: Final = {
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "contains": "in, the other way round: part in whole",
    "THEN": "THEN behind the ) of the condition",
    "like": "match(pattern, text)",
    "matches": "match(pattern, text)",
}
"""Words of other languages, and of version 1, inside expressions, and how they are written here."""

OTHER_FUNCTIONS: Final = {
    "map": "write a comprehension: [x.name for x in $rows]",
    "filter": "write a comprehension: [x for x in $rows if x.size > 3]",
    "print": 'NOTE ("…") writes a remark',
    "isinstance": "the type of a value is checked behind > $x:type, LET $x: type = … and INPUT $x: type",
    "type": "the type of a value is checked behind > $x:type, LET $x: type = … and INPUT $x: type",
    "format": 'a format stands in the text: "${x:.2f}"',
    "timedelta": 'write duration("2d")',
    "contains": "write part in $whole",
    "NOT_EMPTY": "write not IS_EMPTY($x), or just $x: what is empty is false",
    "length": "write len($x)",
    "count": "write len($x)",
    "size": "write len($x)",
    "join": 'write ", ".join($texts)',
    "split": 'write $text.split(",")',
    "replace": 'write $text.replace("a", "b")',
    "lower": "write $text.lower()",
    "upper": "write $text.upper()",
    "search": "write match(pattern, text)",
    "findall": "write find_all(pattern, text)",
    "loads": "write json($text)",
    "input": "INPUT $name: type asks for a value",
}
"""Functions of other languages, and what to write here."""

OTHER_METHODS: Final = {
    **dict.fromkeys(("length", "size", "len"), "write len($x)"),
    **dict.fromkeys(
        ("append", "push", "add"), "nothing is changed in place: write SET $list = $list + [value]"
    ),
    "extend": "nothing is changed in place: write SET $list = $list + $other",
    "update": 'nothing is changed in place: write SET $dict = {**$dict, "key": value}',
    **dict.fromkeys(
        ("pop", "remove", "insert", "clear"), "nothing is changed in place: write a comprehension or a slice"
    ),
    "sort": "nothing is changed in place: write sorted($list)",
    "reverse": "nothing is changed in place: write $list[::-1]",
    "map": "write a comprehension: [x.name for x in $rows]",
    "filter": "write a comprehension: [x for x in $rows if x.size > 3]",
    **dict.fromkeys(("contains", "includes", "has"), "write part in $whole"),
    "trim": "write .strip()",
    "toLowerCase": "write .lower()",
    "toUpperCase": "write .upper()",
    "startsWith": "write .startswith(…)",
    "endsWith": "write .endswith(…)",
    **dict.fromkeys(("substring", "substr", "slice"), "write a slice: $text[2:5]"),
    "toString": "write str($x)",
    "now": "write now()",
    "today": "write today()",
    **dict.fromkeys(("fromisoformat", "strptime", "parse"), "write datetime($text), or date($text)"),
    "format": 'a text with values in it is written "…${x}…"',
}
"""Methods of other languages, and those that change what they are called on, and what to write here."""
