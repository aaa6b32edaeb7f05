"""Compiling a goal of the benchmark has a limit, and asks a model as a user's compilation would."""

from __future__ import annotations

import asyncio

from benchmarks.compiling.jobs import job_tasks
from benchmarks.compiling.solving import Limits, solve

from callsheet.ports.models.model import Completion, Constraint, Strength
from callsheet.ports.models.opening import open_model
from callsheet.ports.models.prompts import Messages
from providers import serving


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


def test_model_behind_an_address_is_asked_what_it_is_before_its_first_goal() -> None:
    with serving() as provider:
        provider.listed = {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_params": 10**9}}]}
        asyncio.run(solve(next(job_tasks()), open_model(f"{provider.url}/v1"), "python"))
        assert "grammar" in provider.asked[0].body
