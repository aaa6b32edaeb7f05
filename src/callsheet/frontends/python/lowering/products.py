"""`x *= n` where x may be a list that something else holds: Python changes it, a plan makes a new value.

A list that is known as one is changed in place: `x[:] = x * n`. For numbers and texts, which they are nearly
always, both are one. So where the kind is not known before and the difference could be seen, it is asked for
when the statement runs: a list raises NotImplementedError.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Final, cast

from callsheet.frontends.python.source import Nodes, own_nodes, parameters_of

_FLAT_NAMES: Final = frozenset({"int", "float", "str", "bool", "Decimal", "timedelta"})


def guarded(stmt: ast.AugAssign) -> list[ast.stmt]:
    """A statement `x *= n` behind the test that x is no list.

    >>> print(ast.unparse(guarded(ast.parse("x *= 2").body[0])[0]).partition(" would")[0])
    if isinstance(x, list):
        raise NotImplementedError('x *= 2
    """
    target = _with_context(stmt.target, ast.Load())
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


class _InPlace(ast.NodeTransformer):
    def __init__(self, is_list: Callable[[ast.expr], bool]) -> None:
        self._is_list = is_list

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not is_product(node) or not self._is_list(node.target):
            return node
        held, source = (_with_context(node.target, ast.Load()) for _ in range(2))
        items = ast.Subscript(held, ast.Slice(None, None, None), ast.Store())
        product = ast.BinOp(source, ast.Mult(), node.value)
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([items], product), node))


def _with_context(target: ast.expr, context: ast.expr_context) -> ast.expr:
    made = copy.deepcopy(target)
    for one in ast.walk(made):
        if isinstance(one, (ast.Name, ast.Subscript, ast.Attribute)):
            one.ctx = context
    return made


def in_place(stmt: ast.stmt, is_list: Callable[[ast.expr], bool]) -> ast.stmt:
    """A statement in which each `x *= n` of a list changes that list, as in Python.

    >>> print(ast.unparse(in_place(ast.parse("rows['a'] *= 2").body[0], lambda _: True)))
    rows['a'][:] = rows['a'] * 2
    """
    return cast("ast.stmt", _InPlace(is_list).visit(copy.deepcopy(stmt)))


def is_product(stmt: ast.AST) -> bool:
    """Whether a statement is `x *= n`, where n may be a whole number."""
    if not isinstance(stmt, ast.AugAssign) or not isinstance(stmt.op, ast.Mult):
        return False
    value = stmt.value
    return not (isinstance(value, ast.Constant) and isinstance(value.value, float))


def guard_functions(nodes: Nodes) -> bool:
    """Guard `x *= n` in pure functions, in place; whether there is any.

    A list that the function has made itself is changed as in Python.
    """
    found = False
    for function in nodes.of(ast.FunctionDef):
        names = {
            one.arg
            for one in parameters_of(function.args)
            if not (isinstance(one.annotation, ast.Name) and one.annotation.id in _FLAT_NAMES)
        }
        lists, others = _made_in(function)
        names |= others
        for part in list(own_nodes(function)):
            for field in ("body", "orelse", "finalbody"):
                block = cast("list[ast.stmt] | None", getattr(part, field, None))
                if isinstance(block, list) and any(_is_of(one, lists) for one in block):
                    found = True
                    block[:] = [_changed_in_place(one) if _is_of(one, lists) else one for one in block]
        for part in own_nodes(function):
            for field in ("body", "orelse", "finalbody"):
                block = cast("list[ast.stmt] | None", getattr(part, field, None))
                if isinstance(block, list) and any(_is_of(one, names) for one in block):
                    found = True
                    block[:] = [each for one in block for each in _guarded_if(one, names)]
    return found


def _made_in(function: ast.FunctionDef) -> tuple[set[str], set[str]]:
    """The variables that a function gives lists which it has made, and those of which that is not known."""
    lists, others = set[str](), set[str]()
    for one in own_nodes(function):
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if isinstance(value, (ast.List, ast.ListComp)):
                    lists.add(name)
                elif not isinstance(value, (ast.Constant, ast.JoinedStr)):
                    others.add(name)
            case ast.For(target=ast.Name(id=name)) | ast.NamedExpr(target=ast.Name(id=name)):
                others.add(name)
            case _:
                pass
    return lists, others - lists


def _changed_in_place(stmt: ast.stmt) -> ast.stmt:
    """`x *= n` of a variable that has been a list: of that it is a change, of anything else a new value."""
    assert isinstance(stmt, ast.AugAssign)
    target = _with_context(stmt.target, ast.Load())
    test = ast.Call(ast.Name("isinstance", ast.Load()), [target, ast.Name("list", ast.Load())], [])
    made = ast.If(test, [in_place(stmt, lambda _: True)], [stmt])
    return ast.fix_missing_locations(ast.copy_location(made, stmt))


def _guarded_if(stmt: ast.stmt, names: set[str]) -> list[ast.stmt]:
    return guarded(stmt) if isinstance(stmt, ast.AugAssign) and _is_of(stmt, names) else [stmt]


def _is_of(stmt: ast.stmt, names: set[str]) -> bool:
    return (
        isinstance(stmt, ast.AugAssign)
        and is_product(stmt)
        and isinstance(stmt.target, ast.Name)
        and stmt.target.id in names
    )
