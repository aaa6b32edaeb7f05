"""The names of a program: which scope binds which, and what imports and classes they stand for.

In: a tree. Out: `Scopes`, what lowering and refusals ask about names. A name that the program binds itself
is never taken for a builtin.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_INNER_MODULES = ("collections.abc", "urllib.parse", "os.path")
"""Modules that stand in others."""
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_BINDING = frozenset(
    {
        *(ast.Name, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
        *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
    }
)


def parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope; of nested functions, lambdas and classes only the heads are among them."""
    stack = list(ast.iter_child_nodes(node))
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
            stack.extend([*one.decorator_list, *one.args.defaults, *filter(None, one.args.kw_defaults)])
        elif isinstance(one, ast.Lambda):
            stack.extend([*one.args.defaults, *filter(None, one.args.kw_defaults)])
        elif isinstance(one, ast.ClassDef):
            stack.extend([*one.decorator_list, *one.bases])
        else:
            stack.extend(ast.iter_child_nodes(one))


def bound_names(scope: ast.AST) -> set[str]:
    """The names that a scope binds: parameters, targets, functions, classes, imports, handlers, patterns."""
    found: set[str] = set()
    if isinstance(scope, _SCOPES):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        found |= {one.arg for one in every}
    roots = [scope] if not isinstance(scope, ast.Lambda) else [scope.body]
    for root in roots:
        for node in parts_of(root):
            if node.__class__ in _BINDING:
                found |= _binds(node)
    return found


def _binds(node: ast.AST) -> set[str]:
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return {node.id}
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Import() | ast.ImportFrom():
            return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
        case _:
            return set()


def is_generator(node: ast.FunctionDef) -> bool:
    """Whether a function is a generator, because it yields."""
    return any(
        isinstance(one, (ast.Yield, ast.YieldFrom))
        for statement in node.body
        for one in (statement, *parts_of(statement))
    )


class Imports(NamedTuple):
    """What the names of imports stand for: modules by name, and members of modules by name."""

    modules: dict[str, str]
    members: dict[str, tuple[str, str]]


def imports_of(nodes: Iterable[ast.AST]) -> Imports:
    """The imports among the nodes of a program, wherever they stand."""
    modules: dict[str, str] = {}
    members: dict[str, tuple[str, str]] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                modules[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in _INNER_MODULES:
                    modules[alias.asname or alias.name] = whole
                else:
                    members[alias.asname or alias.name] = (node.module or "", alias.name)
    return Imports(modules, members)


class Scopes:
    """The scopes around a node while a tree is walked, and what a name means there."""

    def __init__(self, tree: ast.Module, given: Iterable[str] = ()) -> None:
        """The scope of a program whose inputs are `given`; `nodes` are all nodes of the program."""
        self.nodes = tuple(ast.walk(tree))
        self.imports = imports_of(self.nodes)
        self._stack = [bound_names(tree) | set(given)]

    def enter(self, scope: ast.AST) -> None:
        """Go into a function, a lambda, a class or a comprehension."""
        if isinstance(scope, _COMPREHENSIONS):
            names = {
                node.id
                for one in scope.generators
                for node in ast.walk(one.target)
                if isinstance(node, ast.Name)
            }
        else:
            names = bound_names(scope)
        self._stack.append(names)

    def leave(self) -> None:
        """Go back out."""
        self._stack.pop()

    def is_bound(self, name: str) -> bool:
        """Whether the program binds a name here or around; else it is a builtin or nothing."""
        return any(name in names for names in self._stack)

    def is_builtin(self, node: ast.AST, name: str) -> bool:
        """Whether a node is a builtin's name."""
        return isinstance(node, ast.Name) and node.id == name and not self.is_bound(name)

    def module_of(self, node: ast.AST) -> str | None:
        """The module that a name or a dotted name stands for."""
        if isinstance(node, ast.Name) and node.id in self.imports.modules:
            return self.imports.modules[node.id]
        if isinstance(node, ast.Attribute):
            owner = self.module_of(node.value)
            if owner is not None and f"{owner}.{node.attr}" in _INNER_MODULES:
                return f"{owner}.{node.attr}"
        return None

    def member_of(self, node: ast.AST) -> tuple[str, str] | None:
        """The member of a module that an expression stands for, as `("re", "sub")`."""
        if isinstance(node, ast.Name) and node.id in self.imports.members:
            return self.imports.members[node.id]
        if isinstance(node, ast.Attribute):
            module = self.module_of(node.value)
            if module is not None:
                return module, node.attr
        return None


def unknown_names(tree: ast.Module) -> set[str]:
    """The names that a program reads and that neither it nor Python has.

    >>> unknown_names(ast.parse("y = len(x)"))
    {'x'}
    """
    found = _Unknown(tree)
    found.visit(tree)
    return found.names


class _Unknown(ast.NodeVisitor):
    def __init__(self, tree: ast.Module) -> None:
        self.scopes = Scopes(tree)
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        known = self.scopes.is_bound(node.id) or node.id in self.scopes.imports.modules
        if not known and not hasattr(builtins, node.id) and node.id != "__name__":
            self.names.add(node.id)

    def generic_visit(self, node: ast.AST) -> None:
        inside = isinstance(node, (*_SCOPES, *_COMPREHENSIONS, ast.ClassDef))
        if inside:
            self.scopes.enter(node)
        super().generic_visit(node)
        if inside:
            self.scopes.leave()
