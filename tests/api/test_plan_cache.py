"""Plans that run again are not checked and compiled again, and never confused with others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from callsheet import Plan, PlanError, Runtime, tool
from callsheet.api import plan_checks
from callsheet.api.prepared import Prepared, PreparedPlans
from callsheet.ir import plan_hash
from callsheet.ir.canon import canonical_bytes, plan_bytes, plan_to_json
from callsheet.machine import compile_plan


@tool(effect="read", inline=True)
def twice(x: int) -> int:
    return 2 * x


TEXT = "S1: @TWICE ($x) > $y\nS2: @RESPOND ($y)"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The plan checks that the sessions made."""
    made: list[object] = []
    real = plan_checks.check_plan
    monkeypatch.setattr(plan_checks, "check_plan", lambda *a, **k: made.append(a) or real(*a, **k))
    return made


async def test_repeated_plan_is_checked_once(checks: list[object]) -> None:
    plan = Plan.parse(TEXT)
    async with Runtime([twice]) as runtime:
        answers = [(await runtime.run(plan, {"x": x})).response for x in (1, 2, 3)]
        assert (answers, len(checks)) == (["2", "4", "6"], 1)
        assert (await runtime.run(Plan.parse(TEXT), {"x": 4})).response == "8"
        assert len(checks) == 2


async def test_plan_is_checked_again_for_other_input_names(checks: list[object]) -> None:
    plan = Plan.parse(TEXT)
    async with Runtime([twice]) as runtime:
        for given in ({"x": 1}, {"x": 2}, {"x": 3, "z": 3}):
            assert (await runtime.run(plan, given)).ok
        assert len(checks) == 2


async def test_plan_with_errors_is_refused_every_time() -> None:
    plan = Plan.parse("S1: @TWICE (y=1) > $y")
    async with Runtime([twice]) as runtime:
        for _ in range(2):
            with pytest.raises(PlanError, match="no argument y"):
                await runtime.run(plan)


def test_cache_is_bounded_and_drops_least_recently_used() -> None:
    plans = [Plan.parse(f"S1: @RESPOND ({n})").ir for n in range(4)]
    ready = [Prepared({}, {}, compile_plan(plan)) for plan in plans]
    kept = PreparedPlans(most=2)
    kept.put(plans[0], (), ready[0])
    kept.put(plans[1], (), ready[1])
    assert kept.get(plans[0], ()) is ready[0]
    kept.put(plans[2], (), ready[2])
    assert [kept.get(plan, ()) for plan in plans] == [ready[0], None, ready[2], None]
    assert kept.get(plans[0], ("x",)) is None
    kept.clear()
    assert kept.get(plans[0], ()) is None


def test_canonical_form_is_cached_per_plan() -> None:
    plan = Plan.parse(TEXT).ir
    name = plan_hash(plan)
    assert plan_bytes(plan) is plan_bytes(plan)
    other = replace(plan, title="another")
    assert plan_hash(other) != name
    assert plan_bytes(other) == canonical_bytes(plan_to_json(other))
    assert Plan.parse(TEXT).ir == plan
