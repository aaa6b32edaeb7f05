"""The canonical bytes of a plan are those of its JSON form, for any steps."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.ir import (
    Call,
    DictExpr,
    Foreach,
    Goto,
    ListExpr,
    Literal,
    NotEmpty,
    OnFail,
    Order,
    Output,
    Plan,
    Ref,
    Respond,
    Retry,
    Step,
    Template,
    Value,
)
from callsheet.ir.canon import canonical_bytes, plan_bytes, plan_to_json
from callsheet.ir.expr import Cast

TEXTS = st.text(st.characters(codec=None) | st.sampled_from('"\\\n\ud800é'), max_size=5)
MAYBE = st.none() | TEXTS
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
REFS = st.builds(Ref, TEXTS, st.lists(TEXTS | st.integers(), max_size=3).map(tuple))
VALUES: st.SearchStrategy[Value] = st.recursive(
    st.builds(Literal, SCALARS) | REFS | st.builds(Template, st.tuples(TEXTS, REFS)),
    lambda inner: (
        st.builds(ListExpr, st.lists(inner, max_size=2).map(tuple))
        | st.builds(DictExpr, st.lists(st.tuples(TEXTS, inner), max_size=2).map(tuple))
    ),
    max_leaves=3,
)
MANY = st.lists(VALUES, max_size=2).map(tuple)
NAMED = st.lists(st.tuples(TEXTS, VALUES), max_size=2).map(tuple)
STEPS = st.builds(
    Step,
    TEXTS,
    st.builds(Call, TEXTS, MANY, NAMED) | st.builds(Respond, MANY) | st.builds(Goto, TEXTS),
    foreach=st.none() | st.builds(Foreach, TEXTS, VALUES),
    condition=st.none() | st.builds(NotEmpty, VALUES),
    output=st.none() | st.builds(Output, TEXTS, st.none() | st.sampled_from(Cast)),
    on_fail=st.none() | st.just(OnFail(Retry(2, 0.5))),
    group=st.none() | st.integers(0, 9),
    depends_on=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
    title=MAYBE,
)
PLANS = st.builds(
    Plan, st.lists(STEPS, max_size=3).map(tuple), st.sampled_from(Order), NAMED, MAYBE, MAYBE, MAYBE
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLANS)
def test_canonical_bytes_equal_json_form(plan: Plan) -> None:
    assert plan_bytes(plan) == canonical_bytes(plan_to_json(plan))


def test_nan_and_infinity_have_no_canonical_bytes() -> None:
    with pytest.raises(ValueError, match="JSON"):
        plan_bytes(Plan((Step("S1", Respond((Literal(float("nan")),))),)))
    with pytest.raises(ValueError, match="JSON"):
        plan_bytes(Plan((Step("S1", Call("DO", (Literal(float("inf")),))),)))
