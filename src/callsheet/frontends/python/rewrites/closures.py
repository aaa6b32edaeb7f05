"""Variables of async functions that pure functions inside them set: `nonlocal`.

In: the tree of a file, which is changed in place. Such a variable becomes the only item of a list, which a
plan hands to pure code and takes back as any container. Where the variable is set in other ways than by
assignments, all stays as it is, and the translator says why it cannot be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import cast

from callsheet.frontends.python.source import Nodes, among, names_bound, own_nodes, parameters_of, walk

_Function = ast.AsyncFunctionDef | ast.FunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def box_nonlocals(nodes: Nodes) -> bool:
    """Keep what `nonlocal` of pure functions names in lists; whether there is any.

    >>> module = ast.parse('''async def main():
    ...     n = 0
    ...     def more():
    ...         nonlocal n
    ...         n += 1
    ...     more()
    ...     return n''')
    >>> box_nonlocals(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        n_box = [None]
        n_box[0] = 0
    <BLANKLINE>
        def more():
            n_box[0] += 1
        more()
        return n_box[0]
    """
    taken = {one.id for one in nodes.of(ast.Name)}
    changed = False
    for function in nodes.of(ast.AsyncFunctionDef, ast.FunctionDef):
        inner = [one for one in among(walk(function), ast.FunctionDef) if one is not function]
        names = {name for one in inner for each in among(own_nodes(one), ast.Nonlocal) for name in each.names}
        own = names_bound(*function.body) | {one.arg for one in parameters_of(function.args)}
        for name in sorted(names & own):
            box = _fresh(f"{name}_box", taken)
            if _is_set_first(function, name) and _may_be_boxed(function, name):
                _box(function, name, box)
                changed = True
    return changed


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _scopes(function: _Function) -> list[_Function]:
    """The functions inside one that are its own, not those inside of these."""
    return [
        one
        for one in among(own_nodes(function), ast.FunctionDef, ast.AsyncFunctionDef)
        if one is not function
    ]


def _sees(function: _Function, name: str) -> bool:
    """Whether a name in an inner function is the variable of the one around it."""
    if any(one.arg == name for one in parameters_of(function.args)):
        return False
    body = own_nodes(function)
    if any(isinstance(one, ast.Nonlocal) and name in one.names for one in body):
        return True
    return name not in names_bound(*function.body)


def _is_set_first(function: _Function, name: str) -> bool:
    """Whether the variable has a value before anything reads it: a box has one from the start."""
    if any(one.arg == name for one in parameters_of(function.args)):
        return True
    inner = {one.name for one in _scopes(function)}
    for one in function.body:
        if isinstance(one, ast.FunctionDef):
            continue
        named = {each.id for each in among(walk(one), ast.Name)}
        match one:
            case ast.Assign(targets=targets, value=value):
                is_set = name in names_bound(*targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                is_set = name in names_bound(target)
            case _:
                is_set, value = False, None
        if is_set and value is not None:
            read = {each.id for each in among(walk(value), ast.Name)}
            return read.isdisjoint({name, *inner})
        if not named.isdisjoint({name, *inner}):
            return False
    return False


def _may_be_boxed(function: _Function, name: str) -> bool:
    """Whether assignments alone set the variable, and nothing else has its name."""
    for one in walk(function):
        match one:
            case ast.For(target=target) | ast.AsyncFor(target=target):
                found = name in names_bound(target)
            case ast.NamedExpr(target=ast.Name(id=known)):
                found = known == name
            case ast.ExceptHandler(name=known) | ast.MatchAs(name=known) | ast.MatchStar(name=known):
                found = known == name
            case ast.withitem(optional_vars=ast.expr() as target) | ast.Delete(targets=[target]):
                found = name in names_bound(target) or (isinstance(target, ast.Name) and target.id == name)
            case _:
                found = False
        if found:
            return False
    return True


class _Boxing(ast.NodeTransformer):
    def __init__(self, name: str, box: str, sees: Callable[[_Function, str], bool]) -> None:
        self.name, self.box, self.sees = name, box, sees

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id != self.name:
            return node
        made = ast.Subscript(ast.Name(self.box, ast.Load()), ast.Constant(0), node.ctx)
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _comprehension(self, node: _Comprehension) -> ast.AST:
        if self.name not in names_bound(*(one.target for one in node.generators)):
            return self.generic_visit(node)
        node.generators[0].iter = self.visit(node.generators[0].iter)
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        if all(one.arg != self.name for one in parameters_of(node.args)):
            return self.generic_visit(node)
        node.args = cast("ast.arguments", self.visit(node.args))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if isinstance(node.target, ast.Name) and node.target.id == self.name:
            if node.value is None:
                return ast.copy_location(ast.Pass(), node)
            made = ast.Assign([node.target], node.value)
            return self.generic_visit(ast.copy_location(made, node))
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST | None:
        node.names = [one for one in node.names if one != self.name]
        return node if node.names else ast.copy_location(ast.Pass(), node)

    def _function(self, node: _Function) -> ast.AST:
        return self.generic_visit(node) if self.sees(node, self.name) else node

    visit_FunctionDef = visit_AsyncFunctionDef = _function


def _box(function: _Function, name: str, box: str) -> None:
    boxing = _Boxing(name, box, _sees)
    function.body = [boxing.visit(one) for one in function.body]
    is_parameter = any(one.arg == name for one in parameters_of(function.args))
    first = ast.Name(name, ast.Load()) if is_parameter else ast.Constant(None)
    made = ast.Assign([ast.Name(box, ast.Store())], ast.List([first], ast.Load()))
    place = 1 if ast.get_docstring(function, clean=False) is not None else 0
    function.body.insert(place, ast.fix_missing_locations(ast.copy_location(made, function.body[0])))
    _without_passes(function)


def _without_passes(function: _Function) -> None:
    """Leave out what stands for `nonlocal`, where anything else is left."""
    for one in [function, *_scopes(function)]:
        rest = [each for each in one.body if not isinstance(each, ast.Pass)]
        one.body = rest or one.body
