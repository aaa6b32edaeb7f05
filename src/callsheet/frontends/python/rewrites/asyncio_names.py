"""Names that a file gives asyncio and what is in it: everywhere `asyncio.gather`, however it was imported.

In: the tree of a file, which is changed in place, so that who reads it later knows one spelling. A name that
means something else anywhere in the file keeps its own spelling.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Final

from callsheet.frontends.python.rewrites.inlining import blocks_of, placed, rewrite_blocks
from callsheet.frontends.python.source import Nodes, dotted

_ASYNCIO: Final = "asyncio"
_HOLDERS: Final = ("id", "arg", "name", "rest")
"""The fields of nodes that bind a name."""


def asyncio_by_its_name(module: ast.Module, nodes: Nodes) -> bool:
    """Write all uses of asyncio with its own names; whether any was written otherwise.

    >>> module = ast.parse('''from asyncio import gather as g
    ... async def main():
    ...     wait = asyncio.sleep
    ...     await wait(1)
    ...     return await g(f(1), f(2))''')
    >>> asyncio_by_its_name(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    import asyncio
    <BLANKLINE>
    async def main():
        pass
        await asyncio.sleep(1)
        return await asyncio.gather(f(1), f(2))
    """
    meant = {
        name: full
        for one in module.body
        if isinstance(one, (ast.Import, ast.ImportFrom))
        for name, full in _imported(one)
        if name != full
    }
    kept = dict(filter(all, (_given(one, meant) for one in nodes.of(ast.Assign))))
    if not meant and not kept:
        return False
    bound = _bound(nodes)
    if _ASYNCIO in bound:
        return False
    meant = {name: full for name, full in meant.items() if name not in bound}
    kept = {name: full for name, full in kept.items() if bound.get(name) == 1}

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


def _imported(one: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The names that an import gives asyncio and its parts, with what they are."""
    if isinstance(one, ast.Import):
        return [(each.asname or each.name, _ASYNCIO) for each in one.names if each.name == _ASYNCIO]
    if one.module != _ASYNCIO or one.level:
        return []
    return [(each.asname or each.name, f"{_ASYNCIO}.{each.name}") for each in one.names if each.name != "*"]


def _given(one: ast.Assign, meant: Mapping[str, str]) -> tuple[str, str]:
    """The name that an assignment gives a part of asyncio, and what it is; two empty texts for all others."""
    match one:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name() as value):
            first, dot, rest = (dotted(value) or "").partition(".")
            full = meant.get(first, first) + dot + rest
            return (name, full) if full.startswith(f"{_ASYNCIO}.") else ("", "")
        case _:
            return "", ""


def _without(one: ast.Import | ast.ImportFrom, meant: Mapping[str, str]) -> list[ast.stmt] | None:
    """An import without what has its full name now, and one of asyncio."""
    given = {name for name, _ in _imported(one) if name in meant}
    if not given:
        return None
    rest = [each for each in one.names if (each.asname or each.name) not in given]
    made: list[ast.stmt] = [placed(ast.Import([ast.alias(_ASYNCIO)]), one)]
    if rest:
        one.names = rest
        made.append(one)
    return made


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
