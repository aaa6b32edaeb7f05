"""Levels and ancestors in plans of dependencies, compared with their definition."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from tests.growth import seconds

from callsheet.ir.graphs import UNORDERED, Precedence

GRAPHS = st.integers(1, 9).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size - 1), max_size=3, unique=True), min_size=size, max_size=size
    )
)


def ancestors(waits: list[list[int]], step: int) -> set[int]:
    found: set[int] = set()
    todo = list(waits[step])
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(waits[node])
    return found


@given(GRAPHS)
def test_ancestors_precede(waits: list[list[int]]) -> None:
    """Steps in cycles, and those after them, have no order."""
    order = Precedence(waits)
    known = [ancestors(waits, step) for step in range(len(waits))]
    startable = [not any(node in known[node] for node in {step, *known[step]}) for step in range(len(waits))]
    pairs = list(product(range(len(waits)), repeat=2))
    assert order.precede(pairs) == [startable[b] and a in known[b] for a, b in pairs]
    assert [level != UNORDERED for level in order.level] == startable


@given(GRAPHS)
def test_levels_hold_every_step_once_after_dependencies(waits: list[list[int]]) -> None:
    order = Precedence(waits)
    levels = order.levels()
    assert sorted(number for level in levels for number in level) == list(range(len(waits)))
    for step, level in enumerate(order.level):
        if level != UNORDERED:
            assert level == max((order.level[other] + 1 for other in waits[step]), default=0)


def test_repeated_queries_about_far_ancestors_share_walk() -> None:
    def answering(count: int) -> float:
        waits = [[] if i < 3 else [i - 1 - (i * 7) % 3, i - 1 - (i * 11) % 3] for i in range(count)]
        pairs = [(i // 3 * 2, i) for i in range(count)]
        return seconds(lambda: Precedence(waits).precede(pairs))

    answering(100)
    assert answering(8_000) < 30 * max(answering(1_000), 0.02)
