"""Containers of the file that its functions change: variables of the main function, as one object for all.

In: the tree of a file, and the name of such a container. Out: the same tree with the container, and the
functions that read it, at the start of the main function. It stays where a class reads it, or where
a name would mean something else there.
"""

from __future__ import annotations

import ast

from callsheet.frontends.python.source import Refused, names_bound, names_read, parameters_of


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


def moved_into_main(module: ast.Module, changed: ConstantChanged) -> bool:
    """Move a constant, and what reads it, into the main function; whether that means the same.

    >>> module = ast.parse('''log = []
    ... def note(text): log.append(text)
    ... async def main():
    ...     note("a")
    ...     return log''')
    >>> moved_into_main(module, ConstantChanged(module, "log", "main"))
    True
    >>> print(ast.unparse(module))
    async def main():
        log = []
    <BLANKLINE>
        def note(text):
            log.append(text)
        note('a')
        return log
    """
    main = next(
        (one for one in module.body if isinstance(one, ast.AsyncFunctionDef) and one.name == changed.main),
        None,
    )
    if main is None or main.decorator_list:
        return False
    names, moved = {changed.name}, list[ast.stmt]()
    while True:
        more = [
            one
            for one in module.body
            if one is not main and one not in moved and (names & names_bound(one) or names & names_read(one))
        ]
        if not more:
            break
        moved += more
        names |= names_bound(*more)
    own = names_bound(*main.body) | {one.arg for one in parameters_of(main.args)}
    kinds = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef)
    if names & own or main.name in names_read(*moved) or not all(isinstance(one, kinds) for one in moved):
        return False
    if any(_keeps_function(one, names, module) for one in ast.walk(module)):
        return False
    module.body = [one for one in module.body if one not in moved]
    first = 1 if ast.get_docstring(main, clean=False) is not None else 0
    main.body[first:first] = sorted(moved, key=lambda one: one.lineno)
    return True


def _keeps_function(node: ast.AST, names: set[str], module: ast.Module) -> bool:
    """Whether a node may put a function into what is moved: no variable can hold one over a call."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=given) if name in names:
            pass
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=value) if name in names:
            given = [value]
        case _:
            return False
    functions = {one.name for one in module.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return any(
        isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in functions) for one in given
    )
