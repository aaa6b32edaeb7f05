"""The fast path for describing short texts agrees with the general one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import plans

from callsheet.frontends.ltp import parse
from callsheet.frontends.values import Reader, read_value
from callsheet.ir import (
    Call,
    Cast,
    DictExpr,
    ListExpr,
    Literal,
    OnFail,
    Output,
    Plan,
    Ref,
    Retry,
    Step,
    Template,
    Value,
)
from callsheet.views import describe, mermaid

TEXTS = st.one_of(
    st.text("ab \"'\\", max_size=6),
    st.integers(40, 52).map("x".__mul__),
    st.text(st.sampled_from("a b\n\t\x1b日é\u0301\u200d\U0001f44d\U0001f3fb"), max_size=30),
)
NAMES = st.one_of(st.sampled_from(["a", "path", "NAME_1"]), TEXTS)
SCALARS = st.one_of(
    TEXTS, st.booleans(), st.none(), st.floats(), st.integers(), st.sampled_from([10**15, -(10**15), 10**90])
)
REFS = st.builds(Ref, NAMES, st.lists(st.one_of(NAMES, st.integers(-3, 99)), max_size=3).map(tuple))
PARTS = st.lists(st.one_of(TEXTS, REFS), min_size=1, max_size=14).map(tuple)
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.builds(Literal, SCALARS),
    REFS,
    st.builds(Template, PARTS),
    st.builds(ListExpr, st.lists(st.builds(Literal, SCALARS), max_size=3).map(tuple)),
    st.builds(DictExpr, st.lists(st.tuples(NAMES, st.builds(Literal, SCALARS)), max_size=2).map(tuple)),
)
CALLS = st.builds(
    Call,
    NAMES,
    st.lists(VALUES, max_size=3).map(tuple),
    st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple),
)
STEPS = st.builds(
    Step,
    NAMES,
    CALLS,
    output=st.none() | st.builds(Output, NAMES, st.sampled_from([None, Cast.INT])),
    on_fail=st.none() | st.builds(OnFail, st.builds(Retry, st.sampled_from([0, 3, 10**6]))),
    title=st.none() | NAMES,
)


@given(VALUES, st.sampled_from([3, 12, describe.VALUE_WIDTH]))
def test_short_value_description_equals_general_one(value: Value, most: int):
    general = describe._fitted(value, most)  # pyright: ignore[reportPrivateUsage]
    assert describe.describe_value(value, most) == general


@given(CALLS)
def test_short_call_description_equals_general_one(call: Call):
    assert describe.describe_action(call) == describe._call(call)  # pyright: ignore[reportPrivateUsage]


@given(STEPS)
def test_short_flowchart_label_equals_general_one(step: Step):
    (label,) = mermaid._labels((step,))  # pyright: ignore[reportPrivateUsage]
    assert label == mermaid._cut_label(step)  # pyright: ignore[reportPrivateUsage]


def test_fast_path_is_used_if_nothing_is_truncated(monkeypatch: pytest.MonkeyPatch):
    step = Step("S1", Call("READ", (), (("path", Literal("a.txt")),)), output=Output("a"))
    monkeypatch.delattr(mermaid, "_cut_label")
    (label,) = mermaid._labels((step,))  # pyright: ignore[reportPrivateUsage]
    assert label == 'S1: @READ (path="a.txt") > $a'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"x/${e.name}.md"', '"x/$e.name.md"'),
        ('"costs \\$x"', '"costs $x"'),
        ('"a\\nb"', '"a b"'),
        ('"$a$b"', '"$a\\$b"'),
        ('"it says \\"$x"', '"it says $x"'),
        ("$a['b.c']", "$a.b.c"),
    ],
)
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    plan = parse(f"S1: @A ({one})\nS2: @A ({other})").require()
    first, second = (describe.describe_action(step.action) for step in plan.steps)
    assert first != second
    again = parse(f"S1: {first}\nS2: {second}").require()
    assert [step.action for step in again.steps] == [step.action for step in plan.steps]


@given(plans())
def test_value_that_is_shown_whole_means_itself(plan: Plan) -> None:
    for step in plan.steps:
        for value in step.values():
            shown = describe.describe_value(value, 10_000)
            if "…" not in shown and shown.isascii():
                assert read_value(Reader(shown)) == value
