"""Hypothesis strategies for expressions of version 2, in normal form."""

from __future__ import annotations

from hypothesis import strategies as st

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
    Literal,
    Logic,
    LogicOp,
    Mapping,
    Method,
    Names,
    Slice,
    Text,
    Unary,
    UnaryOp,
    Variable,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
LEAVES: st.SearchStrategy[Expression] = SCALARS.map(Literal) | st.sampled_from(["a", "b"]).map(Variable)


def merged(parts: list[str | Hole]) -> Expression:
    """A text in normal form, or a literal."""
    made: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        elif part != "":
            made.append(part)
    return (
        Text(tuple(made)) if any(isinstance(one, Hole) for one in made) else Literal("".join(map(str, made)))
    )


def flat(op: LogicOp, operands: tuple[Expression, ...]) -> Expression:
    first, *rest = operands
    head = first.operands if isinstance(first, Logic) and first.op is op else (first,)
    return Logic(op, (*head, *rest))


def minus(op: UnaryOp, operand: Expression) -> Expression:
    return Unary(op, operand)


def compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(inner, max_size=3).map(tuple)
    bound = st.just(Bound("i")) | inner
    paths = st.builds(Field, inner, st.sampled_from(["x", "title"]), st.booleans()) | st.builds(
        Index, inner, inner, st.booleans()
    )
    comparisons = st.tuples(st.sampled_from(list(Comparison)[:8]), inner)
    clauses = st.builds(
        lambda source, tests: (Clause("i", source, tests),), inner, st.lists(bound, max_size=2).map(tuple)
    )
    return st.one_of(
        paths,
        st.builds(Binary, st.sampled_from(BinaryOp), inner, inner),
        st.builds(Coalesce, inner, inner),
        st.builds(Compared, inner, st.lists(comparisons, min_size=1, max_size=2).map(tuple)),
        st.builds(
            lambda one, op: Compared(one, ((op, Literal(None)),)),
            inner,
            st.sampled_from([Comparison.IS, Comparison.IS_NOT]),
        ),
        st.builds(flat, st.sampled_from(LogicOp), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Conditional, inner, inner, inner),
        st.builds(minus, st.sampled_from(UnaryOp), inner),
        st.builds(Slice, inner, st.none() | inner, st.none() | inner, st.none() | inner),
        st.builds(Display, st.sampled_from([Kind.LIST, Kind.TUPLE]), some),
        st.builds(Display, st.just(Kind.SET), st.lists(inner, min_size=1, max_size=2).map(tuple)),
        st.builds(
            Mapping,
            st.lists(
                st.tuples(inner, inner),
                max_size=2,
                unique_by=lambda pair: repr(getattr(pair[0], "value", pair[0])),
            ).map(tuple),
        ),
        st.builds(Comprehension, st.sampled_from([Kind.LIST, Kind.SET, Kind.GENERATOR]), bound, clauses),
        st.builds(
            lambda key, element, made: Comprehension(Kind.DICT, element, made, key), bound, bound, clauses
        ),
        st.builds(
            lambda element, source: Comprehension(
                Kind.LIST, element, (Clause(Names(("i", Names(("j", "k")))), source),)
            ),
            st.sampled_from([Bound("i"), Bound("k")]),
            inner,
        ),
        st.builds(Call, st.sampled_from(["len", "sum"]), some),
        st.builds(
            lambda one, body: Call(
                "sorted", (one,), (("key", Lambda(("i",), body)), ("reverse", Literal(True)))
            ),
            inner,
            bound,
        ),
        st.builds(Method, inner, st.sampled_from(["upper", "get"]), some),
        st.lists(
            TEXTS | inner.map(Hole) | st.builds(Hole, inner, st.sampled_from([".2f", ">8"])), max_size=3
        ).map(merged),
    )


EXPRESSIONS = st.recursive(LEAVES, compound, max_leaves=10)
