"""The keys of calls are unique, whatever the ids of steps, and identify the call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.dag_plans import indexes
from tests.machine.test_graph import Bench, step

from callsheet.machine import Reopened
from callsheet.machine.keys import name_in_key, parse_key, step_of

LIKE_KEYS = st.from_regex(r"(r[0-9]{1,2}/)?[a-z%.]{1,3}(@[0-9a-z]{1,2})?(\.[0-9]){0,3}", fullmatch=True)


@given(st.lists(indexes() | LIKE_KEYS, min_size=1, max_size=6, unique=True))
def test_step_keys_are_unique_for_any_names(names: list[str]) -> None:
    bench = Bench(*(step(name) for name in names))
    for _ in range(3):
        while bench.open:
            bench.fail(next(iter(bench.open)))
        bench.take(bench.machine.feed(Reopened()))
    assert len(set(bench.asked)) == len(bench.asked)
    assert {step_of(key) for key in bench.asked} == set(names)
    assert all(parse_key(key).generation == 0 for key in bench.asked)


def test_unambiguous_id_is_key_unchanged() -> None:
    for name in ("S1", "a/b", "日本", "r2", "1.0.1"):
        assert name_in_key(name) == name
