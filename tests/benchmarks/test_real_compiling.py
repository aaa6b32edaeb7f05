"""The smallest real model compiles goals to plans that can run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.compiling.goals import goals
from benchmarks.compiling.modes import MODES
from benchmarks.compiling.scoring import score

from callsheet.ports.models.local import LocalModel

pytestmark = pytest.mark.models

SOME = [goal for goal in goals() if goal.id in ("files-5/02", "office-20/01")]


@pytest.mark.parametrize("goal", SOME, ids=[goal.id for goal in SOME])
async def test_constrained_plans_run_and_are_deterministic(opened: Callable[..., LocalModel], goal) -> None:
    model = opened(context=2048)
    made = await MODES["compile"](model, goal)
    truth = score(goal, made.text)
    assert (truth.parsed, truth.known, truth.valid) == (True, True, True), (truth.why, made.text)
    assert made.input_tokens > 200
    if goal is SOME[1]:
        assert (await MODES["compile"](model, goal)).text == made.text
