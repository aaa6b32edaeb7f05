"""What Python's functions and methods do to containers: change one, put into it, copy it, look at it.

In: names, and trees of expressions. Out: facts that hold whatever the values are, without any of the program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from callsheet.frontends.pure_code.laziness import CHANGING_METHODS
from callsheet.frontends.python.source import (
    dotted,
    given_by_default,
    names_bound,
    names_read,
    parameters_of,
    walk,
)

BINDERS: Final = frozenset(
    {
        *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.NamedExpr, ast.withitem, ast.Match),
        *(ast.ExceptHandler, ast.Call),
    }
)
"""The nodes that give variables values, or may put them into containers."""
LAZY: Final = frozenset({"enumerate", "zip", "reversed", "iter", "map", "filter"})
"""Functions whose result takes items of what they are given when one is asked for."""

NUMBER_DRAWS: Final = frozenset(
    {
        *("random", "randint", "randrange", "uniform", "gauss", "normalvariate", "expovariate"),
        *("triangular", "betavariate", "getrandbits"),
    }
)
"""The methods of a random generator that give a number."""
ITEM_DRAWS: Final = frozenset({"choice", "choices", "sample", "shuffle"})
"""The methods of a random generator that give items, or change their order."""
MUTATORS: Final = NUMBER_DRAWS | ITEM_DRAWS | CHANGING_METHODS
"""The methods that change what they are called on."""
HEAP_STORES: Final = frozenset({"heapq.heappush", "heapq.heappushpop", "heapq.heapreplace", "bisect.insort"})
"""The functions that put their second argument into their first."""
PUTS: Final = frozenset({"append", "insert", "add", "setdefault", "appendleft", "update", "extend"})
"""The methods that put their arguments into a container."""
STORES: Final = PUTS | {"heappush"}
FRESH_TEXTS: Final = frozenset(
    {
        *("len", "str", "int", "float", "bool", "sum", "abs", "round", "repr", "any", "all", "isinstance"),
        *("ord", "chr", "range", "format", "hash", "type", "print", "divmod", "pow", "issubclass"),
        "callable",
    }
)
"""The functions whose results nothing else holds: numbers, texts, and their like."""
FRESH_METHODS: Final = frozenset(
    {
        *("strip", "lower", "upper", "title", "split", "rsplit", "splitlines", "join", "replace"),
        *("startswith", "endswith", "format", "lstrip", "rstrip", "count", "index", "find", "isdigit"),
        *("strftime", "isoformat", "date", "total_seconds", "group", "groups", "groupdict", "getvalue"),
        *("encode", "decode", "casefold", "capitalize", "removeprefix", "removesuffix", "partition"),
        *("rpartition", "zfill", "ljust", "rjust", "center", "isalpha", "weekday", "timestamp", "sub"),
        *("findall", "isupper", "islower", "swapcase", "hexdigest", "digest"),
    }
)
"""The methods whose results nothing else holds."""
SHALLOW: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "sorted", "reversed", "dict", "filter", "deque", "defaultdict",
     "Counter",
     "OrderedDict", "iter", "copy"}
)  # fmt: skip
"""What makes a new container of the same items."""


def function_of(name: str, node: ast.AST | None) -> ast.FunctionDef | None:
    """The function that a definition, or a lambda in its place, stands for; None for anything else."""
    match node:
        case ast.FunctionDef():
            return node
        case ast.Assign(value=ast.Lambda() as value) | ast.AnnAssign(value=ast.Lambda() as value):
            return function_of(name, value)
        case ast.Lambda(args=args, body=body):
            made = ast.FunctionDef(name, args, [ast.copy_location(ast.Return(body), body)], [], None)
            return ast.copy_location(made, node)
        case _:
            return None


def defaults_of(function: ast.FunctionDef) -> list[ast.expr]:
    """The values of parameters that a call need not give, unless they are constants."""
    return [one for _, one in given_by_default(function.args) if not isinstance(one, ast.Constant)]


def looked_through(node: ast.expr) -> list[ast.expr]:
    """The containers that an iterator or a view looks at, whose later changes it shows."""
    match node:
        case ast.Call(
            func=ast.Name(id="zip" | "enumerate" | "map" | "filter" | "iter" | "reversed"), args=args
        ):
            return [one for one in args if isinstance(one, ast.Name)]
        case ast.Call(func=ast.Attribute(attr="items" | "keys" | "values", value=value), args=[]):
            return [value]
        case ast.GeneratorExp():
            own = names_bound(*(one.target for one in node.generators))
            named = [one for one in walk(node) if isinstance(one, ast.Name)]
            return [one for one in named if one.id not in own]
        case _:
            return []


def makes_iterator(value: ast.expr, name: str) -> bool:
    """Whether an expression, with the full name of what it calls, gives an iterator.

    >>> [makes_iterator(ast.parse(one, mode="eval").body, one[:4]) for one in ("iter(x)", "list(x)")]
    [True, False]
    """
    if isinstance(value, ast.GeneratorExp):
        return True
    is_reader = name in {"csv.reader", "re.finditer"}
    return isinstance(value, ast.Call) and (name in LAZY or is_reader or name.startswith("itertools."))


def iterators_set(one: ast.AST, full_name: Callable[[ast.expr], str]) -> set[str]:
    """The variables to which a statement gives an iterator; `full_name` is of what a value calls."""
    match one:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = list(zip(names, values, strict=False))
        case ast.Assign(targets=targets, value=value):
            pairs = [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            pairs = [(target, value)]
        case _:
            pairs = []
    return {
        target.id
        for target, value in pairs
        if isinstance(target, ast.Name) and makes_iterator(value, full_name(value))
    }


def taken_from(node: ast.AST) -> list[ast.expr]:
    """What a node takes items of, if that is an iterator.

    >>> [ast.unparse(one) for one in taken_from(ast.parse("list(it)", mode="eval").body)]
    ['it']
    """
    match node:
        case ast.Call(args=args):
            return [one.value if isinstance(one, ast.Starred) else one for one in args]
        case ast.For(iter=source) | ast.comprehension(iter=source) | ast.Starred(value=source):
            return [source]
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=source):
            return [source]
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[source]):
            return [source]
        case _:
            return []


def sources_seen(source: ast.expr) -> list[ast.Name]:
    """The variables whose list a loop looks at in each round, so that it would see them grow."""
    match source:
        case ast.Name():
            return [source]
        case ast.Call(func=ast.Name(id="enumerate" | "zip" | "reversed" | "iter"), args=args):
            return [one for one in args if isinstance(one, ast.Name)]
        case _:
            return []


def sets_item(part: ast.AST) -> bool:
    """Whether a statement gives an item of a container another value, and calls nothing."""
    match part:
        case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
            return not any(isinstance(one, (ast.Call, ast.NamedExpr)) for one in walk(part))
        case _:
            return False


def may_be_container(node: ast.expr) -> bool:
    """Whether `x += node` may change a list or set in place: not for numbers and texts."""
    if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare, ast.UnaryOp)):
        return False
    if isinstance(node, ast.BinOp):
        return may_be_container(node.left) and may_be_container(node.right)
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "").split(".")[-1] not in FRESH_TEXTS
    return True


_ARITHMETIC: Final = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def calculated_with(body: Sequence[ast.stmt]) -> set[str]:
    """The variables that statements calculate with: with those of containers that would be an error."""
    found: set[str] = set()
    for node in (one for part in body for one in walk(part)):
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                has_number = any(_is_number(one) for one in (left, right))
                if not has_number or not isinstance(op, (*_ARITHMETIC, ast.Add)):
                    continue
                found |= {one.id for one in (left, right) if isinstance(one, ast.Name)}
            case ast.Compare(left=left, ops=ops, comparators=others) if not any(
                isinstance(one, (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)) for one in ops
            ):
                if any(map(_is_number, (left, *others))):
                    found |= {one.id for one in (left, *others) if isinstance(one, ast.Name)}
            case ast.AugAssign(target=ast.Name(id=name), value=value) if _is_number(value):
                found.add(name)
            case ast.Call(func=ast.Name(id="isinstance" | "type")):
                return set()  # it may be a number in one case, and a container in another
            case _:
                pass
    return found


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def is_plain(node: ast.expr) -> bool:
    """Whether an operand is no container: a constant, a text, a number, or what is one if there is none."""
    match node:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[_, default]):
            return _is_number(default)
        case ast.Call(func=func):
            return (dotted(func) or "") in FRESH_TEXTS - {"sum"}
        case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Mult):
            return is_plain(left) or is_plain(right)
        case _:
            return False


def generators_in(value: ast.expr) -> Iterator[tuple[ast.expr, set[str]]]:
    """The generators that a value is or holds, each with the names that it reads when an item is taken."""
    match value:
        case ast.GeneratorExp(elt=item, generators=[first, *others]):
            yield value, names_read(item, *first.ifs, *others) - names_bound(first.target)
        case ast.Call(func=ast.Name(id="map" | "filter"), args=[ast.Lambda() as function, *_]):
            yield value, names_read(function.body) - {one.arg for one in parameters_of(function.args)}
        case ast.Call(func=ast.Name(id=name), args=parts) if name in LAZY:
            for one in parts:
                yield from generators_in(one)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            for one in parts:
                yield from generators_in(one)
        case _:
            pass
