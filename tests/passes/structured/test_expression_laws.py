"""Laws of the types of expressions: what `check` says of one is what its evaluation does with real values."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.passes.structured.trees import tree

from callsheet.diagnostics import Diagnostic
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
    Text,
    Unary,
    UnaryOp,
    Variable,
    nodes,
)
from callsheet.ir.scopes import scopes_of
from callsheet.ir.tree import Let
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type
from callsheet.machine.expressions import Environment, ExpressionFailed, FailureKind, compile_expression
from callsheet.passes.structured import shapes
from callsheet.passes.structured.calls import Calls
from callsheet.passes.structured.findings import Report
from callsheet.passes.structured.flow import Flow
from callsheet.passes.structured.shapes import Shape

TICKET = Record((("id", Basic.INT), ("title", Basic.STR), ("owner", Maybe(Basic.STR))))
NAMED = {"Ticket": TICKET}
INPUTS: dict[str, Type] = {
    "n": Basic.INT,
    "f": Basic.FLOAT,
    "s": Basic.STR,
    "b": Basic.BOOL,
    "day": Basic.DATE,
    "at": Basic.DATETIME,
    "age": Basic.DURATION,
    "t": Named("Ticket"),
    "all": ListOf(Named("Ticket")),
    "words": ListOf(Basic.STR),
    "kind": OneOf(("bug", "feature")),
    "maybe": Maybe(Basic.STR),
    "map": DictOf(Basic.INT),
}
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def _value(of: Type, random: Random) -> Any:
    match of:
        case Named():
            made = {"id": random.randint(0, 3), "title": random.choice(["a", "bug"])}
            return made if random.random() < 0.3 else {**made, "owner": random.choice(["ann", None])}
        case ListOf(item=item):
            return [_value(item, random) for _ in range(random.randint(0, 3))]
        case DictOf(value=value):
            return {
                key: _value(value, random) for key in random.sample(["a", "b", "c"], random.randint(0, 3))
            }
        case Maybe(of=inner):
            return None if random.random() < 0.5 else _value(inner, random)
        case OneOf(values=values):
            return random.choice(values)
        case _:
            return random.choice(_VALUES[of])  # type: ignore[index]


_VALUES: dict[Basic, list[Any]] = {
    Basic.INT: [0, 1, 2, 7],
    Basic.FLOAT: [0.5, 2.0],
    Basic.STR: ["", "a", "bug", "x y"],
    Basic.BOOL: [True, False],
    Basic.DATE: [date(2026, 1, 1), date(2026, 11, 28)],
    Basic.DATETIME: [NOW, NOW - timedelta(days=1)],
    Basic.DURATION: [timedelta(hours=1), timedelta(days=2)],
}
_LITERALS = [0, 1, 2.5, "a", "bug", "bugs", True, None]
_FIELDS = ["id", "title", "owner", "titel", "year", "days", "a"]
_FUNCTIONS = [
    "len",
    "sum",
    "max",
    "sorted",
    "str",
    "int",
    "list",
    "set",
    "abs",
    "round",
    "enumerate",
    "any",
    "date",
]
_METHODS = sorted(
    {"upper", "split", "get", "items", "values", "count", "startswith", "isoformat", "total_seconds"}
)


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.bound: list[str] = []

    def expression(self, depth: int) -> Expression:  # noqa: PLR0911, PLR0912
        random = self.random
        if depth == 0 or random.random() < 0.25:
            if self.bound and random.random() < 0.6:
                return Bound(random.choice(self.bound))
            return (
                Literal(random.choice(_LITERALS))
                if random.random() < 0.25
                else Variable(random.choice(list(INPUTS)))
            )

        def inner() -> Expression:
            return self.expression(depth - 1)

        match random.randint(0, 17):
            case 0 | 1 | 2:
                return Field(inner(), random.choice(_FIELDS), random.random() < 0.3)
            case 3:
                return Index(
                    inner(), Literal(random.choice([0, -1, "title", "owner", "a"])), random.random() < 0.3
                )
            case 4:
                return Slice(inner(), Literal(1))
            case 5:
                return Unary(random.choice(list(UnaryOp)), inner())
            case 6 | 7:
                return Binary(
                    random.choice([op for op in BinaryOp if op is not BinaryOp.POWER]), inner(), inner()
                )
            case 8 | 9:
                return Compared(inner(), ((random.choice(list(Comparison)), inner()),))
            case 10:
                return Logic(random.choice(list(LogicOp)), (inner(), inner()))
            case 11:
                return Conditional(inner(), inner(), inner())
            case 12:
                return Coalesce(inner(), inner())
            case 13:
                return Text(("x", Hole(inner())))
            case 14:
                if random.random() < 0.4:
                    return Mapping(((Literal("id"), inner()), (Literal("title"), inner())))
                return Display(random.choice([Kind.LIST, Kind.TUPLE]), (inner(), inner()))
            case 15:
                return self.comprehension(depth)
            case 16:
                name = random.choice(_FUNCTIONS)
                if name in ("max", "sorted") and random.random() < 0.4:
                    return Call(name, (inner(),), (("key", self.key(depth)),))
                return Call(name, (inner(),))
            case _:
                given = (Literal("a"),) if random.random() < 0.4 else ()
                return Method(inner(), random.choice(_METHODS), given)

    def key(self, depth: int) -> Expression:
        name = f"k{len(self.bound)}"
        self.bound.append(name)
        body = self.expression(depth - 1)
        self.bound.pop()
        return Lambda((name,), body)

    def comprehension(self, depth: int) -> Expression:
        source = self.expression(depth - 1)
        name = f"x{len(self.bound)}"
        self.bound.append(name)
        conditions = (self.expression(depth - 1),) if self.random.random() < 0.5 else ()
        element = self.expression(depth - 1)
        self.bound.pop()
        kind = self.random.choice([Kind.LIST, Kind.DICT])
        key = Literal("k") if kind is Kind.DICT else None
        return Comprehension(kind, element, (Clause(name, source, conditions),), key)


def _checked(node: Expression) -> tuple[list[Diagnostic], Shape]:
    """What the checks find about an expression, and the shape that they take it to have."""
    whole = tree(Let("", "v", node), inputs=INPUTS, types=NAMED)
    report = Report()
    flow = Flow(whole, scopes_of(whole), report, Calls(None).check, {})
    flow.run()
    held = flow.state.get("v")
    assert held is not None
    return report.found, held.shape


def _evaluated(node: Expression, random: Random) -> tuple[Any, ExpressionFailed | None]:
    values = [_value(of, random) for of in INPUTS.values()]
    names = {name: number for number, name in enumerate(INPUTS)}
    try:
        return compile_expression(node, names.__getitem__)(values, Environment(NOW)), None
    except ExpressionFailed as failure:
        return None, failure


def _is_of(shape: Shape, value: Any) -> bool:
    return any(_is_kind(kind, value) for kind in shape.kinds)


def _is_kind(kind: shapes.Kind, value: Any) -> bool:
    sort = type(value)
    match kind:
        case Basic.JSON:
            return value is not None
        case Basic():
            return sort is _PYTHON[kind]
        case shapes.Special():
            return kind is shapes.Special.NULL and value is None
        case shapes.Options(values=values):
            return any(sort is type(one) and value == one for one in values)
        case shapes.Items(kind=name, item=item):
            return sort.__name__ == name and all(_is_of(item, one) for one in value)
        case shapes.Tuple(items=items):
            return sort is tuple and len(items) == len(value) and all(map(_is_of, items, value))
        case shapes.Table(value=inner):
            return sort is dict and all(_is_of(inner, one) for one in value.values())
        case shapes.Fields(fields=fields):
            return sort is dict and all(
                _is_of(known.shape, value[name]) if name in value else known.may_be_absent
                for name, known in fields.items()
            )


_PYTHON: dict[Basic, type] = {
    Basic.STR: str,
    Basic.INT: int,
    Basic.FLOAT: float,
    Basic.BOOL: bool,
    Basic.DATE: date,
    Basic.DATETIME: datetime,
    Basic.DURATION: timedelta,
}
_LAZY = (Logic, Conditional, Coalesce, Comprehension, Lambda)
"""What may leave a part of itself out."""
_OF_TYPES = {FailureKind.TYPE, FailureKind.ATTRIBUTE}
assert set(_METHODS) <= {name for names in METHODS.values() for name in names}
SEEDS = st.integers(0, 2**32)


def _law(seed: int) -> str:
    """Check a random expression against its evaluations; gives what the checks found: good, bad or unsure."""
    random = Random(seed)
    node = _Maker(random).expression(random.randint(1, 3))
    found, shape = _checked(node)
    is_wrong = any(one.is_error for one in found)
    is_known = not shape.is_unknown and not any(
        isinstance(one, (Call, Method, *_LAZY)) for one in nodes(node)
    )
    is_lazy = any(
        isinstance(one, _LAZY) or (isinstance(one, Field | Index) and one.is_optional) for one in nodes(node)
    )
    for _ in range(6):
        value, failure = _evaluated(node, random)
        if failure is None:
            assert found or _is_of(shape, value), (node, value, shape)
            assert not is_wrong or is_lazy, (node, value, found)
        else:
            is_of_items = "between instances" in failure.message  # of lists that are compared
            assert found or failure.kind not in _OF_TYPES or not is_known or is_of_items, (node, failure)
    return "bad" if is_wrong else "unsure" if found else "good"


@given(SEEDS)
def test_an_expression_without_findings_has_a_value_of_its_shape_and_a_wrong_one_has_none(seed: int) -> None:
    _law(seed)


def test_random_expressions_are_good_and_bad() -> None:
    found = [_law(seed) for seed in range(150)]
    assert min(map(found.count, ("good", "bad"))) >= 25
