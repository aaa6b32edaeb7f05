"""Loops over functions that call tools, as loops over their names: `for step in (fetch, store): …`.

In: the tree of a file, which is changed in place. The functions stand in a dict by their names, from which
a plan may choose; calls that a `gather` is given for a list of functions are written out. A variable that is
used for anything but a call, or its `__name__`, stays, and is refused by who reads it.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping, Sequence

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_in, blocks_of, rewrite_blocks
from callsheet.frontends.python.source import Nodes, dotted, names_bound, names_read, own_nodes, waits, walk
from callsheet.frontends.python.syntax import PuttingNames, PuttingNodes, placed

_Literal = ast.List | ast.Tuple


def function_lists_as_names(module: ast.Module, nodes: Nodes) -> bool:
    """Write such loops of a file as loops over names; whether there were any.

    >>> module = ast.parse('''STEPS = [("get", fetch), ("keep", store)]
    ... async def main(x):
    ...     for name, step in STEPS:
    ...         x = await step(x)
    ...     return await asyncio.gather(*[f(x) for f in (fetch, store)])''')
    >>> function_lists_as_names(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    STEPS = [('get', 'fetch'), ('keep', 'store')]
    <BLANKLINE>
    async def main(x):
        steps_at_1 = {'fetch': fetch, 'store': store}
        for name, step in STEPS:
            x = await steps_at_1[step](x)
        return await asyncio.gather(fetch(x), store(x))
    """
    uses = Counter(one.id for one in nodes.of(ast.Name))
    constants = {
        one.targets[0].id: one.value
        for one in module.body
        if isinstance(one, ast.Assign)
        and isinstance(one.targets[0], ast.Name)
        and isinstance(one.value, (ast.List, ast.Tuple))
        and uses[one.targets[0].id] == 2  # where it is set, and where it is gone through
    }
    listing = _Listing(constants, Fresh(nodes))
    for one in nodes.of(ast.AsyncFunctionDef):
        listing.function(one)
    return listing.is_changed


class _Listing:
    """Writes the loops and comprehensions of a file anew."""

    def __init__(self, constants: Mapping[str, _Literal], fresh: Fresh) -> None:
        self.constants, self.fresh, self.is_changed = constants, fresh, False
        self.late = set[str]()
        """The variables of a function that are read outside of the loops that set them."""

    def function(self, node: ast.AsyncFunctionDef) -> None:
        """The loops of one function."""
        self.late = _read_late(node)
        self.is_changed |= rewrite_blocks(blocks_of(own_nodes(node)), self._statement)

    def _statement(self, one: ast.stmt) -> list[ast.stmt] | None:
        """A statement behind the tables that it needs; None if it needs none."""
        before: list[ast.stmt] = []
        if isinstance(one, ast.For):
            inside = [each for part in one.body for each in own_nodes(part)]
            before += self._named(one.iter, one.target, inside, one)
        for each in own_nodes(one) if not any(True for _ in blocks_in(one)) else ():
            if isinstance(each, (ast.ListComp, ast.DictComp)):
                made = [each.key, each.value] if isinstance(each, ast.DictComp) else [each.elt]
                (first, *others) = each.generators
                inside = [part for root in (*made, *first.ifs, *others) for part in own_nodes(root)]
                before += self._named(first.iter, first.target, inside, one)
            elif isinstance(each, ast.Call) and (dotted(each.func) or "").rpartition(".")[2] == "gather":
                each.args = [part for given in each.args for part in self._written_out(given)]
        return [*before, one] if before else None

    def _named(
        self, source: ast.expr, target: ast.expr, inside: Sequence[ast.AST], place: ast.stmt
    ) -> list[ast.stmt]:
        """Write the functions of a loop as names, and its calls as those of a table, which is given."""
        literal = self.constants.get(source.id) if isinstance(source, ast.Name) else source
        if not isinstance(literal, (ast.List, ast.Tuple)):
            return []
        names, rows = _rows(literal, target)
        made: list[ast.stmt] = []
        for at, name in enumerate(names):
            functions = {one.id: one for row in rows if isinstance(one := row[at], ast.Name)}
            awaited = [one.value for one in inside if isinstance(one, ast.Await)]
            calls = [one for one in awaited if isinstance(one, ast.Call) and _is_name(one.func, name)]
            asked = [one for one in inside if isinstance(one, ast.Attribute) and _is_name(one.value, name)]
            uses = sum(_is_name(one, name) for one in inside)
            if name in self.late:
                continue
            is_known = all(isinstance(row[at], ast.Name) for row in rows) and calls
            if not is_known or len(calls) + len(asked) != uses or {one.attr for one in asked} - {"__name__"}:
                continue
            table = self.fresh(f"{name}s")
            for one in calls:
                chosen = ast.Subscript(ast.Name(table, ast.Load()), one.func, ast.Load())
                one.func = placed(chosen, one)
            PuttingNodes({id(one): one.value for one in asked}).visit(place)
            keys: list[ast.expr | None] = [ast.Constant(one) for one in functions]
            value = ast.Dict(keys, [*functions.values()])
            made.append(placed(ast.Assign([ast.Name(table, ast.Store())], value), place))
            for row in rows:
                row[at] = placed(ast.Constant(ast.unparse(row[at])), row[at])
            if isinstance(target, ast.Name):
                literal.elts = [one for row in rows for one in row]
        return made

    def _written_out(self, given: ast.expr) -> list[ast.expr]:
        """The calls that a gather is given for a list of functions, each in turn."""
        match given:
            case ast.Starred(
                value=ast.ListComp(elt=ast.Call(func=ast.Name(id=called)) as call, generators=[part])
                | ast.GeneratorExp(elt=ast.Call(func=ast.Name(id=called)) as call, generators=[part])
            ) if isinstance(part.iter, (ast.List, ast.Tuple)) and not part.ifs:
                names, rows = _rows(part.iter, part.target)
                if called not in names or not rows or not _is_same_by_row(call, names, part.iter):
                    return [given]
                self.is_changed = True
                parts = [dict(zip(names, row, strict=True)) for row in rows]
                return [PuttingNames(each).visit(copy.deepcopy(call)) for each in parts]
            case _:
                return [given]


def _is_same_by_row(call: ast.Call, names: Sequence[str], literal: _Literal) -> bool:
    """Whether a call does the same with what a row holds in the place of its variables.

    What a row computes is computed once, before all calls; what reads a variable late has the last row's.
    """
    inside = [one for part in (*call.args, *call.keywords) for one in walk(part)]
    uses = Counter(one.id for one in inside if isinstance(one, ast.Name))
    held = list(walk(literal))
    if any(isinstance(one, (ast.Lambda, ast.GeneratorExp)) for one in inside) or waits(literal):
        return False
    bound = names_bound(*(one.target for one in inside if isinstance(one, ast.comprehension)))
    if bound & {*names, *names_read(literal)}:
        return False
    if any(isinstance(one, ast.Call) for one in held):
        return not any(isinstance(one, ast.Call) for one in inside) and all(
            uses[name] == 1 for name in names if not _is_name(call.func, name)
        )
    return True


def _rows(literal: _Literal, target: ast.expr) -> tuple[list[str], list[list[ast.expr]]]:
    """The variables of a loop, and what they are set to in its turns; none if that is not plain."""
    if isinstance(target, ast.Name):
        is_plain = not any(isinstance(one, ast.Starred) for one in literal.elts)
        return ([target.id], [[one] for one in literal.elts]) if is_plain else ([], [])
    names = [one.id for one in getattr(target, "elts", ()) if isinstance(one, ast.Name)]
    rows = [one.elts for one in literal.elts if isinstance(one, (ast.List, ast.Tuple))]
    is_plain = len(rows) == len(literal.elts) and all(len(row) == len(names) for row in rows)
    return (names, rows) if is_plain and not isinstance(target, ast.Starred) else ([], [])


def _read_late(function: ast.AsyncFunctionDef) -> set[str]:
    inside: dict[str, set[int]] = {}
    for one in own_nodes(function):
        if isinstance(one, (ast.For, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)):
            parts = [one.target] if isinstance(one, ast.For) else [each.target for each in one.generators]
            roots = one.body if isinstance(one, ast.For) else [one]
            for name in names_bound(*parts):
                inside.setdefault(name, set()).update(id(each) for root in roots for each in walk(root))
    return {
        one.id
        for one in walk(function)
        if isinstance(one, ast.Name)
        and isinstance(one.ctx, ast.Load)
        and id(one) not in inside.get(one.id, ())
    }


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
