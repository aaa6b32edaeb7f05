"""Where an OrderedDict is shown as a text: a plan has it as a dict, and Python's text of it changed in 3.12.

In: the nodes of a file. Out: nothing, or `Refused` (PYT026) for the first such place.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from typing import Final

from callsheet.frontends.python.source import Nodes, Refused, last_name

_ORDERED: Final = "OrderedDict"
_SHOWN: Final = frozenset({"str", "repr", "print", "format"})


def check_ordered_texts(nodes: Nodes) -> None:
    """Raises Refused (PYT026) where the text of an OrderedDict, or of a list or dict with one, is asked for.

    >>> check_ordered_texts(Nodes(ast.parse("d = OrderedDict(a=1); text = f'{d}'")))
    Traceback (most recent call last):
    callsheet.frontends.python.source.Refused: d is an OrderedDict, whose text is not that of a dict
    """
    names: set[str] = set()
    makers = {_ORDERED}
    for one in nodes:
        match one:
            case ast.ImportFrom(names=imported):
                makers |= {each.asname for each in imported if each.name == _ORDERED and each.asname}
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ) if _is_ordered(value, names, makers):
                names.add(name)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if _is_of(annotation, makers):
                names.add(name)
            case _:
                pass
    for one in nodes:
        for part in (part for shown in _shown(one) for part in _parts(shown)):
            if _is_ordered(part, names, makers):
                text = ast.unparse(part)
                raise Refused(
                    "PYT026",
                    part,
                    f"{text} is an OrderedDict, whose text is not that of a dict",
                    f"write dict({text}): a dict keeps the order of its items, too",
                )


def _is_of(kind: ast.expr, makers: Container[str]) -> bool:
    base = kind.value if isinstance(kind, ast.Subscript) else kind
    return last_name(base) in makers


def _is_ordered(value: ast.expr, names: Container[str], makers: Container[str]) -> bool:
    """Whether an expression makes an OrderedDict, or is a variable with one."""
    match value:
        case ast.Name(id=name):
            return name in names
        case ast.Call(func=ast.Attribute(value=copied, attr="copy")):
            return _is_ordered(copied, names, makers)
        case ast.Call(func=func):
            return _is_of(func, makers)
        case _:
            return False


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


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """What the text of an expression has the texts of."""
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Dict(values=items):
            for one in items:
                yield from _parts(one)
        case _:
            yield value
