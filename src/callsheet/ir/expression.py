"""The AST of expressions of version 2: Python's expressions over `$names`, without effects.

Nodes are immutable; equality ignores spans. What an expression means is in `callsheet.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from callsheet.diagnostics import Span
from callsheet.ir.expr import Literal
from callsheet.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the plan, `$name`; the name has no dollar sign."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """A name that a comprehension or a lambda binds, written bare."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Field:
    """`target.name`; with `?` (`is_optional`) it is null where the target is null or has no such field."""

    target: Expression
    name: str
    is_optional: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`target[index]`; `is_optional` as in `Field`. `target.0` is the index 0."""

    target: Expression
    index: Expression
    is_optional: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Slice:
    """`target[start:stop:step]`, each part optional."""

    target: Expression
    start: Expression | None = None
    stop: Expression | None = None
    step: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


class UnaryOp(StrEnum):
    """An operator before one operand."""

    MINUS = "-"
    PLUS = "+"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class Unary:
    """`op operand`."""

    op: UnaryOp
    operand: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


class BinaryOp(StrEnum):
    """An operator between two operands that computes a value; `??` is `Coalesce`."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR = "//"
    REMAINDER = "%"
    POWER = "**"
    UNION = "|"
    INTERSECTION = "&"
    DIFFERENCE = "^"


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`."""

    op: BinaryOp
    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


class Comparison(StrEnum):
    """How two values are compared; equality of values of different types is a failure."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    NOT_IN = "not in"
    IS = "is"
    IS_NOT = "is not"


@dataclass(frozen=True, slots=True)
class Compared:
    """`first op next op next …`, where each operand is evaluated at most once."""

    first: Expression
    rest: tuple[tuple[Comparison, Expression], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


class LogicOp(StrEnum):
    """Which operand a chain gives: `and` its first false one, `or` its first true one, else the last."""

    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Logic:
    """Two or more operands joined by `and` or by `or`; none of them is a chain of the same operator."""

    op: LogicOp
    operands: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Conditional:
    """`then if condition else otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Coalesce:
    """`left ?? right`: the right side where the left is null or a path that leads nowhere."""

    left: Expression
    right: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Hole:
    """`${expression:format}` in a text; the format is Python's.

    `is_open` says that it is written without braces, as `$name.path`: where it ends follows from the path.
    """

    expression: Expression
    format: str | None = None
    is_open: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Text:
    """A text with at least one hole; no part is empty and no two texts are adjacent."""

    parts: tuple[str | Hole, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


class Kind(StrEnum):
    """What a display or a comprehension makes; a generator stands only as the argument of a function."""

    LIST = "list"
    SET = "set"
    DICT = "dict"
    TUPLE = "tuple"
    GENERATOR = "generator"


@dataclass(frozen=True, slots=True)
class Display:
    """`[a, b]`, `(a, b)` or `{a, b}`."""

    kind: Kind
    items: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mapping:
    """`{key: value, …}`."""

    items: tuple[tuple[Expression, Expression], ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Names:
    """The target `(a, b)` of a comprehension, which takes a sequence apart; parts may nest."""

    parts: tuple[Target, ...]


Target: TypeAlias = str | Names


@dataclass(frozen=True, slots=True)
class Clause:
    """`for target in source if condition …`."""

    target: Target
    source: Expression
    conditions: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Comprehension:
    """`[element for …]` and its like; `key` is there for a dict alone."""

    kind: Kind
    element: Expression
    clauses: tuple[Clause, ...]
    key: Expression | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lambda:
    """`lambda a, b: body`, which stands only as the `key` of `sorted`, `min` and `max`."""

    parameters: tuple[str, ...]
    body: Expression
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`function(a, name=b)`: a function of the language."""

    function: str
    arguments: tuple[Expression, ...]
    named: tuple[tuple[str, Expression], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Method:
    """`target.name(a, name=b)`: a method that changes nothing."""

    target: Expression
    name: str
    arguments: tuple[Expression, ...]
    named: tuple[tuple[str, Expression], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


Expression: TypeAlias = (
    Literal
    | Variable
    | Bound
    | Field
    | Index
    | Slice
    | Unary
    | Binary
    | Compared
    | Logic
    | Conditional
    | Coalesce
    | Text
    | Display
    | Mapping
    | Comprehension
    | Lambda
    | Call
    | Method
)


def children(node: Expression) -> Iterator[Expression]:  # noqa: PLR0912 - a case for each kind of node
    """The expressions directly inside another one, in the order of the text."""
    match node:
        case Literal() | Variable() | Bound():
            pass
        case Field(target=target):
            yield target
        case Index(target=target, index=index):
            yield from (target, index)
        case Slice(target=target, start=start, stop=stop, step=step):
            yield from (part for part in (target, start, stop, step) if part is not None)
        case Unary(operand=operand):
            yield operand
        case Binary(left=left, right=right) | Coalesce(left=left, right=right):
            yield from (left, right)
        case Compared(first=first, rest=rest):
            yield first
            yield from (operand for _, operand in rest)
        case Logic(operands=operands):
            yield from operands
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            yield from (then, condition, otherwise)
        case Text(parts=parts):
            yield from (part.expression for part in parts if isinstance(part, Hole))
        case Display(items=items):
            yield from items
        case Mapping(items=pairs):
            for key, value in pairs:
                yield from (key, value)
        case Comprehension(key=key, element=element, clauses=clauses):
            yield from (element,) if key is None else (key, element)
            for clause in clauses:
                yield from (clause.source, *clause.conditions)
        case Lambda(body=body):
            yield body
        case Call(arguments=arguments, named=named):
            yield from (*arguments, *(value for _, value in named))
        case Method(target=target, arguments=arguments, named=named):
            yield from (target, *arguments, *(value for _, value in named))
        case _:
            assert_never(node)


def mapped(node: Expression, change: Callable[[Expression], Expression]) -> Expression:  # noqa: PLR0911
    """The expression with each expression directly inside it replaced by what `change` gives for it."""

    def maybe(part: Expression | None) -> Expression | None:
        return None if part is None else change(part)

    def each(parts: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return tuple(map(change, parts))

    def values(named: tuple[tuple[str, Expression], ...]) -> tuple[tuple[str, Expression], ...]:
        return tuple((name, change(value)) for name, value in named)

    match node:
        case Literal() | Variable() | Bound():
            return node
        case Field() | Method() | Slice() | Index():
            return _mapped_path(node, change, maybe, each, values)
        case Unary():
            return replace(node, operand=change(node.operand))
        case Binary() | Coalesce():
            return replace(node, left=change(node.left), right=change(node.right))
        case Compared(first=first, rest=rest):
            return replace(node, first=change(first), rest=tuple((op, change(one)) for op, one in rest))
        case Logic(operands=operands):
            return replace(node, operands=each(operands))
        case Conditional():
            return replace(
                node,
                condition=change(node.condition),
                then=change(node.then),
                otherwise=change(node.otherwise),
            )
        case Text(parts=parts):
            filled = (
                part if isinstance(part, str) else replace(part, expression=change(part.expression))
                for part in parts
            )
            return replace(node, parts=tuple(filled))
        case Display(items=items):
            return replace(node, items=each(items))
        case Mapping(items=pairs):
            return replace(node, items=tuple((change(key), change(value)) for key, value in pairs))
        case Comprehension(clauses=clauses):
            inner = (Clause(one.target, change(one.source), each(one.conditions)) for one in clauses)
            return replace(node, key=maybe(node.key), element=change(node.element), clauses=tuple(inner))
        case Lambda(body=body):
            return replace(node, body=change(body))
        case Call(arguments=arguments, named=named):
            return replace(node, arguments=each(arguments), named=values(named))
    assert_never(node)


def _mapped_path(
    node: Field | Method | Slice | Index,
    change: Callable[[Expression], Expression],
    maybe: Callable[[Expression | None], Expression | None],
    each: Callable[[tuple[Expression, ...]], tuple[Expression, ...]],
    values: Callable[[tuple[tuple[str, Expression], ...]], tuple[tuple[str, Expression], ...]],
) -> Expression:
    target = change(node.target)
    match node:
        case Field():
            return replace(node, target=target)
        case Index():
            return replace(node, target=target, index=change(node.index))
        case Slice():
            return replace(
                node, target=target, start=maybe(node.start), stop=maybe(node.stop), step=maybe(node.step)
            )
        case Method():
            return replace(node, target=target, arguments=each(node.arguments), named=values(node.named))
    assert_never(node)


def target_names(target: Target) -> Iterator[str]:
    """The names that a target of a comprehension binds, in order."""
    if isinstance(target, str):
        yield target
    else:
        for part in target.parts:
            yield from target_names(part)


_LEAVES = (Literal, Variable, Bound)


def nodes(node: Expression) -> Iterator[Expression]:
    """An expression and all expressions inside it, each before what is inside it."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if not isinstance(current, _LEAVES):
            stack.extend(reversed(tuple(children(current))))


_CLOCKS = frozenset({"now", "today"})
"""The functions whose value only a run knows."""


def asks_time(node: Expression) -> bool:
    """Whether an expression is a call of a clock."""
    return isinstance(node, Call) and node.function in _CLOCKS


def variables_in(node: Expression) -> tuple[str, ...]:
    """The variables of the plan that an expression reads, each once, in the order of the text.

    >>> variables_in(Binary(BinaryOp.ADD, Variable("b"), Field(Variable("a"), "x")))
    ('b', 'a')
    """
    while isinstance(node, Field):
        node = node.target
    if isinstance(node, Variable):
        return (node.name,)
    if isinstance(node, _LEAVES):
        return ()
    if isinstance(node, Text):
        holes = [part.expression for part in node.parts if isinstance(part, Hole)]
        return tuple(dict.fromkeys([name for each in holes for name in variables_in(each)]))
    return tuple(dict.fromkeys(one.name for one in nodes(node) if isinstance(one, Variable)))
