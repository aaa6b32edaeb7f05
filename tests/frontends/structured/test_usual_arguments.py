"""Frequent spellings of arguments are read by a short way, with the result of the general reader."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.frontends.expressions import NotAnExpression, read_expression
from callsheet.frontends.structured import read_structured
from callsheet.ir.expression import Expression
from callsheet.ir.tree import Act

_PARTS = st.sampled_from(
    [
        "$a", "$a.b", "$a.b.c", "$a.0", "$a.1x", "$a.b(", "$a.b?", "$", "$$", "$1", "${", "${$a}", "{a}", " ",
        "x", ".", "é", "\\n", "\\$", "\\\\", "#", ",", ")", "'", '""', "$a.07", "$a[0]", "\t", "$é", "$a_1.",
    ]
)  # fmt: skip


def _argument(value: str) -> Expression | None:
    """The argument of a call that is written so; None if it is refused."""
    read = read_structured(f"# ltp: 2\nS1: @READ (x={value}, y=1)\n")
    if any(one.is_error for one in read.diagnostics):
        return None
    assert read.plan is not None
    assert read.plan.tree is not None
    (act,) = read.plan.tree.body
    assert isinstance(act, Act)
    return dict(act.named)["x"]


@given(st.lists(_PARTS, max_size=6).map("".join))
def test_text_is_the_one_of_the_general_reader(body: str) -> None:
    written = f'"{body}"'
    head = "# ltp: 2\nS1: @READ (x="
    try:
        general = read_expression(head + written, len(head)).expression
    except NotAnExpression:
        general = None
    made = _argument(written)
    assert (made is None) == (general is None)
    if made is not None and general is not None:
        assert asdict(made) == asdict(general)  # with the places, which == leaves out


@pytest.mark.parametrize("body", ["$a.b.c", "x $a", "$a", "$a.0", "$"])
def test_reference_in_a_text_has_its_place(body: str) -> None:
    head = "# ltp: 2\nS1: @READ (x="
    made, general = _argument(f'"{body}"'), read_expression(f'{head}"{body}"', len(head)).expression
    assert made is not None
    assert asdict(made) == asdict(general)
