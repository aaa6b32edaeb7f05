"""Seeds of `benchmarks/simulation`: runs with kills, power failures, two owners and bad disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.simulation import simulation
from benchmarks.simulation.__main__ import finding
from benchmarks.simulation.case import Case
from benchmarks.simulation.mutations import MUTATIONS, Mutation

_FAILED_ONCE = Path(simulation.__file__).with_name("regressions.txt")


def _regressions() -> list[int]:
    lines = _FAILED_ONCE.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("first", range(1, 61, 20))
def test_random_runs_with_faults_keep_what_is_promised(first: int) -> None:
    wrong = {
        seed: report.problems
        for seed in range(first, first + 20)
        if (report := simulation.simulate(seed)).problems
    }
    assert wrong == {}, "replay it: python -m benchmarks.simulation --seeds SEED"


def test_runs_whose_groups_stop_end_and_repeat_no_finished_call_after_faults() -> None:
    """In each a failure, a first item or a time limit stops calls and waits that are under way."""
    cases = [Case.of(seed, stops=True) for seed in (18, 23, 142, 182, 187, 254, 307)]
    reports = [simulation.simulate(simulation.prepare(case)) for case in cases]
    assert {one.seed: one.problems for one in reports if one.problems} == {}


@pytest.mark.parametrize("seed", _regressions())
def test_seed_that_failed_once_passes(seed: int) -> None:
    assert simulation.simulate(seed).problems == []


def test_seed_replays_to_the_letter() -> None:
    first, again = simulation.simulate(7), simulation.simulate(7)
    assert first.trace
    assert first.trace == again.trace


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_planted_bug_is_found(mutation: Mutation) -> None:
    assert finding(mutation, [simulation.prepare(mutation.seed)])[0] == mutation.seed
