"""Where an OrderedDict is shown as a text: a plan has it as a dict, and Python's text of it changed in 3.12.

In: the nodes of a file. Out: nothing, or `Refused` (PYT026) for the first such place.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from typing import Final

from callsheet.frontends.python.source import Refused, dotted

_ORDERED: Final = "OrderedDict"
_SHOWN: Final = frozenset({"str", "repr", "print", "format"})


def check_ordered_texts(nodes: Sequence[ast.AST]) -> None:
    """Raises Refused (PYT026) where the text of an OrderedDict, or of a list or dict with one, is asked for.

    >>> check_ordered_texts(list(ast.walk(ast.parse("d = OrderedDict(a=1); text = f'{d}'"))))
    Traceback (most recent call last):
    callsheet.frontends.python.source.Refused: d is an OrderedDict, whose text is not that of a dict
    """
    names: set[str] = set()
    for one in nodes:
        match one:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ) if _is_made(value):
                names.add(name)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _is_of(annotation):
                names.add(name)
            case _:
                pass
    for one in nodes:
        for shown in _shown(one):
            if _holds(shown, names):
                text = ast.unparse(shown)
                raise Refused(
                    "PYT026",
                    shown,
                    f"{text} is an OrderedDict, whose text is not that of a dict",
                    f"write dict({text}): a dict keeps the order of its items, too",
                )


def _is_of(kind: ast.expr) -> bool:
    base = kind.value if isinstance(kind, ast.Subscript) else kind
    return (dotted(base) or "").rpartition(".")[2] == _ORDERED


def _is_made(value: ast.expr) -> bool:
    """Whether an expression makes an OrderedDict."""
    return isinstance(value, ast.Call) and (
        _is_of(value.func)
        or (
            isinstance(value.func, ast.Attribute) and value.func.attr == "copy" and _is_made(value.func.value)
        )
    )


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.FormattedValue(value=value):
            yield value
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=words) if (
            name in _SHOWN
        ):
            yield from args
            yield from (word.value for word in words)
        case ast.BinOp(left=ast.Constant(value=str()) | ast.JoinedStr(), op=ast.Mod(), right=right):
            yield right
        case _:
            pass


def _holds(value: ast.expr, names: Container[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in names
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return any(_holds(one, names) for one in items)
        case ast.Dict(values=items):
            return any(_holds(one, names) for one in items)
        case _:
            return _is_made(value)
