"""Recognises Python programs that open no file.

In: a program. Out: the modules that it imports, or None. Only listed syntax, functions, modules and names of
attributes are known; anything else, such as a class, may open a file. A name has one meaning in the whole
program: if it is bound to a module anywhere, it is that module everywhere.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from callsheet.policy.programs.harmless_python import ATTRIBUTES, FUNCTIONS, MODULES

_SYNTAX = (
    ast.Module, ast.Expr, ast.expr_context, ast.Constant, ast.Name, ast.Attribute, ast.Call, ast.keyword,
    ast.Starred, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.JoinedStr,
    ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.NamedExpr,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp, ast.comprehension, ast.Lambda, ast.FunctionDef, ast.arguments, ast.arg, ast.Return,
    ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete,
    ast.If, ast.For, ast.While, ast.Break, ast.Continue, ast.Pass, ast.Try, ast.ExceptHandler, ast.Raise,
    ast.Assert, ast.With, ast.withitem, ast.Import, ast.ImportFrom, ast.alias, ast.Match, ast.match_case,
    ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchMapping, ast.MatchStar, ast.MatchAs,
    ast.MatchOr,
)  # fmt: skip
"""Not classes, whose special methods are handed types and modules, and not patterns that read attributes."""
_BUILT_IN = frozenset({*dir(builtins), "copyright", "credits", "exit", "help", "license", "quit"})
_EXCEPTIONS = frozenset(
    name
    for name in dir(builtins)
    if isinstance(value := getattr(builtins, name), type)
    and issubclass(value, BaseException)
    and not issubclass(value, SyntaxError)
)
"""Not SyntaxError, whose report shows a line of the file that it names."""
_FORMATS = frozenset({"format", "format_map"})
_REACHES_IN = re.compile(r"\{[^{}:!]*[.\[]")
"""A field of a format that shows an attribute or an item."""
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
    if len(nodes) > _MOST_NODES or not all(isinstance(node, _SYNTAX) for node in nodes):
        return None
    names = _Names(nodes)
    return list(dict.fromkeys(names.imported)) if all(map(names.is_harmless, nodes)) else None


class _Names:
    """What the names of a program stand for, and the nodes whose place makes them harmless."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.imported: list[str] = []
        """The top-level modules that are imported."""
        self._modules: dict[str, set[str]] = {}
        """The modules that a name may be bound to."""
        self._bound = {name for node in nodes for name in _bound_by(node)}
        self._bases = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        self._inputs = {id(node.func) for node in nodes if isinstance(node, ast.Call) and _is_input(node)}
        for node in nodes:
            for name, module in _imports(node):
                self.imported.append(module.partition(".")[0])
                if name:
                    self._modules.setdefault(name, set()).add(module)

    def is_harmless(self, node: ast.AST) -> bool:
        """Whether a node of listed syntax opens no file and gives access to nothing that does."""
        if not all(map(_may_be_bound, _bound_by(node))):
            return False
        match node:
            case ast.Import(names=names):
                return all(alias.name in MODULES for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                offered = MODULES.get(module or "", frozenset())
                return not level and all(
                    alias.name in offered or f"{module}.{alias.name}" in MODULES for alias in names
                )
            case ast.Name(id="open"):
                return id(node) in self._inputs
            case ast.Name(id=name):
                return id(node) in self._bases if name in self._modules else self._is_usable(name)
            case ast.Attribute():
                return self._is_usable_attribute(node)
            case _:
                return True

    def _is_usable(self, name: str) -> bool:
        """Whether a name is a listed function, an exception, or one of the program's own."""
        is_listed = name in FUNCTIONS or name in _EXCEPTIONS or name == "__name__"
        return is_listed or (name in self._bound and _may_be_bound(name))

    def _is_usable_attribute(self, node: ast.Attribute) -> bool:
        if not isinstance(node.ctx, ast.Load):
            return False
        modules = self._denoted(node.value)
        if modules:
            is_base = id(node) in self._bases
            return all(
                is_base if f"{module}.{node.attr}" in MODULES else node.attr in MODULES.get(module, ())
                for module in modules
            )
        if node.attr in _FORMATS:
            return _shows_arguments_alone(node.value)
        if node.attr == "copy" and "collections" in self.imported:
            return False  # `Counter.copy(str)` is `type`
        return node.attr in ATTRIBUTES

    def _denoted(self, node: ast.expr) -> list[str]:
        """The modules, or the packages of modules, that an expression may denote."""
        if isinstance(node, ast.Name):
            return sorted(self._modules.get(node.id, ()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            inner = (f"{module}.{node.attr}" for module in self._modules.get(node.value.id, ()))
            return [module for module in inner if module in MODULES]
        return []


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules that a node imports, each with the name that it binds to one; empty if it binds none."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (first, first)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield "", node.module
        for alias in node.names:
            if (inner := f"{node.module}.{alias.name}") in MODULES:
                yield alias.asname or alias.name, inner


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds or declares."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.arg(arg=name):
            yield name
        case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
            yield name
        case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case _:
            pass


def _may_be_bound(name: str) -> bool:
    """Whether a name may be bound: elsewhere in the program it must not mean a function that opens files."""
    if name.startswith("__"):  # `__builtins__` changes what other names mean
        return False
    return name not in _BUILT_IN or name in FUNCTIONS or name in _EXCEPTIONS


def _shows_arguments_alone(node: ast.expr) -> bool:
    """Whether a format is a literal that shows its arguments, not attributes or items of them."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _REACHES_IN.search(node.value) is None
    )


def _is_input(node: ast.Call) -> bool:
    """Whether a call is `open(0)` or the like."""
    if getattr(node.func, "id", "") != "open" or node.keywords or len(node.args) != 1:
        return False
    given = node.args[0]
    return isinstance(given, ast.Constant) and given.value in _STANDARD_INPUT
