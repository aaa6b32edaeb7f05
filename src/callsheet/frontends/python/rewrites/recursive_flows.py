"""Loops over an async generator that calls itself, as a function that goes through a tree and calls another.

In: the tree of a file, which is changed in place. The loop's body becomes a function of what is yielded, and
the generator one that calls it where it yields, so that all calls keep their order. What leaves the loop
early, and a generator that yields inside `try` or `with`, stays, and is refused by who reads it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import cast

from callsheet.frontends.python.rewrites.inlining import (
    Fresh,
    RenamingOwn,
    blocks_in,
    is_generator,
    name_called,
    yields_of,
)
from callsheet.frontends.python.source import (
    Nodes,
    ends_loop,
    jumps_out,
    names_bound,
    names_read,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import PuttingNodes, parsed, parsed_lines, placed


def recursive_flows_as_visits(module: ast.Module, nodes: Nodes) -> bool:
    """Write the loops of a file over async generators that call themselves as calls; whether there were any.

    >>> module = ast.parse('''async def files(folder):
    ...     for one in await entries(folder):
    ...         if one.is_folder:
    ...             async for name in files(one.path): yield name
    ...         else:
    ...             yield one.path
    ... async def main():
    ...     found = []
    ...     async for path in files("/"): found.append(await read(path))''')
    >>> recursive_flows_as_visits(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main():
        found = []
    <BLANKLINE>
        async def each_at_1(path):
            found.append(await read(path))
    <BLANKLINE>
        async def files_at_1(folder_at_1):
            for one_at_1 in await entries(folder_at_1):
                if one_at_1.is_folder:
                    await files_at_1(one_at_1.path)
                else:
                    await each_at_1(one_at_1.path)
        await files_at_1('/')
    """
    found = {
        one.name: one
        for one in module.body
        if isinstance(one, ast.AsyncFunctionDef) and not one.decorator_list and _visits(one) is not None
    }
    if not found:
        return False
    visiting = _Visiting(found, Fresh(nodes))
    for one in nodes.of(ast.AsyncFunctionDef):
        if not is_generator(one):
            visiting.function(one)
    others = [one for one in module.body if one not in found.values()]
    uses = {one.id for part in others for one in walk(part) if isinstance(one, ast.Name)}
    module.body = [*visiting.lists.values(), *(one for name, one in found.items() if name in uses), *others]
    return visiting.is_changed


def _visits(function: ast.AsyncFunctionDef) -> list[ast.AsyncFor] | None:
    """Where a generator yields all that it yields itself of something else; None if it is not so plain."""
    found: list[ast.AsyncFor] = []
    for one in own_nodes(*function.body):
        match one:
            case ast.AsyncFor(
                target=ast.Name(id=item),
                iter=ast.Call() as call,
                body=[ast.Expr(value=ast.Yield(value=ast.Name(id=given)))],
                orelse=[],
            ) if name_called(call) == function.name and item == given:
                found.append(one)
            case ast.Try() | ast.With() | ast.AsyncWith():
                if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in own_nodes(one)):
                    return None
            case _:
                pass
    uses = sum(isinstance(one, ast.Name) and one.id == function.name for one in walk(function))
    return found if found and uses == len(found) and yields_of(function.body) else None


class _Visiting:
    """Writes the loops and comprehensions of a file over some generators anew."""

    def __init__(self, generators: Mapping[str, ast.AsyncFunctionDef], fresh: Fresh) -> None:
        self.generators, self.fresh, self.is_changed = generators, fresh, False
        self.lists: dict[str, ast.AsyncFunctionDef] = {}
        """By the name of a generator, the function that gives all it yields as a list."""

    def function(self, node: ast.AsyncFunctionDef) -> None:
        """The loops and comprehensions of one function."""
        for one in list(own_nodes(node)):
            if isinstance(one, ast.stmt):
                for block in blocks_in(one):
                    block[:] = [made for each in block for made in self._visited(each, node)]
            elif isinstance(one, ast.comprehension) and one.is_async and isinstance(one.iter, ast.Call):
                generator = self.generators.get(name_called(one.iter))
                if generator is not None:
                    listed = self.lists.get(generator.name) or self._list(generator)
                    one.iter.func = placed(ast.Name(listed.name, ast.Load()), one.iter.func)
                    one.iter, one.is_async = placed(ast.Await(one.iter), one.iter), 0
                    self.is_changed = True

    def _list(self, generator: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        made, name, rows = copy.deepcopy(generator), self.fresh(generator.name), self.fresh("rows")
        end = f"return {rows}"
        for one in [each for each in own_nodes(*made.body) if isinstance(each, ast.Return)]:
            one.value = parsed(rows, one)
        made.body = _without_yields(made, name, f"{rows}.append", f"{rows}.extend")
        made.body = [*parsed_lines([f"{rows} = []"], generator), *made.body, *parsed_lines([end], generator)]
        made.name, made.returns = name, None
        self.lists[generator.name] = made
        return made

    def _visited(self, one: ast.stmt, around: ast.AsyncFunctionDef) -> list[ast.stmt]:
        """A loop over a generator as the functions that do what it does, and a call."""
        if not isinstance(one, ast.AsyncFor) or not isinstance(one.iter, ast.Call):
            return [one]
        generator, call = self.generators.get(name_called(one.iter)), one.iter
        if generator is None or one.orelse or ends_loop(one.body):
            return [one]
        target, body = one.target, one.body
        one.target, one.body = ast.Name("_", ast.Store()), []
        set_around = names_bound(*around.body) | _given(around)
        used = names_read(*around.body) | set_around
        one.target, one.body = target, body
        shared = names_bound(target, *body) & used
        own = names_bound(*generator.body) | _given(generator)
        if not shared <= set_around or (names_read(*generator.body) - own) & set_around:
            return [one]
        self.is_changed = True
        each, visit = self.fresh("each"), self.fresh(generator.name)
        called = self._body_function(one, each, shared)
        made, names = copy.deepcopy(generator), {name: self.fresh(name) for name in sorted(own)}
        does = f"await {each}" if isinstance(called, ast.AsyncFunctionDef) else each
        body = _without_yields(made, visit, does, "")
        renaming = RenamingOwn(names)
        made.body = [cast("ast.stmt", renaming.visit(each)) for each in body]
        for part in parameters_of(made.args):
            part.arg, part.annotation = names[part.arg], None
        for part in own_nodes(*made.body):
            if isinstance(part, ast.Call) and name_called(part) == visit:
                for word in part.keywords:
                    word.arg = names.get(word.arg, word.arg) if word.arg else None
        for word in call.keywords:
            word.arg = names.get(word.arg, word.arg) if word.arg else None
        made.name, made.returns = visit, None
        call.func = placed(ast.Name(visit, ast.Load()), call.func)
        return [called, made, placed(ast.Expr(ast.Await(call)), one)]

    def _body_function(
        self, one: ast.AsyncFor, name: str, shared: set[str]
    ) -> ast.FunctionDef | ast.AsyncFunctionDef:
        """The body of a loop as a function of an item, in which `continue` returns."""
        returns = {id(each): placed(ast.Return(), each) for each in jumps_out(one.body)}
        body: list[ast.stmt] = [cast("ast.stmt", PuttingNodes(returns).visit(each)) for each in one.body]
        if isinstance(one.target, ast.Name) and one.target.id not in shared:
            item = one.target.id
        else:
            item = self.fresh("item")
            body.insert(0, placed(ast.Assign([one.target], ast.Name(item, ast.Load())), one.target))
        if shared:
            body.insert(0, placed(ast.Nonlocal(sorted(shared)), one))
        kind = ast.AsyncFunctionDef if any(map(waits, body)) else ast.FunctionDef
        made = kind(name, ast.arguments([], [ast.arg(item)], None, [], [], None, []), body, [], None)
        vars(made)["type_params"] = []
        return placed(made, one)


def _without_yields(function: ast.AsyncFunctionDef, itself: str, each: str, every: str) -> list[ast.stmt]:
    """The body of a generator that calls `each` with what it yields, `every` with what it has of itself."""
    places: dict[int, ast.AST] = {}
    for one in own_nodes(*function.body):
        match one:
            case ast.AsyncFor(iter=ast.Call() as call) if name_called(call) == function.name:
                call.func = placed(ast.Name(itself, ast.Load()), call.func)
                places[id(one)] = _done(every, ast.Await(call), one)
            case ast.Expr(value=ast.Yield(value=value)):
                places[id(one)] = _done(each, value or ast.Constant(None), one)
            case _:
                pass
    return [cast("ast.stmt", PuttingNodes(places).visit(one)) for one in function.body]


def _done(called: str, value: ast.expr, place: ast.AST) -> ast.stmt:
    """A statement that calls a function with a value, or is the value alone."""
    if not called:
        return placed(ast.Expr(value), place)
    does = parsed(f"{called}(None)", place)
    call = does.value if isinstance(does, ast.Await) else does
    cast("ast.Call", call).args = [value]
    return placed(ast.Expr(does), place)


def _given(function: ast.AsyncFunctionDef) -> set[str]:
    return {one.arg for one in parameters_of(function.args)}
