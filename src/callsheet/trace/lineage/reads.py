"""Determines statically what a step or an expression reads: which paths in which variables, in what role.

A path, a constructor and a choice keep what they are given, in a part of the value that is known; of
everything else the whole value depends on all that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias, assert_never, cast

from callsheet.ir import (
    JSON,
    DictExpr,
    ListExpr,
    Literal,
    PathPart,
    Ref,
    Step,
    Template,
    Value,
)
from callsheet.ir.expr import refs_of
from callsheet.ir.expression import Call as FunctionCall
from callsheet.ir.expression import (
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
from callsheet.machine.program import StepCode
from callsheet.machine.values import parse_json

Path: TypeAlias = "tuple[PathPart, ...]"


class Role(StrEnum):
    """What a variable is read for."""

    ARGUMENT = "argument"
    CONDITION = "condition"
    SOURCE = "source"
    """What a FOREACH iterates over; a list literal has no such use, only those of its members."""
    MESSAGE = "message"
    """The message of ON_FAIL TERMINATE, read when the step fails."""


class Computed(NamedTuple):
    """A key that a variable holds, at a path in it: that of `$map[$key.id]`."""

    name: str
    path: Path


Place: TypeAlias = "tuple[PathPart | Computed, ...]"
"""A path in a variable, some of whose keys are known only when it is read."""


class Use(NamedTuple):
    """A step's use of a variable; `argument` is the name of the argument it is part of, else empty.

    `rest` continues the path, from the first key on that is known only when it is read.
    """

    role: Role
    argument: str
    name: str
    path: Path
    rest: Place = ()


class Reads(NamedTuple):
    """All that a step reads. `names` has each variable once; `loop` and `source` are those of its FOREACH."""

    names: tuple[str, ...]
    uses: tuple[Use, ...]
    literals: tuple[tuple[str, JSON], ...]
    """The arguments without variables, by name."""
    loop: str
    source: Value | None


def reads_of(step: Step, code: StepCode) -> Reads:
    """What a step reads."""
    uses: list[Use] = []
    literals: list[tuple[str, JSON]] = []
    if step.foreach is not None and not isinstance(step.foreach.source, ListExpr):
        uses += _uses(Role.SOURCE, "", step.foreach.source)
    if step.condition is not None:
        uses += [Use(Role.CONDITION, "", ref.name, ref.path) for ref in refs_of(step.condition)]
    for name, value in _arguments(step, code):
        uses_of_value = list(_uses(Role.ARGUMENT, name, value))
        uses += uses_of_value
        if not uses_of_value:
            literals.append((name, literal(value)))
    role = Role.MESSAGE if step.after_failure.leaves else Role.ARGUMENT  # else they make the result
    for value in step.failure_values():
        uses += _uses(role, "", value)
    loop = "" if step.foreach is None else step.foreach.var
    source = None if step.foreach is None else step.foreach.source
    named = [use.name for use in uses if use.name != loop or use.role is Role.SOURCE]
    named += [] if source is None else [ref.name for ref in refs_of(source)]
    names = tuple(dict.fromkeys(named))
    return Reads(names, tuple(dict.fromkeys(uses)), tuple(literals), loop, source)


def _arguments(step: Step, code: StepCode) -> tuple[tuple[str, Value], ...]:
    """The arguments of an action by name; positional ones of a model's operation by their number."""
    return code.written if step.call is not None else tuple(("", value) for value in step.values())


def _uses(role: Role, argument: str, value: Value) -> Iterator[Use]:
    for ref in refs_of(value):
        yield Use(role, argument, ref.name, ref.path)


def literal(value: Value) -> JSON:
    """The JSON of a value without references; null for a reference or a template."""
    match value:
        case Literal(value=scalar):
            return scalar
        case ListExpr(items=items):
            return [literal(item) for item in items]
        case DictExpr(items=pairs):
            return {name: literal(item) for name, item in pairs}
        case Ref() | Template():
            return None
    assert_never(value)


def located(value: Value, path: Path) -> Iterator[tuple[str, Path]]:
    """The variables, and the paths in them, from which the part at `path` of a value is made.

    >>> list(located(DictExpr((("a", Ref("x", ("k",))), ("b", Ref("y")))), ("a", 0)))
    [('x', ('k', 0))]
    """
    match value:
        case Literal():
            return
        case Ref(name=name, path=own):
            yield name, own + path
        case Template(parts=parts):
            yield from ((part.name, part.path) for part in parts if isinstance(part, Ref))
        case ListExpr(items=items):
            at = path[0] if path else None
            if isinstance(at, int) and -len(items) <= at < len(items):
                yield from located(items[at], path[1:])
            else:
                for item in items:
                    yield from located(item, ())
        case DictExpr(items=pairs):
            named = dict(pairs)
            inside = named.get(str(path[0])) if path else None
            if inside is not None:
                yield from located(inside, path[1:])
            else:
                for _, item in pairs:
                    yield from located(item, ())


def element(source: Value, index: int, path: Path, *, has_members: bool) -> tuple[tuple[str, Path], ...]:
    """The variables and paths from which the part at `path` of a FOREACH's item is made.

    `has_members` if the source was a list; any other source is its own only item.
    """
    if isinstance(source, Ref):
        return ((source.name, source.path + ((index, *path) if has_members else path)),)
    if isinstance(source, ListExpr):
        return tuple(located(source, (index, *path)))
    if isinstance(source, DictExpr):
        return tuple(located(source, path))
    return tuple(located(source, ()))


def is_list(value: JSON) -> bool:
    """Whether FOREACH iterates over the members of this value, rather than taking it as its only item."""
    if isinstance(value, str):
        is_json, parsed = parse_json(value)
        return is_json and isinstance(parsed, list)
    return isinstance(value, list)


def overlap(one: Path, other: Path) -> bool:
    """Whether one of two paths in a value is a prefix of the other."""
    return all(str(a) == str(b) for a, b in zip(one, other, strict=False))


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
    if isinstance(node, FunctionCall) and node.function in _CLOCKS:
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
