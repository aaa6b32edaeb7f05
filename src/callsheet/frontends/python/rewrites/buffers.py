"""Texts that are put together in a buffer, and what writes into it: `print(…, file=buffer)`, a writer of csv.

In: the tree of a file, which is changed in place. What is printed into a buffer is written into it; a writer,
which holds nothing but its buffer and how rows look, is made where it writes, so that a buffer has one name;
a `with` around a buffer is its assignment. What is printed to sys.stdout or sys.stderr is printed.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final

from callsheet.frontends.python.rewrites.inlining import Fresh, blocks_of, full_names, rewrite_blocks
from callsheet.frontends.python.source import (
    Nodes,
    among,
    dotted,
    names_bound,
    names_read,
    own_nodes,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import placed

_STREAMS: Final = frozenset({"sys.stdout", "sys.stderr"})
_WRITERS: Final = frozenset({"writer", "DictWriter"})
_WRITES: Final = frozenset({"writerow", "writerows", "writeheader"})


def buffers_as_texts(module: ast.Module, nodes: Nodes) -> bool:
    """Write what a file does with buffers in plain words; whether it has any.

    >>> module = ast.parse('''import csv, io
    ... async def main(rows):
    ...     with io.StringIO() as buffer:
    ...         out = csv.writer(buffer, delimiter=";")
    ...         for row in rows:
    ...             out.writerow(await more(row))
    ...         print("end", len(rows), file=buffer)
    ...         return buffer.getvalue()''')
    >>> buffers_as_texts(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[1]))
    async def main(rows):
        buffer = io.StringIO()
        out = None
        for row in rows:
            row_at_1 = await more(row)
            csv.writer(buffer, delimiter=';').writerow(row_at_1)
        buffer.write(f"{'end'!s} {len(rows)!s}\\n")
        return buffer.getvalue()
    """
    is_printed = any(isinstance(one, ast.keyword) and one.arg == "file" for one in nodes)
    if not is_printed and not nodes.has("StringIO", *_WRITERS):
        return False
    fresh, called = Fresh(nodes), full_names(module)
    if not any(one.name == "write" for one in nodes.of(ast.FunctionDef)):  # of a class, called piece by piece
        _Printing(_perhaps_none(nodes)).visit(module)
    for one in nodes.of(ast.AsyncFunctionDef):
        _without_contexts(one, called)
        if _without_writers(one, called):
            _rows_first(one, fresh)
    if is_printed and not any(isinstance(one, ast.Name) and one.id == "sys" for one in walk(module)):
        for one in (each for each in module.body if isinstance(each, ast.Import)):
            one.names = [each for each in one.names if (each.name, each.asname) != ("sys", None)]
        module.body = [one for one in module.body if not isinstance(one, ast.Import) or one.names]
    return True


class _Printing(ast.NodeTransformer):
    """Writes what is printed into a buffer; where that may be None at run time, it is printed."""

    def __init__(self, perhaps_none: Container[str]) -> None:
        self.perhaps_none = perhaps_none

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call, after what is inside it."""
        self.generic_visit(node)
        words = {one.arg: one.value for one in node.keywords if not _is_none(one.value) or one.arg == "file"}
        if dotted(node.func) != "print" or "file" not in words:
            return node
        file = words.pop("file")
        words.pop("flush", None)
        if _is_none(file) or dotted(file) in _STREAMS:
            node.keywords = [one for one in node.keywords if one.arg not in {"file", "flush"}]
            return node
        if not words.keys() <= {"sep", "end"} or not isinstance(file, (ast.Name, ast.Attribute)):
            return node
        write = ast.Attribute(file, "write", ast.Load())
        written = ast.Call(write, [_printed(node.args, words)], [])
        if (file.id if isinstance(file, ast.Name) else file.attr) not in self.perhaps_none:
            return placed(written, node)
        node.keywords = [one for one in node.keywords if one.arg not in {"file", "flush"}]
        is_none = ast.Compare(file, [ast.Is()], [ast.Constant(None)])
        return placed(copy.deepcopy(ast.IfExp(is_none, node, written)), node)


def _perhaps_none(nodes: Nodes) -> set[str]:
    """The parameters of a file, and what is set in it to anything but what is called for."""
    found = {one.arg for one in nodes.of(ast.arg)}
    for one in nodes.of(ast.Assign, ast.AnnAssign):
        if not isinstance(one.value, ast.Call):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            inside = [each for target in targets for each in walk(target)]
            found |= {each.id for each in among(inside, ast.Name)}
            found |= {each.attr for each in among(inside, ast.Attribute)}
    return found


def _printed(given: Sequence[ast.expr], words: Mapping[str | None, ast.expr]) -> ast.expr:
    """The text that `print` makes of values."""
    sep, end = words.get("sep", ast.Constant(" ")), words.get("end", ast.Constant("\n"))
    is_plain = all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in (sep, end))
    if not is_plain or any(isinstance(one, ast.Starred) for one in given):
        texts = ast.Call(ast.Name("map", ast.Load()), [ast.Name("str", ast.Load()), _listed(given)], [])
        return ast.BinOp(ast.Call(ast.Attribute(sep, "join", ast.Load()), [texts], []), ast.Add(), end)
    parts: list[ast.expr] = []
    for number, one in enumerate(given):
        parts += [*([sep] if number else []), ast.FormattedValue(one, ord("s"), None)]
    return ast.JoinedStr([*parts, end])


def _listed(given: Sequence[ast.expr]) -> ast.List:
    return ast.List(list(given), ast.Load())


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _without_contexts(function: ast.AsyncFunctionDef, called: Callable[[ast.expr], str]) -> None:
    """Assign the buffers of a function that nothing reads after its `with`, which closes them."""
    inside: set[int] = set()
    for one in among(walk(function), ast.With):
        bound = names_bound(one)
        inside |= {id(each) for each in among(walk(one), ast.Name) if each.id in bound}
    late = {one.id for one in among(walk(function), ast.Name) if id(one) not in inside}

    def assigned(one: ast.stmt) -> list[ast.stmt] | None:
        match one:
            case ast.With(
                items=[ast.withitem(context_expr=ast.Call() as made, optional_vars=ast.Name() as name)],
                body=body,
            ) if called(made).rpartition(".")[2] == "StringIO" and name.id not in late:
                return [placed(ast.Assign([name], made), one), *body]
            case _:
                return None

    rewrite_blocks(blocks_of(own_nodes(function)), assigned)


def _without_writers(function: ast.AsyncFunctionDef, called: Callable[[ast.expr], str]) -> bool:
    """Make each writer of a function where it writes, if it is used for that alone, and made of one thing."""
    nodes, found = list(own_nodes(*function.body)), False
    sets = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    uses = Counter(one.id for one in walk(function) if isinstance(one, ast.Name))
    writes: dict[str, list[ast.Attribute]] = {}
    for one in nodes:
        if isinstance(one, ast.Attribute) and one.attr in _WRITES and isinstance(one.value, ast.Name):
            writes.setdefault(one.value.id, []).append(one)
    for one in nodes:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made) if (
                called(made).rpartition(".")[2] in _WRITERS
            ):
                read = names_read(*made.args, *made.keywords)
                is_still = all(sets[each] <= 1 for each in (name, *read))
                if (
                    is_still
                    and uses[name] == len(writes.get(name, ())) + 1
                    and not any(
                        isinstance(each, (ast.Call, ast.Await)) for each in walk(made) if each is not made
                    )
                ):
                    for each in writes[name]:
                        each.value = ast.copy_location(copy.deepcopy(made), each.value)
                    one.value = placed(ast.Constant(None), made)
                    found = True
            case _:
                pass
    return found


def _rows_first(function: ast.AsyncFunctionDef, fresh: Fresh) -> None:
    """Put what a written row waits for before the statement that makes the writer and writes it."""

    def waited(one: ast.stmt) -> list[ast.stmt] | None:
        match one:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method), args=[row]) as call) if (
                method in _WRITES and waits(row)
            ):
                name = fresh("row")
                call.args = [placed(ast.Name(name, ast.Load()), row)]
                return [placed(ast.Assign([ast.Name(name, ast.Store())], row), one), one]
            case _:
                return None

    rewrite_blocks(blocks_of(own_nodes(function)), waited)
