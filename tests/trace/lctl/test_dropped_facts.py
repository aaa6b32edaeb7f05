"""The latest confidence of facts that a chain no longer carries is known, for chains of any length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.trace.lctl.confidence import DroppedFacts

PORTIONS = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.none() | st.floats(0, 1)), max_size=8)


@given(PORTIONS, st.frozensets(st.sampled_from("abcdef")))
def test_dropped_facts_equal_dict_of_all_dropped_facts(portions: list, carried: frozenset[str]) -> None:
    left, plain = DroppedFacts(), {}
    for portion in portions:
        left, plain = left.with_more(portion), {**plain, **portion}
    assert dict(left) == plain
    assert dict(left.but(carried)) == {fact: at for fact, at in plain.items() if fact not in carried}
    assert len(left.but(carried)) == len(dict(left.but(carried)))


def leaving(count: int) -> DroppedFacts:
    left = DroppedFacts()
    for number in range(count):
        left = left.with_more({f"F{number}": 0.5})
        assert f"G{number}" not in left
    return left


def test_time_is_linear_in_dropped_facts() -> None:
    assert leaving(100)["F1"] == 0.5
    few = min(seconds(lambda: leaving(500)) for _ in range(3))
    assert min(seconds(lambda: leaving(4_000)) for _ in range(3)) < 24 * few + 0.05
