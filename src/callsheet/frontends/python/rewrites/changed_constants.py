"""Containers of the file that its functions change: variables of the main function, as one object for all.

In: the tree of a file, and the name of such a container. Out: the same tree with the container, and the
functions that read it, at the start of the main function. It stays where a class reads it, or where
a name would mean something else there.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from callsheet.frontends.python.source import Refused, names_bound, names_read, parameters_of, walk


class ConstantChanged(Refused):
    """A refusal of a change of a constant of the file, which pieces of code make anew."""

    def __init__(self, node: ast.AST, name: str, main: str) -> None:
        super().__init__(
            "PYT015",
            node,
            f"{name} is a constant of the file, and is changed here",
            f"make it in {main}, where it is a variable, and define the functions that change it in"
            f" {main}, or return what is new",
        )
        self.name, self.main = name, main


def moved_into_main(module: ast.Module, changed: Sequence[ConstantChanged]) -> ConstantChanged | None:
    """Move constants, and what reads them, into the main function; one whose move would mean something else.

    >>> module = ast.parse('''log = []
    ... def note(text): log.append(text)
    ... async def main():
    ...     note("a")
    ...     return log''')
    >>> moved_into_main(module, [ConstantChanged(module, "log", "main")])
    >>> print(ast.unparse(module))
    async def main():
        log = []
    <BLANKLINE>
        def note(text):
            log.append(text)
        note('a')
        return log
    """
    here = names_bound(*module.body)
    changed = [one for one in changed if one.name in here]
    if not changed:
        return None
    main = next(
        (one for one in module.body if isinstance(one, ast.AsyncFunctionDef) and one.name == changed[0].main),
        None,
    )
    if main is None or main.decorator_list:
        return changed[0]
    rest = [_Definition(one) for one in module.body if one is not main]
    moved = _reached(rest, {one.name for one in changed})
    if not _may_stand_in(main, moved, module):
        alone = (one for one in changed if not _may_stand_in(main, _reached(rest, {one.name}), module))
        return next(alone, changed[0])
    statements = {id(one.stmt) for one in moved}
    module.body = [one for one in module.body if id(one) not in statements]
    first = 1 if ast.get_docstring(main, clean=False) is not None else 0
    main.body[first:first] = sorted((one.stmt for one in moved), key=lambda one: one.lineno)
    return None


class _Definition:
    """A statement of the file, with the names that it binds and reads."""

    def __init__(self, stmt: ast.stmt) -> None:
        self.stmt, self.bound, self.read = stmt, names_bound(stmt), names_read(stmt)


def _reached(rest: Sequence[_Definition], names: set[str]) -> list[_Definition]:
    """What binds or reads names, or what such statements bind."""
    by_name: dict[str, list[_Definition]] = {}
    for one in rest:
        for name in one.bound | one.read:
            by_name.setdefault(name, []).append(one)
    found: dict[int, _Definition] = {}
    todo, seen = list(names), set(names)
    while todo:
        for one in by_name.get(todo.pop(), ()):
            found[id(one)] = one
            todo += one.bound - seen
            seen |= one.bound
    return list(found.values())


def _may_stand_in(main: ast.AsyncFunctionDef, moved: Sequence[_Definition], module: ast.Module) -> bool:
    """Whether definitions mean the same at the start of the main function."""
    names = set[str]().union(*(one.bound for one in moved))
    own = names_bound(*main.body) | {one.arg for one in parameters_of(main.args)}
    kinds = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef)
    if names & own or any(main.name in one.read or not isinstance(one.stmt, kinds) for one in moved):
        return False
    functions = {one.name for one in module.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return not any(_keeps_function(one, names, functions) for one in walk(module))


def _keeps_function(node: ast.AST, names: set[str], functions: set[str]) -> bool:
    """Whether a node may put a function into what is moved: no variable can hold one over a call."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=given) if name in names:
            pass
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value) if name in names:
            given = [value]
        case _:
            return False
    return any(
        isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in functions) for one in given
    )
