"""Labels form a lattice: a combination is trusted no more, and readable by no more, than its parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.ir.labels import LITERAL, Label, join, read_label

NAMES = st.sampled_from(["user", "trusted", "model", "finance"])
LABELS = st.builds(Label, st.booleans(), st.none() | st.frozensets(NAMES))


@given(LABELS, LABELS, LABELS)
def test_joins_form_lattice(a: Label, b: Label, c: Label) -> None:
    assert a.join(a) == a
    assert a.join(b) == b.join(a)
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(LITERAL) == a


@given(LABELS, LABELS)
def test_operands_flow_to_join(a: Label, b: Label) -> None:
    both = a.join(b)
    assert a.flows_to(both)
    assert b.flows_to(both)
    assert both.untrusted == (a.untrusted or b.untrusted)
    for audience in ("user", "trusted", "model", "finance", "somebody"):
        one = frozenset({audience})
        assert both.may_reach(one) == (a.may_reach(one) and b.may_reach(one))


@given(st.lists(LABELS))
def test_join_of_many_covers_all(labels: list[Label]) -> None:
    assert all(label.flows_to(join(labels)) for label in labels)


@given(LABELS)
def test_labels_round_trip(label: Label) -> None:
    assert read_label(str(label)) == label


@pytest.mark.parametrize("text", ["", "U", "X/pub", "u/pub", "T/", "T/public data", "T/pub+user", "T/User"])
def test_invalid_labels_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"nor a list|not a label"):
        read_label(text)
