"""Defaults that a pure function changes: one object for all calls, as a variable that each call is given.

In: the tree of a file, which is changed in place. A function that is used in any other way than called by its
name, or with `*` or `**`, stays as it is, and is refused by who reads it; so is an async one, whose default
would escape into what runs beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from callsheet.frontends.pure_code.laziness import changed_objects
from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of, name_called, rewrite_blocks
from callsheet.frontends.python.source import Nodes, given_by_default, is_named, walk
from callsheet.frontends.python.syntax import load, placed

_CONTAINERS: Final = frozenset({"list", "dict", "set", "defaultdict", "Counter", "deque", "OrderedDict"})


def shared_defaults_as_variables(module: ast.Module, nodes: Nodes) -> bool:
    """Write containers that are defaults, and are changed, as variables; whether there were any.

    >>> module = ast.parse('''def add(x, found=[]):
    ...     found.append(x)
    ...     return found
    ... async def main(): return add(1)''')
    >>> shared_defaults_as_variables(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    found_at_1 = []
    <BLANKLINE>
    def add(x, found=None):
        found.append(x)
        return found
    <BLANKLINE>
    async def main():
        return add(1, found=found_at_1)
    """
    functions = nodes.of(ast.FunctionDef)
    methods = {id(each) for shape in nodes.of(ast.ClassDef) for each in shape.body}
    names = [one.name for one in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef)]
    found = {
        id(one): [*_changed_defaults(one)]
        for one in functions
        if id(one) not in methods and not one.decorator_list and names.count(one.name) == 1
    }
    fresh, made = Fresh(nodes), dict[int, list[ast.stmt]]()
    for one in functions:
        calls = _calls_alone(one.name, nodes) if found.get(id(one)) else None
        if not calls:
            continue
        made[id(one)] = []
        for name, default in found[id(one)]:
            variable = fresh(name)
            for call in calls:
                if not _gives(call, one, name):
                    call.keywords.append(ast.keyword(name, placed(load(variable), call)))
            stored = ast.Assign([ast.Name(variable, ast.Store())], default)
            made[id(one)].append(placed(stored, default))
            _replace(one, default)
    return rewrite_blocks(
        [module.body, *blocks_of(nodes)],
        lambda one: [*made[id(one)], one] if made.get(id(one)) else None,
    )


def _changed_defaults(one: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters whose default is a container of its own that the function changes, with it."""
    inner = [each for part in one.body for each in walk(part)]
    targets = (each.target for each in inner if isinstance(each, ast.AugAssign))
    changed = changed_objects(inner) | {each.id for each in targets if isinstance(each, ast.Name)}
    for name, default in given_by_default(one.args):
        is_new = isinstance(default, ast.List | ast.Dict | ast.Set) or (
            name_called(default).rpartition(".")[2] in _CONTAINERS
        )
        if name in changed and is_new and name not in {each.arg for each in one.args.posonlyargs}:
            yield name, default


def _calls_alone(name: str, nodes: Nodes) -> list[ast.Call] | None:
    """The calls of a function, None if it is used in another way, or one does not tell what it gives."""
    calls = [one for one in nodes.of(ast.Call) if is_named(one.func, name)]
    used = [one for one in nodes.of(ast.Name) if one.id == name]
    given = [each for one in calls for each in (*one.args, *one.keywords)]
    stars = any(isinstance(each, ast.Starred) or getattr(each, "arg", "") is None for each in given)
    return None if stars or len(used) != len(calls) else calls


def _gives(call: ast.Call, one: ast.FunctionDef, name: str) -> bool:
    places = [each.arg for each in (*one.args.posonlyargs, *one.args.args)][: len(call.args)]
    return name in places or any(each.arg == name for each in call.keywords)


def _replace(one: ast.FunctionDef, default: ast.expr) -> None:
    """Let a parameter that each call gives have None for its default."""
    nothing = placed(ast.Constant(None), default)
    one.args.defaults = [nothing if each is default else each for each in one.args.defaults]
    one.args.kw_defaults = [nothing if each is default else each for each in one.args.kw_defaults]
