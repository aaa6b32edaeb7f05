"""Random plans with blocks, killed at any commit or call and resumed, come to the end of the unbroken run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structured_crashes import Left, wrong_ends
from tests.structured_plans import programs

from callsheet.ir import Plan
from callsheet.machine.limits import AUTO, SEQUENTIAL

MOST_POINTS = 5


@pytest.mark.parametrize("schedule", [SEQUENTIAL, AUTO])
@settings(max_examples=10)
@given(programs(), st.randoms(use_true_random=False))
def test_killed_run_comes_to_the_same_end_and_repeats_no_write(
    schedule: str, plan: Plan, chance: Random
) -> None:
    def some(left: list[Left]) -> list[Left]:
        return left if len(left) <= MOST_POINTS else chance.sample(left, MOST_POINTS)

    with tempfile.TemporaryDirectory() as folder:
        assert wrong_ends(plan, Path(folder), schedule, some) == []
