"""Loops that await over a table of pure functions, as loops over its places: no variable keeps a function.

In: the tree of a file, which is changed in place. `for fits, team in RULES:` becomes a loop over the numbers
of the rules, in which `fits` is `RULES[number][0]`. A table that is set more than once stays.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping, Sequence

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in
from callsheet.frontends.python.source import Nodes, children, names_bound, own_nodes, waits, walk
from callsheet.frontends.python.syntax import PuttingNames, assignment, placed

_Table = ast.List | ast.Tuple | ast.Dict


def tables_by_place(module: ast.Module, nodes: Nodes) -> bool:
    """Write such loops of a file as loops over numbers; whether there were any.

    >>> module = ast.parse('''RULES = [(lambda s: "log" in s, "auth"), (str.isupper, "loud")]
    ... async def main(text):
    ...     for fits, team in RULES:
    ...         if fits(text):
    ...             await post(team)''')
    >>> tables_by_place(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1]))
    async def main(text):
        for place_at_1 in range(len(RULES)):
            team = RULES[place_at_1][1]
            if RULES[place_at_1][0](text):
                await post(team)
    """
    pure = {one.name for one in module.body if isinstance(one, ast.FunctionDef)}
    literals = nodes.of(ast.List, ast.Tuple, ast.Dict)
    if not any(_is_function(each, pure) for one in literals for each in children(one)):
        return False
    constants = _tables(module.body)
    fresh, changed = Fresh(nodes), False
    for function in nodes.of(ast.AsyncFunctionDef):
        own = _tables([one for one in own_nodes(*function.body) if isinstance(one, ast.stmt)])
        here = names_bound(*function.body)
        known = {name: made for name, made in constants.items() if name not in here}
        changed = _Loops({**known, **own}, pure, fresh).function(function) or changed
    return changed


def _tables(body: Sequence[ast.stmt]) -> dict[str, _Table]:
    """The literals that variables are set to, once."""
    found: dict[str, _Table] = {}
    times: dict[str, int] = {}
    for one in body:
        for name in names_bound(one) if not list(blocks_in(one)) else ():
            times[name] = times.get(name, 0) + 1
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.List() | ast.Tuple() | ast.Dict() as made)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.List() | ast.Tuple() | ast.Dict() as made)
            ):
                found[name] = made
            case _:
                pass
    return {name: made for name, made in found.items() if times[name] == 1}


class _Loops:
    """Writes the loops of one function."""

    def __init__(self, tables: Mapping[str, _Table], pure: set[str], fresh: Fresh) -> None:
        self.tables, self.pure, self.fresh = tables, pure, fresh
        self.is_changed = False

    def function(self, node: ast.AsyncFunctionDef) -> bool:
        """The loops of a function; whether one was changed."""
        self.uses = [one for one in walk(node) if isinstance(one, ast.Name)]
        self._block(node.body)
        return self.is_changed

    def _block(self, body: list[ast.stmt]) -> None:
        made: list[ast.stmt] = []
        for one in body:
            if isinstance(one, ast.For) and any(map(waits, one.body)):
                before = self._loop(one)
                self.is_changed = self.is_changed or before is not None
                made += before or []
            made.append(one)
            if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for block in blocks_in(one):
                    self._block(block)
        body[:] = made

    def _loop(self, one: ast.For) -> list[ast.stmt] | None:
        """Change a loop over a table with functions; what has to stand before it, None for any other loop."""
        before: list[ast.stmt] = []
        match one.iter:
            case ast.Name(id=name) if name in self.tables:
                table, held = self.tables[name], name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="items"), args=[]) if isinstance(
                self.tables.get(name), ast.Dict
            ):
                table, held = self.tables[name], name
            case ast.List() | ast.Tuple() as table:
                held = self.fresh("table")
                before.append(assignment(held, table, one))
            case _:
                return None
        is_items = isinstance(one.iter, ast.Call)
        if isinstance(table, ast.Dict):
            if not is_items or not isinstance(one.target, ast.Tuple) or None in table.keys:
                return None
            rows: list[list[ast.expr]] = [
                [key, value] for key, value in zip(table.keys, table.values, strict=True) if key
            ]
        elif isinstance(one.target, ast.Tuple):
            if not all(isinstance(row, (ast.Tuple, ast.List)) for row in table.elts):
                return None
            rows = [row.elts for row in table.elts if isinstance(row, (ast.Tuple, ast.List))]
        else:
            rows = [[row] for row in table.elts]
        targets = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
        names = [part.id for part in targets if isinstance(part, ast.Name)]
        if len(names) != len(targets) or not rows or any(len(row) != len(names) for row in rows):
            return None
        functions = [at for at in range(len(names)) if any(_is_function(row[at], self.pure) for row in rows)]
        is_pure = all(
            _is_function(row[at], self.pure) or _is_none(row[at]) for at in functions for row in rows
        )
        nodes = Nodes(ast.Module(one.body, []))
        inside = {id(each) for each in (*nodes, *targets)}
        bound = {each.id for each in nodes.of(ast.Name) if isinstance(each.ctx, ast.Store)}
        bound |= names_bound(*one.body) | {each.arg for each in nodes.of(ast.arg)}
        is_own = all(
            names[at] not in bound and all(id(use) in inside for use in self.uses if use.id == names[at])
            for at in functions
        )
        if not functions or not is_pure or not is_own:
            return None
        place = self.fresh("place")
        parts = [_part(held, place, at, is_items) for at in range(len(names))]
        if isinstance(one.target, ast.Name):
            parts = [ast.Subscript(ast.Name(held, ast.Load()), ast.Name(place, ast.Load()), ast.Load())]
        putting = PuttingNames({names[at]: parts[at] for at in functions})
        one.body = [putting.visit(each) for each in one.body]
        taken = [assignment(name, parts[at], one) for at, name in enumerate(names) if at not in functions]
        one.body = [*taken, *one.body]
        count = ast.Call(ast.Name("len", ast.Load()), [ast.Name(held, ast.Load())], [])
        one.iter = placed(ast.Call(ast.Name("range", ast.Load()), [count], []), one.iter)
        one.target = placed(ast.Name(place, ast.Store()), one.target)
        return before


def _is_function(node: ast.AST, pure: Container[str]) -> bool:
    match node:
        case ast.Lambda():
            return True
        case ast.Name(id=name):
            return name in pure
        case ast.Attribute(value=ast.Name(id="str" | "int" | "float" | "list" | "dict")):
            return True
        case _:
            return False


def _part(held: str, place: str, at: int, is_items: bool) -> ast.expr:
    table: ast.expr = ast.Name(held, ast.Load())
    number = ast.Name(place, ast.Load())
    if is_items:
        made = ast.Call(ast.Attribute(table, "values", ast.Load()), [], []) if at else table
        return ast.Subscript(ast.Call(ast.Name("list", ast.Load()), [made], []), number, ast.Load())
    return ast.Subscript(ast.Subscript(table, number, ast.Load()), ast.Constant(at), ast.Load())


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
