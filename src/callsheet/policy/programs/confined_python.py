"""Recognises Python programs that open no file and start nothing.

In: a program. Out: the modules that it imports, or None. The program may use listed built-in functions and
what listed modules offer; a module may only be the base of an attribute, and no attribute may lead to another
module or to internals of the interpreter.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType

_LISTED = frozenset(
    {"abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod",
     "complex", "dict", "divmod", "enumerate", "exit", "filter", "float", "format", "frozenset", "hash",
     "hex", "input", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "memoryview",
     "min", "next", "object", "oct", "ord", "pow", "print", "property", "quit", "range", "repr", "reversed",
     "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "zip"}
)  # fmt: skip
_BUILT_IN = frozenset({*dir(builtins), "copyright", "credits", "exit", "help", "license", "quit"})
_MODULES = frozenset(
    {"array", "base64", "binascii", "bisect", "calendar", "cmath", "collections", "collections.abc",
     "colorsys", "csv", "datetime", "decimal", "difflib", "fractions", "functools", "graphlib", "hashlib",
     "heapq", "hmac", "html", "io", "ipaddress", "itertools", "json", "math", "numbers", "pprint", "random",
     "re", "secrets", "statistics", "string", "struct", "sys", "textwrap", "time", "typing", "unicodedata",
     "urllib.parse", "uuid", "zlib", "zoneinfo"}
)  # fmt: skip
"""Not `enum`, `dataclasses` and `copy`: with them a program can reach attributes whose names are texts."""
_PARTS: Mapping[str, frozenset[str]] = {
    "io": frozenset({"StringIO", "BytesIO"}),
    "sys": frozenset(
        {"argv", "byteorder", "exit", "float_info", "getsizeof", "maxsize", "platform", "setrecursionlimit",
         "stderr", "stdin", "stdout", "version", "version_info"}
    ),
    "urllib": frozenset({"parse"}),
}  # fmt: skip
"""Modules of which only these parts may be used."""
_LEADS_ON = re.compile(
    r"_(?!_name__$)|(?:gi|cr|ag|f|tb|co|func)_"
    r"|(?:attrgetter|methodcaller|Formatter|get_type_hints|get_annotations|ForwardRef|evaluate_forward_ref"
    r"|singledispatch\w*|update_wrapper|wraps|open\w*|eval|exec|modules|reset_tzpath|main|test)$"
)
"""Attributes that lead to internals, to attributes or expressions given as text, or to files."""
_ENCODING = re.compile(r"(?:[^\n\r]*[\n\r]+)?[ \t\f]*#[^\n\r]*coding[:=]")
"""A declaration that makes the interpreter read another text than this one."""
_STANDARD_INPUT = (0, "/dev/stdin")
_MOST_NODES = 20_000


def modules_of(program: str) -> list[str] | None:
    """The top-level modules that a program imports if it opens no file, else None.

    >>> modules_of("import datetime as d; print(d.date.today())"), modules_of("print(open(0).read())")
    (['datetime'], [])
    >>> [modules_of(text) for text in ("import os", "getattr(str, x)", "().__class__", "print(1")]
    [None, None, None, None]
    """
    if _ENCODING.match(program):
        return None
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = list(ast.walk(tree))
    if len(nodes) > _MOST_NODES:
        return None
    names = _Names(nodes)
    return list(dict.fromkeys(names.imported)) if all(map(names.is_harmless, nodes)) else None


class _Names:
    """What the names of a program stand for, and the nodes whose place makes them harmless."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.imported: list[str] = []
        self._modules: dict[str, set[str]] = {}
        """The modules that a name may be bound to."""
        self._called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        self._bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        self._inputs = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_input(node)}
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    bound = alias.name if alias.asname else first
                    self._modules.setdefault(alias.asname or first, set()).add(bound)
                    self.imported.append(first)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                self.imported.append(node.module.partition(".")[0])

    def is_harmless(self, node: ast.AST) -> bool:
        """Whether a node opens no file and gives access to nothing that does."""
        match node:
            case ast.Import(names=names):
                return all(alias.name in _MODULES for alias in names)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                return module in _MODULES and all(_is_offered(module, alias.name) for alias in names)
            case ast.ImportFrom() | ast.MatchClass():
                return False
            case ast.Name(id="open"):
                return id(node) in self._inputs
            case ast.Name(id=name):
                is_base = name not in self._modules or id(node) in self._bases
                return is_base and _is_usable(name)
            case ast.Attribute():
                return self._is_usable_attribute(node)
            case _:
                return True

    def _is_usable_attribute(self, node: ast.Attribute) -> bool:
        if isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super":
            return node.attr == "__init__" or _LEADS_ON.match(node.attr) is None
        if _LEADS_ON.match(node.attr):
            return False
        modules = self._modules.get(node.value.id, ()) if isinstance(node.value, ast.Name) else ()
        if modules:
            return all(_is_offered(module, node.attr) for module in modules)
        is_of_parse = isinstance(node.value, ast.Attribute) and self._is_urllib(node.value)
        if is_of_parse and not _is_offered("urllib.parse", node.attr):
            return False
        return node.attr not in sys.stdlib_module_names or id(node) in self._called  # no module can be called

    def _is_urllib(self, node: ast.Attribute) -> bool:
        return isinstance(node.value, ast.Name) and "urllib" in self._modules.get(node.value.id, ())


def _is_usable(name: str) -> bool:
    """Whether a name is no built-in function, a listed one or an exception."""
    if name in _LISTED or name == "__name__":
        return True
    if name not in _BUILT_IN:
        return not name.startswith("__")
    value = getattr(builtins, name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


def _is_offered(module: str, name: str) -> bool:
    """Whether a listed module offers this name for others to use; no module that it has imported itself."""
    if _LEADS_ON.match(name):
        return False
    parts = _PARTS.get(module)
    return name in (_offered_by(module) if parts is None else parts)


@cache
def _offered_by(module: str) -> frozenset[str]:
    """The public names of a listed module of the standard library."""
    loaded = importlib.import_module(module)
    public: list[str] | None = getattr(loaded, "__all__", None)
    return frozenset(
        name
        for name in (public if public is not None else vars(loaded))
        if not isinstance(getattr(loaded, name, None), ModuleType)
    )


def _is_input(node: ast.Call) -> bool:
    """Whether a call is `open(0)` or the like."""
    if getattr(node.func, "id", "") != "open" or node.keywords or len(node.args) != 1:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and given.value in _STANDARD_INPUT
