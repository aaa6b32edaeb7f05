"""Groups of calls inside of groups, as functions: `gather(f(), gather(g(), h()))` is `gather(f(), group())`.

In: the tree of a file, which is changed in place. A group inside of a comprehension becomes a function of
what the comprehension goes through. A group that awaits in what it is given stays.
"""

from __future__ import annotations

import ast
from typing import cast

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of, rewrite_blocks
from callsheet.frontends.python.source import Nodes, dotted, names_bound, own_nodes, waits
from callsheet.frontends.python.syntax import placed

_Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp


def nested_groups_as_functions(nodes: Nodes) -> bool:
    """Write the gathers inside of gathers as functions around them; whether there were any.

    >>> module = ast.parse('''async def main(rows):
    ...     return await asyncio.gather(
    ...         first(), *[asyncio.gather(price(one), stock(one)) for one in rows])''')
    >>> nested_groups_as_functions(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main(rows):
    <BLANKLINE>
        async def group_at_1(one):
            return await asyncio.gather(price(one), stock(one))
        return await asyncio.gather(first(), *[group_at_1(one) for one in rows])
    """
    if sum(map(_is_gather, nodes.of(ast.Call))) < 2:
        return False
    fresh, found = Fresh(nodes), False
    for function in nodes.of(ast.AsyncFunctionDef):
        blocks = blocks_of(own_nodes(function))
        found |= rewrite_blocks(blocks, lambda one: _Grouping(fresh).statement(one))
    return found


def _is_gather(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in {"asyncio.gather", "gather"}


class _Grouping(ast.NodeTransformer):
    """Writes the groups inside of the groups of one statement as calls."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh, self.made = fresh, list[ast.stmt]()
        self.depth, self.items = 0, list[str]()

    def statement(self, node: ast.stmt) -> list[ast.stmt] | None:
        """A statement behind the functions that it needs; None if it needs none."""
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for each in ast.iter_child_nodes(node):
                if isinstance(each, ast.expr):
                    self.visit(each)
        return [*self.made, node] if self.made else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call; a gather inside of another becomes that of a function."""
        if not _is_gather(node):
            return self.generic_visit(node)
        if self.depth and not any(map(waits, [*node.args, *node.keywords])):
            name, items = self.fresh("group"), sorted({*self.items})
            self.depth, around = 0, self.depth
            inner = placed(ast.Await(cast("ast.expr", self.visit_Call(node))), node)
            self.depth = around
            parameters = ast.arguments([], [ast.arg(one) for one in items], None, [], [], None, [])
            made = ast.AsyncFunctionDef(name, parameters, [ast.Return(inner)], [], None)
            vars(made)["type_params"] = []
            self.made.append(placed(made, node))
            given: list[ast.expr] = [ast.Name(one, ast.Load()) for one in items]
            return placed(ast.Call(ast.Name(name, ast.Load()), given, []), node)
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        return node

    def _comprehension(self, node: _Comprehension) -> ast.AST:
        known = len(self.items)
        for part in node.generators:
            self.items += sorted(names_bound(part.target))
        self.generic_visit(node)
        del self.items[known:]
        return node

    visit_ListComp = visit_GeneratorExp = visit_SetComp = _comprehension

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """A function, in which nothing is awaited."""
        return node
