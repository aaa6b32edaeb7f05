"""Compiling a goal of the benchmark has a limit."""

from __future__ import annotations

import asyncio

from benchmarks.compiling.jobs import job_tasks
from benchmarks.compiling.solving import Limits, solve

from callsheet.ports.models.model import Completion, Constraint, Strength
from callsheet.ports.models.prompts import Messages


class Silent:
    """A model that never answers."""

    name, accepts, strength = "silent", (), Strength.SMALL

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        await asyncio.Event().wait()
        raise AssertionError


def test_goal_that_takes_too_long_has_no_plan() -> None:
    row = asyncio.run(solve(next(job_tasks()), Silent(), "python", Limits(seconds=0.05)))
    assert (row.outcome, row.why, row.calls) == ("none", "no plan within 0.05 s", 0)
