"""The duration of graphs: the minimum without a limit, and near the best with one."""

from __future__ import annotations

import pytest
from benchmarks.makespan.graphs import Work, random_work
from benchmarks.makespan.running import ranks_for, simulated
from benchmarks.makespan.schedules import best_list_schedule, critical_path, level_barrier, lower_bound
from hypothesis import given
from hypothesis import strategies as st

GRAPHS = [random_work(seed) for seed in range(200)]


@st.composite
def works(draw: st.DrawFn) -> Work:
    count = draw(st.integers(1, 12))
    waits = [
        tuple(sorted(draw(st.sets(st.integers(0, n - 1), max_size=3)))) if n else () for n in range(count)
    ]
    return Work("", tuple(waits), tuple(draw(st.floats(0.001, 1)) for _ in range(count)))


def test_unlimited_random_graphs_take_critical_path() -> None:
    for work in GRAPHS:
        assert simulated(work, None) == pytest.approx(critical_path(work))
        assert simulated(work, None, ranks_for(work, None)) == pytest.approx(critical_path(work))


@pytest.mark.parametrize(("slots", "every"), [(8, 1), (3, 3)])
def test_known_durations_give_schedules_within_5_percent_of_best(slots: int, every: int) -> None:
    for work in GRAPHS[::every]:
        took = simulated(work, slots, ranks_for(work, slots))
        assert took <= 1.05 * best_list_schedule(work, slots, tries=6)


@pytest.mark.parametrize(("slots", "mean"), [(8, 1.05), (3, 1.06)])
def test_unknown_durations_give_near_optimal_schedules_on_average(slots: int, mean: float) -> None:
    ratios = [simulated(work, slots) / best_list_schedule(work, slots, tries=0) for work in GRAPHS]
    assert sum(ratios) / len(ratios) <= mean


@given(works(), st.integers(1, 5), st.booleans())
def test_no_slot_is_idle_while_step_is_ready(work: Work, slots: int, known: bool) -> None:
    """Graham's bound, which holds for every schedule without idle slots, and for few others."""
    took = simulated(work, slots, ranks_for(work, slots) if known else None)
    least = lower_bound(work, slots)
    assert least <= took * 1.000001
    assert took <= (2 - 1 / slots) * least * 1.000001
    assert took <= sum(work.seconds) / slots + (1 - 1 / slots) * critical_path(work) + 1e-9


@given(works(), st.integers(1, 5))
def test_ranks_are_unique_and_deterministic(work: Work, slots: int) -> None:
    ranks = ranks_for(work, slots)
    assert sorted(ranks.values()) == list(range(1, len(work.waits) + 1))
    assert ranks_for(work, slots) == ranks


@given(works())
def test_level_barriers_are_never_faster(work: Work) -> None:
    assert simulated(work, None) <= level_barrier(work, None) * 1.000001
