"""Names that a file gives asyncio, time, and what is in them: `asyncio.gather`, however it was imported.

In: the tree of a file, which is changed in place, so that who reads it later knows one spelling. A name that
means something else anywhere in the file keeps its own spelling, and so does one that a function gives and
others use: there it is a tool, or nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from callsheet.frontends.python.rewrites.inlining import blocks_of, rewrite_blocks
from callsheet.frontends.python.source import SCOPES, Nodes, among, dotted, own_nodes, walk
from callsheet.frontends.python.syntax import placed

_MODULES: Final = frozenset({"asyncio", "time"})
"""The modules of which rewrites ask for what they know by its full name."""
_HOLDERS: Final = ("id", "arg", "name", "rest")
"""The fields of nodes that bind a name."""


def modules_by_their_names(module: ast.Module, nodes: Nodes) -> bool:
    """Write all uses of these modules with their own names; whether any was written otherwise.

    >>> module = ast.parse('''from asyncio import gather as g
    ... async def main():
    ...     wait = asyncio.sleep
    ...     await wait(1)
    ...     return await g(f(1), f(2))''')
    >>> modules_by_their_names(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    import asyncio
    <BLANKLINE>
    async def main():
        pass
        await asyncio.sleep(1)
        return await asyncio.gather(f(1), f(2))
    """
    imported = {
        (name, full)
        for one in module.body
        if isinstance(one, (ast.Import, ast.ImportFrom))
        for name, full in _imported(one)
    }
    meant = {name: full for name, full in imported if name != full}
    kept = dict(filter(all, (_given(one, meant) for one in nodes.of(ast.Assign))))
    if not meant and not kept:
        return False
    bound, elsewhere = _bound(nodes), _used_elsewhere(nodes, kept)
    meanings = Counter(name for name, _ in imported)
    meant = {
        name: full
        for name, full in meant.items()
        if name not in bound and _module(full) not in bound and meanings[name] == 1
    }
    kept = {
        name: full
        for name, full in kept.items()
        if bound.get(name) == 1
        and _module(full) not in bound
        and name not in meanings
        and name not in elsewhere
    }

    def written(one: ast.stmt) -> list[ast.stmt] | None:
        if isinstance(one, ast.Assign) and _given(one, meant)[0] in kept:
            return [placed(ast.Pass(), one)]
        if isinstance(one, (ast.Import, ast.ImportFrom)) and one in module.body:
            return _without(one, meant)
        return None

    found = rewrite_blocks([module.body, *blocks_of(nodes)], written)
    _InFull({**meant, **kept}).visit(module)
    return found


def _bound(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """How often each name is bound by something else than an import."""
    found: dict[str, int] = {}
    for one in nodes:
        if isinstance(one, (ast.alias, ast.keyword)) or isinstance(getattr(one, "ctx", None), ast.Load):
            continue
        for field in _HOLDERS:
            name = getattr(one, field, None)
            if isinstance(name, str):
                found[name] = found.get(name, 0) + 1
        for name in one.names if isinstance(one, (ast.Global, ast.Nonlocal)) else ():
            found[name] = found.get(name, 0) + 1
    return found


def _used_elsewhere(nodes: Nodes, names: Collection[str]) -> set[str]:
    """Those of some names that a function or class sets, and that stand outside of it, too."""
    everywhere = Counter(one.id for one in nodes.of(ast.Name) if one.id in names)
    found = set[str]()
    for scope in nodes.of(*SCOPES) if everywhere else ():
        set_here = {one.id for one in among(own_nodes(scope), ast.Name) if isinstance(one.ctx, ast.Store)}
        if not set_here.isdisjoint(everywhere):
            inside = Counter(one.id for one in among(walk(scope), ast.Name))
            found.update(name for name in set_here if inside[name] < everywhere[name])
    return found


def _module(full: str) -> str:
    return full.partition(".")[0]


def _imported(one: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The names that an import gives the modules and their parts, with what they are."""
    if isinstance(one, ast.Import):
        return [(each.asname or each.name, each.name) for each in one.names if each.name in _MODULES]
    if one.module not in _MODULES or one.level:
        return []
    return [(each.asname or each.name, f"{one.module}.{each.name}") for each in one.names if each.name != "*"]


def _given(one: ast.Assign, meant: Mapping[str, str]) -> tuple[str, str]:
    """The name that an assignment gives a part of a module, and what it is; two empty texts for others."""
    match one:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name() as value):
            first, dot, rest = (dotted(value) or "").partition(".")
            full = meant.get(first, first) + dot + rest
            return (name, full) if "." in full and _module(full) in _MODULES else ("", "")
        case _:
            return "", ""


def _without(one: ast.Import | ast.ImportFrom, meant: Mapping[str, str]) -> list[ast.stmt] | None:
    """An import without what has its full name now, and those of the modules."""
    given = {name: meant[name] for name, _ in _imported(one) if name in meant}
    if not given:
        return None
    modules = sorted({_module(full) for full in given.values()})
    made: list[ast.stmt] = [placed(ast.Import([ast.alias(each) for each in modules]), one)]
    one.names = [each for each in one.names if (each.asname or each.name) not in given]
    return [*made, one] if one.names else made


class _InFull(ast.NodeTransformer):
    """Writes names as what they mean."""

    def __init__(self, meant: Mapping[str, str]) -> None:
        self.meant = meant

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        full = self.meant.get(node.id)
        if full is None:
            return node
        first, _, last = full.partition(".")
        made: ast.expr = ast.Name(first, ast.Load())
        if last:
            made = ast.Attribute(ast.copy_location(made, node), last, ast.Load())
        return ast.copy_location(made, node)
