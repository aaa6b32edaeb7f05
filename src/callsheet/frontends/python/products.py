"""`x *= n` where x may be a list that something else holds: Python changes it, a plan makes a new value.

For numbers and texts, which they are nearly always, both are one. So the kind is asked for when the statement
runs, wherever it is not known before and the difference could be seen: a list raises NotImplementedError.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from typing import Final, cast

from callsheet.frontends.python.source import own_nodes, parameters_of

_FLAT_NAMES: Final = frozenset({"int", "float", "str", "bool", "Decimal", "timedelta"})


def guarded(stmt: ast.AugAssign) -> list[ast.stmt]:
    """A statement `x *= n` behind the test that x is no list.

    >>> print(ast.unparse(guarded(ast.parse("x *= 2").body[0])[0]).partition(" would")[0])
    if isinstance(x, list):
        raise NotImplementedError('x *= 2
    """
    target = copy.deepcopy(stmt.target)
    for one in ast.walk(target):
        if isinstance(one, (ast.Name, ast.Subscript, ast.Attribute)):
            one.ctx = ast.Load()
    name, value = ast.unparse(target), ast.unparse(stmt.value)
    text = (
        f"{name} *= {value} would change a list that something else may hold: "
        f"write {name} = {name} * {value} or {name}.extend(…)"
    )
    test = ast.Call(ast.Name("isinstance", ast.Load()), [target, ast.Name("list", ast.Load())], [])
    error = ast.Call(ast.Name("NotImplementedError", ast.Load()), [ast.Constant(text)], [])
    check = ast.If(test, [ast.Raise(error, None)], [])
    for one in ast.walk(check):
        if "lineno" in one._attributes:
            ast.copy_location(one, stmt)
    return [check, stmt]


def is_product(stmt: ast.AST) -> bool:
    """Whether a statement is `x *= n`, where n may be a whole number."""
    if not isinstance(stmt, ast.AugAssign) or not isinstance(stmt.op, ast.Mult):
        return False
    value = stmt.value
    return not (isinstance(value, ast.Constant) and isinstance(value.value, float))


def guard_parameters(nodes: Iterable[ast.AST]) -> bool:
    """Guard `x *= n` of the parameters of pure functions, in place; whether there is any."""
    found = False
    for function in nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {
            one.arg
            for one in parameters_of(function.args)
            if not (isinstance(one.annotation, ast.Name) and one.annotation.id in _FLAT_NAMES)
        }
        for part in own_nodes(function):
            for field in ("body", "orelse", "finalbody"):
                block = cast("list[ast.stmt] | None", getattr(part, field, None))
                if isinstance(block, list) and any(_is_of(one, names) for one in block):
                    found = True
                    block[:] = [each for one in block for each in _guarded_if(one, names)]
    return found


def _guarded_if(stmt: ast.stmt, names: set[str]) -> list[ast.stmt]:
    return guarded(stmt) if isinstance(stmt, ast.AugAssign) and _is_of(stmt, names) else [stmt]


def _is_of(stmt: ast.stmt, names: set[str]) -> bool:
    return (
        isinstance(stmt, ast.AugAssign)
        and is_product(stmt)
        and isinstance(stmt.target, ast.Name)
        and stmt.target.id in names
    )
