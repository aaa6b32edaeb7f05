"""Where the order of a set is seen: Python's differs in each run, a plan goes through a set in sorted order.

In: the tree of a file. Out: a warning (PYT104) for each place where a list, a text, a call or an answer may
depend on that order. What does not (`in`, `len`, `sorted`, `sum`, a loop that only adds up) is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from callsheet.frontends.python.source import Refused, dotted, last_name, own_nodes, walk

_MAKERS: Final = frozenset({"set", "frozenset"})
_METHODS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_TAKERS: Final = frozenset(
    {"list", "tuple", "enumerate", "zip", "iter", "map", "filter", "reversed", "dict.fromkeys"}
)
_SHOWN: Final = frozenset({"str", "repr", "json.dumps", "print"})
_ORDERLESS: Final = frozenset(
    {"any", "all", "sum", "min", "max", "sorted", "set", "frozenset", "len", "Counter"}
)
_MOST_SHOWN: Final = 40
_GROWING: Final = frozenset({"append", "extend", "insert", "appendleft", "write", "setdefault"})


def orders_seen(module: ast.Module) -> list[Refused]:
    """The warnings for a file, in no order.

    >>> found = orders_seen(ast.parse('''names = {row["name"] for row in rows}
    ... a = ", ".join(names)
    ... b = sorted(names), len(names), "x" in names, sum(len(n) for n in names)'''))
    >>> [(one.code, one.node.lineno) for one in found]
    [('PYT104', 2)]
    """
    found: list[Refused] = []
    for scope in walk(module):
        if isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
            sets = _sets_of(scope)
            found += (_seen(one, name) for one, name in _places(scope, sets))
    return found


def _seen(node: ast.AST, source: ast.expr) -> Refused:
    text = ast.unparse(source)
    text = text if len(text) < _MOST_SHOWN else "…"
    told = f"this sees the order of the set {text}: Python's is another one in each run, a plan's is sorted"
    return Refused("PYT104", node, told.replace(" …", ""), f"write sorted({text}), if that is meant")


def _sets_of(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The variables of a scope that hold sets, as far as its text tells."""
    made, others = set[str](), set[str]()
    if not isinstance(scope, ast.Module):
        of = scope.args
        for one in (*of.posonlyargs, *of.args, *of.kwonlyargs):
            (made if one.annotation is not None and _is_set_type(one.annotation) else others).add(one.arg)
    changed = True
    while changed:
        changed = False
        for one in own_nodes(*scope.body):
            match one:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    is_set = _is_set(value, made)
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                    is_set = _is_set_type(annotation) or (value is not None and _is_set(value, made))
                case _:
                    continue
            if is_set and name not in made:
                made.add(name)
                changed = True
    return made - others


def _is_set_type(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(base, ast.Name) and base.id in _MAKERS


def _is_set(node: ast.expr, sets: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Name(id=name):
            return name in sets
        case ast.Call(func=ast.Name(id=name)) if name in _MAKERS:
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _METHODS:
            return _is_set(value, sets)
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, sets) or (not isinstance(node.op, ast.Sub) and _is_set(right, sets))
        case ast.IfExp(body=first, orelse=second):
            return _is_set(first, sets) or _is_set(second, sets)
        case _:
            return False


def _places(
    scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, sets: set[str]
) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The nodes of a scope that see the order of a set, each with the set."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(own_nodes(*(one for one in scope.body if not isinstance(one, functions))))
    orderless = {
        id(each)
        for one in nodes
        if isinstance(one, ast.Call) and last_name(one.func) in _ORDERLESS
        for each in one.args
    }
    for one in nodes:
        match one:
            case ast.For(iter=source, body=body):
                if _is_set(source, sets) and _tells(body):
                    yield source, source
            case ast.ListComp() | ast.DictComp() | ast.GeneratorExp() if id(one) not in orderless:
                for part in one.generators:
                    if _is_set(part.iter, sets):
                        yield part.iter, part.iter
            case ast.Call(func=func, args=args):
                name = dotted(func) or ""
                is_join = isinstance(func, ast.Attribute) and func.attr in {"join", "extend"}
                is_one_by_one = name in _TAKERS and id(one) not in orderless
                if is_join or is_one_by_one or name in _SHOWN:
                    yield from ((each, each) for each in args if _is_set(each, sets))
                if name.endswith(".pop") and isinstance(func, ast.Attribute) and not args:
                    yield from ((one, each) for each in [func.value] if _is_set(each, sets))
            case ast.FormattedValue(value=value) | ast.Starred(value=value, ctx=ast.Load()):
                if _is_set(value, sets) and id(one) not in orderless:
                    yield value, value
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value) if _is_set(value, sets):
                yield value, value
            case _:
                pass


def _tells(body: list[ast.stmt]) -> bool:
    """Whether a loop does what depends on the order of its rounds."""
    for one in own_nodes(*body):
        if isinstance(one, (ast.Await, ast.Yield, ast.Return, ast.Break)):
            return True
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store):
            return True
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _GROWING:
            return True
        if isinstance(one, ast.AugAssign) and not isinstance(one.op, ast.Add | ast.Sub | ast.BitOr):
            return True
    return False
