"""What is known of the words of Python: which functions leave their arguments alone, which fail by content.

Whatever is not named here is taken to change all that it can reach, and to test it.
"""

from __future__ import annotations

import ast
from collections import Counter, deque

FUNCTIONS = frozenset(
    {
        *(
            "abs",
            "all",
            "any",
            "ascii",
            "bin",
            "bool",
            "bytes",
            "callable",
            "chr",
            "dict",
            "divmod",
            "enumerate",
        ),
        *(
            "filter",
            "float",
            "format",
            "frozenset",
            "hasattr",
            "hash",
            "hex",
            "int",
            "isinstance",
            "issubclass",
        ),
        *(
            "len",
            "list",
            "map",
            "max",
            "min",
            "oct",
            "ord",
            "pow",
            "print",
            "range",
            "repr",
            "reversed",
            "round",
        ),
        *("set", "sorted", "str", "sum", "tuple", "type", "zip", "slice", "id", "complex"),
        *(
            "date",
            "datetime",
            "time",
            "timedelta",
            "timezone",
            "Decimal",
            "Fraction",
            "Counter",
            "defaultdict",
        ),
        *("OrderedDict", "deque", "namedtuple", "reduce", "sqrt", "ceil", "floor", "mean", "median"),
        *(
            "itemgetter",
            "attrgetter",
            "dumps",
            "loads",
            "chain",
            "groupby",
            "product",
            "combinations",
            "islice",
        ),
        *("ValueError", "TypeError", "KeyError", "IndexError", "Exception", "RuntimeError", "ToolError"),
    }
)
"""Functions and constructors that change none of their arguments, if functions among them change none."""
MODULES = frozenset({"math", "re", "json", "statistics", "itertools", "string", "textwrap"})
"""Modules whose functions change nothing."""
METHODS = frozenset(
    {
        *(name for name in dir(str) if not name.startswith("_")),
        *("get", "items", "keys", "values", "copy", "count", "index", "union", "intersection", "difference"),
        *("symmetric_difference", "issubset", "issuperset", "isdisjoint", "most_common", "elements", "total"),
        *(
            "date",
            "time",
            "timetz",
            "isoformat",
            "strftime",
            "weekday",
            "isoweekday",
            "isocalendar",
            "timestamp",
        ),
        *("total_seconds", "astimezone", "fromisoformat", "strptime", "combine", "toordinal", "fromordinal"),
        *("fromtimestamp", "utcoffset", "now", "today", "utcnow", "match", "fullmatch", "search", "findall"),
        *(
            "finditer",
            "sub",
            "subn",
            "compile",
            "group",
            "groups",
            "groupdict",
            "start",
            "end",
            "span",
            "escape",
        ),
        *(
            "dumps",
            "loads",
            "hex",
            "decode",
            "quantize",
            "is_integer",
            "as_integer_ratio",
            "fromkeys",
            "from_iterable",
            "itemgetter",
        ),
        "attrgetter",
    }
)
"""Methods that change neither what they are called on nor what they are given."""
CHANGING = (
    frozenset(
        name
        for kind in (list, dict, set, bytearray, deque, Counter)
        for name in dir(kind)
        if not name.startswith("_")
    )
    - METHODS
)
"""Methods that change what they are called on, and keep what they are given."""
MAKING = frozenset(
    {"list", "dict", "set", "sorted", "Counter", "defaultdict", "deque", "str", "int", "float", "len", "sum"}
)
"""Functions whose result is a new object."""
ITERATORS = frozenset(
    {
        "iter",
        "map",
        "filter",
        "zip",
        "enumerate",
        "reversed",
        "chain",
        "groupby",
        "product",
        "combinations",
        "islice",
    }
    | {
        "finditer",
        "from_iterable",
        "elements",
        "count",
        "cycle",
        "permutations",
        "accumulate",
        "starmap",
        "takewhile",
    }
)
"""Functions and methods whose result is used up when it is gone through."""
TOTAL = frozenset(
    {
        *(
            "len",
            "str",
            "repr",
            "bool",
            "sum",
            "sorted",
            "list",
            "tuple",
            "set",
            "frozenset",
            "reversed",
            "enumerate",
        ),
        *(
            "zip",
            "map",
            "filter",
            "any",
            "all",
            "abs",
            "round",
            "isinstance",
            "print",
            "type",
            "callable",
            "hasattr",
        ),
        *(
            "Counter",
            "defaultdict",
            "deque",
            "OrderedDict",
            "itemgetter",
            "attrgetter",
            "chain",
            "groupby",
            "dumps",
        ),
    }
)
"""Functions that never fail by the content of what they are given, only by its form."""
TOTAL_METHODS = frozenset(
    {
        *(
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "split",
            "rsplit",
            "splitlines",
            "join",
            "replace",
            "title",
        ),
        *(
            "startswith",
            "endswith",
            "find",
            "rfind",
            "count",
            "capitalize",
            "casefold",
            "swapcase",
            "partition",
        ),
        *(
            "rpartition",
            "removeprefix",
            "removesuffix",
            "expandtabs",
            "isdigit",
            "isalpha",
            "isalnum",
            "isnumeric",
        ),
        *(
            "isspace",
            "isupper",
            "islower",
            "istitle",
            "isdecimal",
            "isidentifier",
            "get",
            "items",
            "keys",
            "values",
        ),
        *(
            "copy",
            "append",
            "extend",
            "add",
            "update",
            "discard",
            "clear",
            "insert",
            "sort",
            "reverse",
            "setdefault",
        ),
        *(
            "union",
            "intersection",
            "difference",
            "symmetric_difference",
            "issubset",
            "issuperset",
            "isdisjoint",
        ),
        *(
            "most_common",
            "elements",
            "total",
            "isoformat",
            "weekday",
            "isoweekday",
            "isocalendar",
            "date",
            "time",
        ),
        *("total_seconds", "dumps", "appendleft", "itemgetter", "attrgetter", "chain", "groupby"),
    }
)
NAMING = frozenset({"isinstance", "issubclass", "defaultdict", "hasattr", "callable", "type"})
"""Functions that are given a type and do not call it with data."""
MAYBE = frozenset({"get", "match", "fullmatch", "search"})
"""Methods that give None or something else, by content."""
PATTERNS = frozenset(
    {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "split", "compile"}
)
"""Functions of `re` that fail only for a pattern that is none."""
PAIRS = frozenset({"divmod", "partition", "rpartition"})
"""Functions and methods that always give as many values."""
KINDS = {
    **dict.fromkeys(("len", "int", "float", "sum", "abs", "round", "ord", "hash"), "number"),
    **dict.fromkeys(("str", "repr", "chr", "hex", "bin", "ascii", "format"), "text"),
    **dict.fromkeys(("bool", "any", "all", "isinstance", "callable", "hasattr"), "bool"),
    **dict.fromkeys(("list", "sorted"), "list"),
    **dict.fromkeys(("dict", "Counter", "defaultdict"), "dict"),
    **dict.fromkeys(("set", "frozenset"), "set"),
}
"""The form of what functions give."""
CONDITIONAL = (ast.If, ast.IfExp, ast.BoolOp, ast.While, ast.Try, ast.Match, ast.comprehension)
UNTYPED = (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)
"""Comparisons that no form of their operands makes fail."""
SPELLING = frozenset(
    {"chr", "bytes", "bytearray", "decode", "fromhex", "hex", "maketrans", "translate", "unquote"}
)
"""What can make any text of numbers or other texts."""
CLOCKS = frozenset(
    {"now", "today", "utcnow", "time", "monotonic", "perf_counter", "time_ns", "gmtime", "localtime"}
)
REFLECTION = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "__import__", "compile_source", "breakpoint"}
)
"""What can reach variables without naming them."""
