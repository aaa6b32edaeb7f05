"""Functions that make functions with a state of their own, as classes with one method.

In: the tree of a file, which is changed in place. `n` of `def counter(): n = 0; def more(): …; return more`
becomes a field, and `tick = counter(); tick()` a call of the method: a plan keeps objects over its calls, and
no functions. What is more than called, or holds other functions, stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set

from callsheet.frontends.pure_code.laziness import changed_outside
from callsheet.frontends.python.source import Nodes, names_bound, names_read, own_nodes, parameters_of, walk
from callsheet.frontends.python.syntax import load, placed

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def factories_as_classes(module: ast.Module, nodes: Nodes) -> bool:
    """Write the functions of a file that return a function they define as classes; whether any was.

    >>> module = ast.parse('''def counter(start):
    ...     n = start
    ...     def more():
    ...         nonlocal n
    ...         n += 1
    ...         return n
    ...     return more
    ... async def main():
    ...     tick = counter(3)
    ...     return tick()''')
    >>> factories_as_classes(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    class counter:
    <BLANKLINE>
        def __init__(self, start):
            self.n = start
    <BLANKLINE>
        def call_counter(self):
            self.n += 1
            return self.n
    <BLANKLINE>
    async def main():
        tick = counter(3)
        return tick.call_counter()
    """
    changed = False
    for number, one in enumerate(module.body):
        inner = _made_by(one) if isinstance(one, ast.FunctionDef) else None
        if not isinstance(one, ast.FunctionDef) or inner is None:
            continue
        if not isinstance(inner, ast.AsyncFunctionDef) and not changes_state(one):
            continue
        own = {id(each) for each in walk(one)}
        calls = _calls_of_made(one.name, [each for each in nodes if id(each) not in own])
        if calls is None or any(isinstance(each, ast.arg) and each.arg == "self" for each in walk(one)):
            continue
        module.body[number] = _as_class(one, inner)
        for call in calls:
            call.func = ast.copy_location(ast.Attribute(call.func, inner.name, ast.Load()), call.func)
        changed = True
    return changed


def _made_by(one: ast.FunctionDef) -> _Function | None:
    """The only function that a function defines, if it returns that at its end, and returns nowhere else."""
    inner = [each for each in own_nodes(*one.body) if isinstance(each, _Function)]
    plain = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, _Function)
    match one.body[-1]:
        case ast.Return(value=ast.Name(id=name)) if len(inner) == 1 and inner[0].name == name:
            pass
        case _:
            return None
    of = inner[0].args
    is_plain = all(isinstance(each, plain) for each in one.body[:-1]) and inner[0] in one.body
    inside = [each for part in inner[0].body for each in walk(part)]
    has_scopes = any(
        isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for each in inside
    )
    used = name in names_read(*inner[0].body)
    if one.decorator_list or inner[0].decorator_list or not is_plain or has_scopes or used or of.posonlyargs:
        return None
    if not all(isinstance(each, ast.Constant) for each in (*of.defaults, *filter(None, of.kw_defaults))):
        return None
    own = {each.arg for each in parameters_of(of)} | _bound_anywhere(inside) - _kept(inner[0])
    return None if own & _state(one, inner[0]) else inner[0]


def _bound_anywhere(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that any of the nodes binds, also in comprehensions and lambdas."""
    names = {one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
    return names | {one.arg for one in nodes if isinstance(one, ast.arg)}


def _kept(inner: _Function) -> set[str]:
    return {name for one in own_nodes(*inner.body) if isinstance(one, ast.Nonlocal) for name in one.names}


def _state(one: ast.FunctionDef, inner: _Function) -> set[str]:
    """The variables of a function that the one inside it has: its fields."""
    own = names_bound(*one.body) | {each.arg for each in parameters_of(one.args)}
    return (names_read(*inner.body) | _kept(inner)) & (own - {inner.name})


def changes_state(one: ast.FunctionDef) -> bool:
    """Whether a function inside one changes what belongs to the outer: it is kept while the inner one is."""
    inner = [
        each for each in walk(one) if isinstance(each, (ast.FunctionDef, ast.Lambda)) and each is not one
    ]
    own = names_bound(*one.body) | {each.arg for each in parameters_of(one.args)}
    return any(changed_outside(each) & own for each in inner)


def _calls_of_made(name: str, nodes: Sequence[ast.AST]) -> list[ast.Call] | None:
    """The calls of what a function makes; None if that, or the function itself, is more than called."""
    makes = [
        one
        for one in nodes
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == name
    ]
    uses = [one for one in nodes if isinstance(one, ast.Name) and one.id == name]
    if len(uses) != len(makes):
        return None
    made = {id(one) for one in makes}
    called = [one for one in nodes if isinstance(one, ast.Call) and id(one.func) in made]
    pairs = [pair for one in nodes if isinstance(one, ast.Assign) for pair in set_by(one)]
    named = [target.id for target, value in pairs if id(value) in made and isinstance(target, ast.Name)]
    held = {name: named.count(name) for name in named}
    if len(called) + sum(held.values()) != len(makes):
        return None
    for one in nodes:
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in held:
            called.append(one)
    funcs = {id(one.func) for one in called}
    for one in nodes:
        if isinstance(one, ast.arg) and one.arg in held:
            return None
        if isinstance(one, ast.Name) and one.id in held:
            if isinstance(one.ctx, ast.Store):
                held[one.id] -= 1
            elif id(one) not in funcs:
                return None
    return called if not any(held.values()) else None


def set_by(one: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value."""
    match one.targets, one.value:
        case [ast.Tuple(elts=targets)], ast.Tuple(elts=values) if len(targets) == len(values):
            return list(zip(targets, values, strict=True))
        case targets, value:
            return [(target, value) for target in targets]


def _as_class(one: ast.FunctionDef, inner: _Function) -> ast.stmt:
    state = _state(one, inner)
    fields = _Fields(state)
    parameters = [each.arg for each in parameters_of(one.args)]
    start: list[ast.stmt] = [
        ast.Assign([_field(name, ast.Store())], load(name)) for name in parameters if name in state
    ]
    body = [fields.visit(each) for each in one.body[:-1] if each is not inner and not _is_text(each)]
    made = ast.FunctionDef("__init__", _with_self(one.args), [*start, *body] or [ast.Pass()], [], None)
    vars(made)["type_params"] = []
    inner.name, inner.args = f"call_{one.name}", _with_self(inner.args)
    inner.body = [fields.visit(each) for each in inner.body if not isinstance(each, ast.Nonlocal)]
    result = ast.ClassDef(one.name, [], [], [placed(made, one), inner], [])
    vars(result)["type_params"] = []
    return placed(result, one)


def _is_text(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)


def _field(name: str, context: ast.expr_context) -> ast.Attribute:
    return ast.Attribute(load("self"), name, context)


def _with_self(of: ast.arguments) -> ast.arguments:
    return ast.arguments(
        of.posonlyargs,
        [ast.arg("self"), *of.args],
        of.vararg,
        of.kwonlyargs,
        of.kw_defaults,
        of.kwarg,
        of.defaults,
    )


class _Fields(ast.NodeTransformer):
    """Writes variables as fields."""

    def __init__(self, names: Set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        return placed(_field(node.id, node.ctx), node) if node.id in self.names else node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """An assignment, whose type is no value."""
        node.target = self.visit(node.target)
        node.value = None if node.value is None else self.visit(node.value)
        node.simple = int(isinstance(node.target, ast.Name))
        return node
