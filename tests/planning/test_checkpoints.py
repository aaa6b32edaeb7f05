"""Resuming runs of another program: its state file is read, and completed steps are not repeated."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.dag_plans import step

from callsheet import Limits, Runtime, tool
from callsheet.api.budget import SharedBudget
from callsheet.api.plan import Plan
from callsheet.diagnostics import CallsheetError
from callsheet.planning import PlanExecutionResult, PlanningContext, PlanRunner

CHAIN = {
    "id": "chain",
    "title": "Chain",
    "variables": {"place": "here", "day": "monday"},
    "steps": [
        step("1", "look", var="seen", at="${place}"),
        step("2", "think", "1", var="thought", of="${seen.words.0}"),
        step("3", "tell", "2", text="${thought} ${day}"),
    ],
}


SEEN = {"words": ["hello"]}


def state(*completed: str | int, plan_id: str = "chain", **variables: Any) -> str:
    told = {"plan_id": plan_id, "status": "running", "completed_steps": completed, "variables": variables}
    return json.dumps(told)


class Elsewhere:
    """A library with one plan, and the calls made when one of its runs is adopted."""

    def __init__(self, folder: Path, plan: dict[str, Any], budget: SharedBudget | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.begun: list[str] = []
        self.failing: set[str] = set()
        self.context = PlanningContext(self._call, plans_dir=folder, budget=budget)
        self.context.library.save(Plan.parse(json.dumps(plan)).ir)
        self.plan_id = str(plan["id"])

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        self.calls.append((name, arguments))
        if name in self.failing:
            raise RuntimeError(f"{name} is down")
        return name

    def take_over(self, told: Any, **pace: Any) -> PlanExecutionResult:
        runner = PlanRunner(self.context, lambda index, title, called: self.begun.append(index), **pace)
        return asyncio.run(runner.resume_plan(self.plan_id, state=told))

    def resume(self) -> PlanExecutionResult:
        return asyncio.run(PlanRunner(self.context).resume_plan(self.plan_id))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


@pytest.fixture
def there(tmp_path: Path) -> Elsewhere:
    return Elsewhere(tmp_path / "plans", CHAIN)


def test_completed_steps_are_not_run_again_and_their_results_are_used(there: Elsewhere) -> None:
    result = there.take_over(state("1", seen=SEEN, place="there", day="sunday"))
    assert result.success, result.error
    assert there.calls == [("think", {"of": "hello"}), ("tell", {"text": "think sunday"})]
    assert there.begun == ["2", "3"]
    assert result.variables["seen"] == SEEN
    assert result.variables["place"] == "there"
    assert [s.step_index for s in result.steps if s.success] == ["1", "2", "3"]


def test_file_may_be_given_as_data_with_numeric_indexes(there: Elsewhere) -> None:
    assert there.take_over(json.loads(state(1, 2, seen=SEEN, thought="t"))).success
    assert there.calls == [("tell", {"text": "t monday"})]


def test_run_without_remaining_steps_is_done(there: Elsewhere) -> None:
    result = there.take_over(state("1", "2", "3", seen=SEEN, thought="t"))
    assert result.success
    assert there.calls == []
    assert result.variables["thought"] == "t"
    assert there.resume().success
    assert there.calls == []


def test_adopted_run_is_journaled_and_resumable(there: Elsewhere) -> None:
    there.failing = {"tell"}
    assert not there.take_over(state("1", seen=SEEN)).success
    there.failing = set()
    assert there.resume().success
    assert there.names == ["think", "tell", "tell"]


def test_steps_done_elsewhere_use_no_slot(tmp_path: Path) -> None:
    many = [step(str(n), f"tool_{n}", var=f"v{n}") for n in range(9)]
    plan = {"id": "wide", "title": "Wide", "steps": [*many, step("end", "last", "0", "8")]}
    wide = Elsewhere(tmp_path / "plans", plan)
    result = wide.take_over(state("7", "8", plan_id="wide", v7=7, v8=8), max_concurrency=2)
    assert result.success
    assert sorted(wide.names) == ["last", *(f"tool_{n}" for n in range(7))]


def test_calls_made_elsewhere_use_no_budget(tmp_path: Path) -> None:
    narrow = Elsewhere(tmp_path / "plans", CHAIN, SharedBudget(Limits(max_calls=1)))
    assert narrow.take_over(state("1", "2", seen=SEEN, thought="t")).success
    assert narrow.names == ["tell"]
    used = narrow.context.budget.used
    assert (used.calls, used.calls_by_tool["TELL"], used.steps) == (1, 1, 1)
    assert sum(used.calls_by_tool.values()) == 1


def test_last_setter_determines_variable(tmp_path: Path) -> None:
    twice = [
        step("2", "second", "1", var="v"),
        step("1", "first", var="v"),
        step("3", "use", "2", of="${v}"),
    ]
    two = Elsewhere(tmp_path / "plans", {"id": "two", "title": "Two", "steps": twice})
    assert two.take_over(state("1", "2", plan_id="two", v="of the second")).success
    assert two.calls == [("use", {"of": "of the second"})]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("", "not JSON"),
        (state("1", seen=1)[:-9], "not JSON"),
        ('{"plan_id": "chain", "plan_id": "chain", "completed_steps": []}', "occurs twice"),
        ('["1"]', "not a JSON object"),
        (state("1", plan_id="another", seen=1), "of the plan another"),
        ('{"plan_id": "chain", "variables": {}}', "not a list of indexes"),
        ('{"plan_id": "chain", "completed_steps": [true], "variables": {}}', "which is not an index"),
        ('{"plan_id": "chain", "completed_steps": ["1"], "variables": [1]}', "is not an object"),
        (state("9"), "has no step 9"),
        (state("2", thought="t"), "step 1, on which it depends, is not"),
        (state("1"), "its variable seen is not in the state file"),
    ],
)
def test_mismatched_file_is_refused_as_whole(there: Elsewhere, told: str, why: str) -> None:
    result = there.take_over(told)
    assert not result.success
    assert "PLN028" in (result.error or "")
    assert why in (result.error or "")
    assert there.calls == []
    assert result.run_id is None


def test_runtime_adopts_run(tmp_path: Path) -> None:
    made: list[str] = []

    @tool
    def make(text: str) -> str:
        made.append(text)
        return text

    steps = [step("1", "make", var="a", text="one"), step("2", "make", "1", text="after ${a}")]
    plan = json.dumps({"id": "p", "title": "p", "steps": steps})
    with Runtime([make], journal=tmp_path / "journal.db") as runtime:
        assert asyncio.run(_adopted(tmp_path, plan, make)) == "mine"
        assert runtime.resume_sync("mine").ok
    assert made == ["after elsewhere"]


async def _adopted(place: Path, plan: str, make: Any) -> str:
    async with Runtime([make], journal=place / "journal.db") as runtime:
        return await runtime.adopt(plan, {"1": "elsewhere"}, run_id="mine")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([step("1", "agent_solve", goal="g")], "step 1 cannot be marked as done: it is not a call"),
        (
            [
                step("1", "calc", var="v", expression="1"),
                step("2", "calc", "1", var="v", expression="${v.x}"),
            ],
            r"step 2 cannot be marked as done: \$\{v.x\} has no value",
        ),
    ],
)
def test_invalid_completed_steps_are_refused(tmp_path: Path, lines: list[dict[str, Any]], why: str) -> None:
    plan = json.dumps({"id": "p", "title": "p", "steps": lines})

    async def adopt() -> None:
        async with Runtime(model=lambda prompt: "x", journal=tmp_path / "journal.db") as runtime:
            await runtime.adopt(plan, {line["index"]: None for line in lines})

    with pytest.raises(CallsheetError, match=why):
        asyncio.run(adopt())
