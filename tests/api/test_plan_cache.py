"""Plans that run again are not checked and compiled again, and never confused with others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from callsheet import Plan, PlanError, Runtime, tool
from callsheet.api import admission
from callsheet.api.admission import AdmittedPlans, Equipment, Request, prepare
from callsheet.api.proving import Guarantees
from callsheet.ir import Plan as Steps
from callsheet.ir import plan_hash
from callsheet.ir.canon import canonical_bytes, plan_bytes, plan_to_json
from callsheet.ports.tools import Registry


@tool(effect="read", inline=True)
def twice(x: int) -> int:
    return 2 * x


TEXT = "S1: @TWICE ($x) > $y\nS2: @RESPOND ($y)"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The plan checks that the sessions made."""
    made: list[object] = []
    real = admission.check_plan
    monkeypatch.setattr(admission, "check_plan", lambda *a, **k: made.append(a) or real(*a, **k))
    return made


@tool(undo="twice(x=call.x)")
def half(x: int) -> int:
    return x // 2


SAGA = """# ltp: 2
INPUT $x: int
TRY {
  @HALF (x=$x * 4) > $y
} ON_FAIL UNDO
@RESPOND ($y)"""


@pytest.mark.parametrize("text", [TEXT, SAGA], ids=["flat", "with ON_FAIL UNDO"])
async def test_repeated_plan_is_checked_once(checks: list[object], text: str) -> None:
    plan = Plan.parse(text)
    async with Runtime([twice, half]) as runtime:
        answers = [str((await runtime.run(plan, {"x": x})).response) for x in (1, 2, 3)]
        assert (answers, len(checks)) == (["2", "4", "6"], 1)
        assert str((await runtime.run(Plan.parse(text), {"x": 4})).response) == "8"
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


def test_cache_is_bounded_and_drops_least_recently_used(checks: list[object]) -> None:
    plans = [Plan.parse(f"S1: @RESPOND ({n})").ir for n in range(4)]
    registry = Registry()
    equipment = Equipment(registry=registry, guarantees=lambda: Guarantees(registry))
    kept = AdmittedPlans(most=2)

    def is_kept(plan: Steps, equipment: Equipment = equipment, **others: Any) -> bool:
        before = len(checks)
        prepare(Request(plan=plan, **others), equipment, kept)
        return len(checks) == before

    assert [is_kept(plans[n]) for n in (0, 1, 0, 2, 0, 1)] == [False, False, True, False, True, False]
    assert not is_kept(plans[1], inputs={"x": 1})
    assert is_kept(plans[1], inputs={"x": 2})
    assert not is_kept(plans[1], inputs={"x": 2}, secret=frozenset({"x"}))
    assert not is_kept(plans[1], replace(equipment, registry=Registry()), inputs={"x": 2})
    kept.clear()
    assert not is_kept(plans[1], inputs={"x": 2})


def test_canonical_form_is_cached_per_plan() -> None:
    plan = Plan.parse(TEXT).ir
    name = plan_hash(plan)
    assert plan_bytes(plan) is plan_bytes(plan)
    other = replace(plan, title="another")
    assert plan_hash(other) != name
    assert plan_bytes(other) == canonical_bytes(plan_to_json(other))
    assert Plan.parse(TEXT).ir == plan
