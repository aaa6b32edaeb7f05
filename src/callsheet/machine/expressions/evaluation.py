"""Compiles an expression to CPython's own byte code, so that its meaning is CPython's where they agree.

In: an `Expression` and the slots of the variables. Out: a function of the slots. The code is made from syntax
trees of our own nodes, never from text, and calls only the functions of this package: what can grow, differ
in silence or touch anything goes through `functions` and `values`; and/or/if, comprehensions, displays and
the rest of arithmetic are CPython's. A node carries its span as its column, so a failure knows its place.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, TracebackType
from typing import Any, Final, TypeAlias, assert_never, cast

from callsheet.diagnostics import Span
from callsheet.frontends.expressions.names import METHODS
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Binary,
    BinaryOp,
    Bound,
    Call,
    Clause,
    Coalesce,
    Compared,
    Comparison,
    Comprehension,
    Conditional,
    Display,
    Expression,
    Field,
    Hole,
    Index,
    Kind,
    Lambda,
    Logic,
    LogicOp,
    Mapping,
    Method,
    Slice,
    Target,
    Text,
    Unary,
    UnaryOp,
    Variable,
    nodes,
)
from callsheet.machine.expressions import functions as of
from callsheet.machine.expressions import operators, version1
from callsheet.machine.expressions.encoding import joined, to_text
from callsheet.machine.expressions.sizes import SizeOf, size_of
from callsheet.machine.expressions.values import (
    CONTAINERS,
    Environment,
    ExpressionFailed,
    FailureKind,
    contains,
    elements,
    equals,
    is_small,
    weight,
)

Slots: TypeAlias = "list[Any]"
SlotOf: TypeAlias = "Callable[[str], int]"


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression as a function of the variables' slots and an environment."""

    function: Callable[[Slots, Environment], Any]
    cost: int
    """The number of its nodes: the work of evaluating each of them once."""
    span: Span | None = None
    """The place of a failure that does not say it itself."""
    size_of: SizeOf | None = None
    """What bounds the size of its value, where that may be larger than a part of a variable."""

    def __call__(self, slots: Slots, env: Environment) -> Any:
        """The value. Raises ExpressionFailed, with the span of the part that failed."""
        try:
            env.work -= self.cost
            if env.work < 0:
                env.spend(0)
            made = self.function(slots, env)
            if self.size_of is not None and type(made) in CONTAINERS and not is_small(made):
                env.sizes.admit(made, self.size_of(slots, env.sizes))
            return made
        except ExpressionFailed as failure:
            if failure.span is None:
                failure.span = _place(failure.__traceback__) or self.span
            raise
        except _EXPECTED as error:
            raise _failure(error) from None


def compile_expression(node: Expression, slot_of: SlotOf) -> Compiled:
    """The function of an expression; `slot_of` gives the slot of a variable's name."""
    plain = _plain_path(node, slot_of)
    if plain is not None:
        return plain
    made = _Maker(slot_of).value(node)
    body = ast.Return(made)
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg("s"), ast.arg("e")], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    definition = ast.FunctionDef("expression", parameters, [body], [])
    module = ast.fix_missing_locations(ast.Module([definition], []))
    code = compile(module, _FILE, "exec", dont_inherit=True)
    inner = next(one for one in code.co_consts if isinstance(one, CodeType))
    return Compiled(
        FunctionType(inner, _HELPERS), sum(1 for _ in nodes(node)), node.span, size_of(node, slot_of)
    )


def _plain_path(node: Expression, slot_of: SlotOf) -> Compiled | None:
    """A path of fields and literal indexes from a variable, as a closure: by far the most frequent form."""
    steps: list[tuple[Callable[[Any, Any], Any], Any]] = []
    at = node
    while True:
        match at:
            case Field(target=target, name=name, is_optional=False):
                steps.append((operators.field, name))
            case Index(target=target, index=Literal(value=value), is_optional=False):
                steps.append((operators.at, value))
            case Variable(name=name) if steps:
                return Compiled(_path_function(slot_of(name), steps[::-1]), len(steps) + 1, node.span)
            case _:
                return None
        at = target


def _path_function(
    slot: int, steps: list[tuple[Callable[[Any, Any], Any], Any]]
) -> Callable[[Slots, Environment], Any]:
    (first, name), *more = steps
    if not more:
        return lambda slots, _: first(slots[slot], name)

    def follow(slots: Slots, _: Environment) -> Any:
        value = first(slots[slot], name)
        for step, key in more:
            value = step(value, key)
        return value

    return follow


_FILE: Final = "<expression>"
_EXPECTED: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    MemoryError,
)
_KINDS: Final[tuple[tuple[type[BaseException], FailureKind], ...]] = (
    (ZeroDivisionError, FailureKind.ZERO),
    (ArithmeticError, FailureKind.OVERFLOW),
    (KeyError, FailureKind.KEY),
    (IndexError, FailureKind.INDEX),
    (AttributeError, FailureKind.ATTRIBUTE),
    (TypeError, FailureKind.TYPE),
    (ValueError, FailureKind.VALUE),
    (RecursionError, FailureKind.LIMIT),
    (MemoryError, FailureKind.LIMIT),
)


def _failure(error: BaseException) -> ExpressionFailed:
    kind = next(kind for known, kind in _KINDS if isinstance(error, known))
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    words = repr(error.args[0]) if isinstance(error, KeyError) and error.args else None
    failure = ExpressionFailed(kind, _in_our_words(message) or type(error).__name__, words=words)
    failure.span = _place(error.__traceback__)
    return failure


def _in_our_words(message: str) -> str:
    """A message of CPython without the names of our helpers and with the names of our types."""
    for ours, theirs in (
        ("None", "'NoneType'"),
        ("duration", "'datetime.timedelta'"),
        ("datetime", "'datetime.datetime'"),
    ):
        message = message.replace(theirs, ours)
    return message.removeprefix("_")


def _place(traceback: TracebackType | None) -> Span | None:
    """The span of the innermost part of the expression that was being evaluated."""
    found: Span | None = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename == _FILE:
            positions = list(code.co_positions())[traceback.tb_lasti // 2]
            start, end = positions[2], positions[3]
            if start is not None and end is not None and end > start:
                found = Span(start, end)
        traceback = traceback.tb_next
    return found


# ---------------------------------------------------------------- helpers of the compiled code


def _order(env: Environment, op: Callable[[Any, Any], Any], left: Any, right: Any) -> bool:
    if isinstance(left, (list, tuple, set, frozenset)):
        env.spend(min(weight(left), weight(right)))
    return bool(op(left, right))


def _unequal(env: Environment, left: Any, right: Any) -> bool:
    return not equals(env, left, right)


def _excludes(env: Environment, item: Any, container: Any) -> bool:
    return not contains(env, item, container)


def _or_else(left: Callable[[], Any], right: Callable[[], Any], is_path: bool) -> Any:
    """`left ?? right`."""
    try:
        value = left()
    except ExpressionFailed as failure:
        if not (is_path and failure.is_absent):
            raise
        value = None
    return right() if value is None else value


def _unless_cut(value: Any, rest: Callable[[Any], Any]) -> Any:
    return value if value is operators.CUT else rest(value)


def _end(value: Any) -> Any:
    """The value of a chain with `?`."""
    return None if value is operators.CUT else value


_MOST_COMPARISONS: Final = 20
"""How often sorting compares one of a million keys."""


def _counted(env: Environment, cost: int, key: Callable[..., Any]) -> Callable[..., Any]:
    def count(*given: Any) -> Any:
        made = key(*given)
        env.spend(cost + _MOST_COMPARISONS * (weight(made) - 1))
        return made

    return count


def _method(env: Environment, name: str, value: Any, *given: Any, **named: Any) -> Any:
    return of.method_call(env, METHODS, name, value, *given, **named)


_ORDERS: Final[dict[Comparison, str]] = {
    Comparison.LT: "lt",
    Comparison.LE: "le",
    Comparison.GT: "gt",
    Comparison.GE: "ge",
}
_HELPERS: Final[dict[str, Any]] = {
    "__builtins__": {},
    "add": operators.add,
    "multiply": operators.multiply,
    "power": operators.power,
    "remainder": operators.remainder,
    "quotient": operators.quotient,
    "combined": operators.combined,
    "field": operators.field,
    "field_or_cut": operators.field_or_cut,
    "at": operators.at,
    "at_or_cut": operators.at_or_cut,
    "sliced": operators.sliced,
    "formatted": of.formatted,
    "method": _method,
    "to_text": to_text,
    "joined": joined,
    "equals": equals,
    "unequal": _unequal,
    "contains": contains,
    "excludes": _excludes,
    "order": _order,
    "elements": elements,
    "or_else": _or_else,
    "unless_cut": _unless_cut,
    "end": _end,
    "counted": _counted,
    "hashed": of.hashed,
    **{f"op_{name}": getattr(operator, name) for name in _ORDERS.values()},
    "op_is": operator.is_,
    "op_is_not": operator.is_not,
    **{f"op_{op}": function for op, function in operators.OPERATORS.items()},
    **{f"f_{name}": function for name, function in of.FUNCTIONS.items()},
    **{f"f_{name}": function for name, function in version1.FUNCTIONS.items()},
}
"""The globals of compiled expressions: the only names that their code can reach."""

_NATIVE: Final[dict[BinaryOp, ast.operator]] = {
    BinaryOp.SUBTRACT: ast.Sub(),
    BinaryOp.DIVIDE: ast.Div(),
}
_HELPED: Final[dict[BinaryOp, str]] = {
    BinaryOp.ADD: "add",
    BinaryOp.MULTIPLY: "multiply",
    BinaryOp.POWER: "power",
    BinaryOp.FLOOR: "quotient",
    BinaryOp.REMAINDER: "remainder",
}
_COMPARED: Final[dict[Comparison, str]] = {
    Comparison.EQ: "equals",
    Comparison.NE: "unequal",
    Comparison.IN: "contains",
    Comparison.NOT_IN: "excludes",
}


# ---------------------------------------------------------------- the code


class _Maker:
    """Makes Python's syntax trees of expressions."""

    def __init__(self, slot_of: SlotOf) -> None:
        self.slot_of = slot_of
        self.temporaries = 0

    def value(self, node: Expression) -> ast.expr:
        """The code of a node's value."""
        made = self.chained(node)
        return self.call(node, "end", made, has_env=False) if _may_cut(node) else made

    def values(self, parts: tuple[Expression, ...]) -> list[ast.expr]:
        return [self.value(part) for part in parts]

    def hashed(self, parts: tuple[Expression, ...]) -> list[ast.expr]:
        """The code of keys, or of the elements of a set; a constant costs nothing."""
        return [
            self.value(part) if isinstance(part, Literal) else self.call(part, "hashed", self.value(part))
            for part in parts
        ]

    def call(self, node: Expression, helper: str, *arguments: ast.expr, has_env: bool = True) -> ast.expr:
        """A call of a helper, at the place of a node."""
        given = [_name("e"), *arguments] if has_env else list(arguments)
        return _at(ast.Call(_name(helper), given, []), node.span)

    def chained(self, node: Expression) -> ast.expr:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        """The code of a node, which gives CUT where a `?` in its path found nothing."""
        match node:
            case Literal(value=value):
                return ast.Constant(value)
            case Variable(name=name):
                return _at(ast.Subscript(_name("s"), ast.Constant(self.slot_of(name)), ast.Load()), node.span)
            case Bound(name=name):
                return _name(f"n_{name}")
            case Field() | Index() | Slice() | Method():
                return self.path(node)
            case Unary(op=op, operand=operand):
                native = {UnaryOp.MINUS: ast.USub(), UnaryOp.PLUS: ast.UAdd(), UnaryOp.NOT: ast.Not()}[op]
                return _at(ast.UnaryOp(native, self.value(operand)), node.span)
            case Binary():
                return self.binary(node)
            case Compared(first=first, rest=rest):
                return self.compared(node, self.value(first), rest)
            case Logic(op=op, operands=operands):
                return ast.BoolOp(ast.And() if op is LogicOp.AND else ast.Or(), self.values(operands))
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                return ast.IfExp(self.value(condition), self.value(then), self.value(otherwise))
            case Coalesce(left=left, right=right):
                is_path = isinstance(left, (Field, Index))
                thunks = (_lambda([], self.value(left)), _lambda([], self.value(right)))
                return self.call(node, "or_else", *thunks, ast.Constant(is_path), has_env=False)
            case Text(parts=parts):
                return self.call(
                    node, "joined", ast.Tuple([self.part(node, one) for one in parts], ast.Load())
                )
            case Display(kind=kind, items=items):
                return _at(
                    _display(kind, self.hashed(items) if kind is Kind.SET else self.values(items)), node.span
                )
            case Mapping(items=pairs):
                keys: list[ast.expr | None] = [*self.hashed(tuple(key for key, _ in pairs))]
                return _at(ast.Dict(keys, [self.value(held) for _, held in pairs]), node.span)
            case Comprehension():
                return self.comprehension(node)
            case Lambda(parameters=parameters, body=body):
                key = _lambda([f"n_{name}" for name in parameters], self.value(body))
                cost = sum(1 for _ in nodes(body))
                return self.call(node, "counted", ast.Constant(cost), key)
            case Call(function=function, arguments=arguments, named=named):
                return _at(self.called(f"f_{function}", self.values(arguments), named), node.span)
        assert_never(node)

    def called(
        self, helper: str, arguments: list[ast.expr], named: tuple[tuple[str, Expression], ...]
    ) -> ast.expr:
        keywords = [ast.keyword(name, self.value(value)) for name, value in named]
        return ast.Call(_name(helper), [_name("e"), *arguments], keywords)

    def path(self, node: Field | Index | Slice | Method) -> ast.expr:
        target = self.chained(node.target)
        if not _may_cut(node.target):
            return self.step(node, target)
        name = self.temporary()
        rest = _lambda([name], self.step(node, _name(name)))
        return self.call(node, "unless_cut", target, rest, has_env=False)

    def step(self, node: Field | Index | Slice | Method, target: ast.expr) -> ast.expr:
        """One step of a path from the code of its target."""
        match node:
            case Field(name=name, is_optional=is_optional):
                helper = "field_or_cut" if is_optional else "field"
                return self.call(node, helper, target, ast.Constant(name), has_env=False)
            case Index(index=index, is_optional=is_optional):
                helper = "at_or_cut" if is_optional else "at"
                return self.call(node, helper, target, self.value(index), has_env=False)
            case Slice(start=start, stop=stop, step=step):
                parts = [
                    ast.Constant(None) if one is None else self.value(one) for one in (start, stop, step)
                ]
                return self.call(node, "sliced", target, *parts)
            case Method(name=name, arguments=arguments, named=named):
                given = [ast.Constant(name), target, *self.values(arguments)]
                return _at(self.called("method", given, named), node.span)
        assert_never(node)

    def binary(self, node: Binary) -> ast.expr:
        left, right = self.value(node.left), self.value(node.right)
        native = _NATIVE.get(node.op)
        if native is not None:
            return _at(ast.BinOp(left, native, right), node.span)
        helper = _HELPED.get(node.op)
        if helper is not None:
            return self.call(node, helper, left, right)
        return self.call(node, "combined", _name(f"op_{node.op}"), left, right)

    def compared(
        self, node: Compared, left: ast.expr, rest: tuple[tuple[Comparison, Expression], ...]
    ) -> ast.expr:
        """`left op next …`; an operand between two comparisons is evaluated once, by a parameter."""
        (op, operand), *more = rest
        if not more:
            return self.test(node, op, left, self.value(operand))
        one, two = self.temporary(), self.temporary()
        first = self.test(node, op, _name(one), _name(two))
        others = self.compared(node, _name(two), tuple(more))
        both = _lambda([one, two], ast.BoolOp(ast.And(), [first, others]))
        return ast.Call(both, [left, self.value(operand)], [])

    def test(self, node: Compared, op: Comparison, left: ast.expr, right: ast.expr) -> ast.expr:
        helper = _COMPARED.get(op)
        if helper is not None:
            return self.call(node, helper, left, right)
        if op in {Comparison.IS, Comparison.IS_NOT}:  # by a helper: CPython warns of `is` beside a constant
            return self.call(
                node, f"op_{'is' if op is Comparison.IS else 'is_not'}", left, right, has_env=False
            )
        return self.call(node, "order", _name(f"op_{_ORDERS[op]}"), left, right)

    def part(self, node: Text, part: str | Hole) -> ast.expr:
        if isinstance(part, str):
            return ast.Constant(part)
        value = self.value(part.expression)
        if part.format is None:
            made = ast.Call(_name("to_text"), [_name("e"), value], [])
        else:
            made = ast.Call(_name("formatted"), [_name("e"), value, ast.Constant(part.format)], [])
        return _at(made, part.expression.span or node.span)

    def comprehension(self, node: Comprehension) -> ast.expr:
        generators = [
            ast.comprehension(
                _store(clause.target),
                self.call(
                    clause.source, "elements", self.value(clause.source), ast.Constant(_cost(node, number))
                ),
                [self.value(condition) for condition in clause.conditions],
                0,
            )
            for number, clause in enumerate(node.clauses)
        ]
        element = self.value(node.element)
        match node.kind:
            case Kind.DICT:
                (key,) = (ast.Constant(None),) if node.key is None else self.hashed((node.key,))
                made: ast.expr = ast.DictComp(key, element, generators)
            case Kind.SET:
                made = ast.SetComp(self.hashed((node.element,))[0], generators)
            case Kind.LIST:
                made = ast.ListComp(element, generators)
            case Kind.GENERATOR | Kind.TUPLE:
                made = ast.GeneratorExp(element, generators)
            case _:
                assert_never(node.kind)
        return _at(made, node.span)

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"


def _may_cut(node: Expression) -> bool:
    """Whether the chain of a path contains a `?`."""
    while isinstance(node, (Field, Index, Slice, Method)):
        if isinstance(node, (Field, Index)) and node.is_optional:
            return True
        node = node.target
    return False


def _cost(node: Comprehension, number: int) -> int:
    """The nodes that one element of a clause evaluates, without those of the clauses inside it."""

    def size(parts: tuple[Expression, ...]) -> int:
        return sum(1 for part in parts for _ in nodes(part))

    clauses: tuple[Clause, ...] = node.clauses
    parts = clauses[number].conditions
    if number + 1 < len(clauses):
        return 1 + size((*parts, clauses[number + 1].source))
    return 1 + size((*parts, node.element, *(() if node.key is None else (node.key,))))


def _display(kind: Kind, items: list[ast.expr]) -> ast.expr:
    if kind is Kind.SET:
        return ast.Set(items)
    return ast.Tuple(items, ast.Load()) if kind is Kind.TUPLE else ast.List(items, ast.Load())


def _store(target: Target) -> ast.expr:
    if isinstance(target, str):
        return ast.Name(f"n_{target}", ast.Store())
    return ast.Tuple([_store(part) for part in target.parts], ast.Store())


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _lambda(parameters: list[str], body: ast.expr) -> ast.expr:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in parameters],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    return ast.Lambda(arguments, body)


def _at(made: ast.expr, span: Span | None) -> ast.expr:
    if span is not None:
        made.lineno = made.end_lineno = 1
        made.col_offset, made.end_col_offset = cast("tuple[int, int]", span)
    return made
