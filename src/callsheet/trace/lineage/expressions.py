"""What an expression is made of: which paths in which variables, and which part of its value each goes into.

In: an expression. Out: its sources. A path, a constructor and a choice keep what they are given, in a part of
the value that is known; of everything else the whole value depends on all that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from callsheet.ir.expr import JSON, Literal
from callsheet.ir.expression import (
    Call,
    Coalesce,
    Conditional,
    Display,
    Expression,
    Field,
    Index,
    Kind,
    Logic,
    Unary,
    UnaryOp,
    Variable,
    children,
)
from callsheet.ir.expression import Mapping as Dict
from callsheet.trace.lineage.reads import Computed, Path, Place


class Source(NamedTuple):
    """What the part at `at` of a value is made of: a place in a variable.

    With `is_copy` the part is that very value, so that a path goes on in it; else it only depends on it.
    """

    at: Path
    is_copy: bool
    name: str
    place: Place


_CLOCKS = frozenset({"now", "today"})
CLOCK_READ = "now()"
"""The name under which an expression reads the time."""


def sources_of(node: Expression) -> tuple[Source, ...]:
    """What the value of an expression is made of, each source once.

    >>> from callsheet.frontends.expressions import read_expression
    >>> for one in sources_of(read_expression('{"id": $m.id, "n": len($rows)}').expression):
    ...     print(one)
    Source(at=('id',), is_copy=True, name='m', place=('id',))
    Source(at=('n',), is_copy=False, name='rows', place=())
    """
    return tuple(dict.fromkeys(_sources(node, ())))


def derived_from(nodes: Iterable[Expression]) -> tuple[Source, ...]:
    """As `sources_of`, for values that only depend on all of these expressions."""
    return tuple(dict.fromkeys(one for node in nodes for one in _derived(node, ())))


def _sources(node: Expression, at: Path) -> Iterator[Source]:
    match node:
        case Literal():
            return
        case Variable() | Field() | Index():
            yield from _path(node, at)
        case Coalesce(left=left, right=right):
            yield from _sources(left, at)
            yield from _sources(right, at)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            yield from _sources(then, at)
            yield from _sources(otherwise, at)
            yield from _derived(condition, at)
        case Logic(operands=operands):
            for operand in operands:
                yield from _sources(operand, at)
        case Display(kind=Kind.LIST | Kind.TUPLE, items=items):
            for number, item in enumerate(items):
                yield from _sources(item, (*at, number))
        case Dict(items=items) if all(isinstance(_literal(key), str) for key, _ in items):
            for key, item in items:
                yield from _sources(item, (*at, cast("str", _literal(key))))
        case _:
            yield from _derived(node, at)


def _derived(node: Expression, at: Path) -> Iterator[Source]:
    """The paths that an expression reads, anywhere inside it."""
    if isinstance(node, Variable | Field | Index):
        for source in _path(node, at):
            yield source._replace(is_copy=False)
        return
    if isinstance(node, Call) and node.function in _CLOCKS:
        yield Source(at, False, CLOCK_READ, ())
    for child in children(node):
        yield from _derived(child, at)


def _path(node: Expression, at: Path) -> Iterator[Source]:
    """What a path reads: a place in a variable, and the variables that its keys are computed from."""
    chain: list[Field | Index] = []
    root = node
    while isinstance(root, Field | Index):
        chain.append(root)
        root = root.target
    keys = [step.index for step in chain if isinstance(step, Index)]
    if not isinstance(root, Variable):
        yield from _derived(root, at)
        for key in reversed(keys):
            yield from _derived(key, at)
        return
    place: list[str | int | Computed] = []
    is_known = True
    for step in reversed(chain):
        key = step.name if isinstance(step, Field) else _key(step.index)
        if key is None:
            is_known = False
            break
        place.append(key)
    yield Source(at, is_known, root.name, tuple(place))
    for key in reversed(keys):
        yield from _derived(key, at)


def _key(node: Expression) -> str | int | Computed | None:
    """The key that an expression is, if a path can name it."""
    value = _literal(node)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return value
    if not isinstance(node, Variable | Field | Index):
        return None
    first, *more = _path(node, ())
    if more or not first.is_copy or any(isinstance(key, Computed) for key in first.place):
        return None
    return Computed(first.name, cast("Path", first.place))


def _literal(node: Expression) -> JSON:
    """The value of a literal, also of a negative number; null for any other expression."""
    if isinstance(node, Literal):
        return node.value
    if isinstance(node, Unary) and node.op is UnaryOp.MINUS and isinstance(node.operand, Literal):
        value = node.operand.value
        return -value if isinstance(value, int) and not isinstance(value, bool) else None
    return None


def literal_of(node: Expression) -> tuple[JSON] | None:
    """The value of an expression that reads nothing and computes nothing, in a tuple; None for others.

    >>> from callsheet.frontends.expressions import read_expression
    >>> literal_of(read_expression('["a", {"b": 1}]').expression), literal_of(Variable("x"))
    ((['a', {'b': 1}],), None)
    """
    match node:
        case Literal(value=value):
            return (value,)
        case Display(kind=Kind.LIST, items=items):
            made = [literal_of(item) for item in items]
            return ([one[0] for one in made if one is not None],) if None not in made else None
        case Dict(items=items):
            pairs: Mapping[object, tuple[JSON] | None] = {
                _literal(key): literal_of(one) for key, one in items
            }
            if any(not isinstance(key, str) or one is None for key, one in pairs.items()):
                return None
            return ({str(key): one[0] for key, one in pairs.items() if one is not None},)
        case Unary() if _literal(node) is not None:
            return (_literal(node),)
        case _:
            return None
