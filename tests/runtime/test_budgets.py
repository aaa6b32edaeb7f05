"""Time limits, and budgets across processes: earlier use counts after a resume."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.runtime.conftest import Clock
from tests.runtime.tools import FACTS, plan_of, ports_for, route_to

from callsheet.ir import JSON
from callsheet.machine import Limits, Refusal, Status
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, RunOutcome, resume_run, run_unrecorded, start_run
from callsheet.store import EventType, Journal

PLAN = "S1: @READ (1) > $a\nS2: @READ (2) > $b\nS3: @READ (3) > $c\nS4: @RESPOND ($a, $b, $c)"


class Tools:
    """One tool that waits at chosen calls until it is cancelled, and reports the cost of each call."""

    def __init__(self, *, hangs_at: int | None = None, takes: float = 0.0) -> None:
        self.calls = 0
        self.hangs = asyncio.Event()
        self._hangs_at = hangs_at
        self._takes = takes

    async def read(self, args: dict[str, Any], context: CallContext) -> JSON:
        self.calls += 1
        if self.calls == self._hangs_at:
            self.hangs.set()
            await asyncio.Event().wait()
        await asyncio.sleep(self._takes)
        context.spend(cost=0.25)
        context.spend(input_tokens=2, output_tokens=1)
        return "é"

    @property
    def by_name(self) -> dict[str, Any]:
        return {"READ": Route(self.read)}


def launch(limits: Limits) -> Launch:
    return Launch(facts=FACTS, limits=limits)


async def interrupted(journal: Journal, limits: Limits, *, after: int, takes: float = 0.0) -> None:
    """A run that is stopped during its next call."""
    tools = Tools(hangs_at=after + 1, takes=takes)
    run = start_run(plan_of(PLAN), Ports(route_to(tools.by_name)), launch(limits), journal, "run")
    task = asyncio.create_task(run)
    await tools.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def resumed(journal: Journal, tools: Tools, **more: Any) -> RunOutcome:
    return await resume_run(journal, "run", ports_for(tools.by_name), Amendments(**more))


async def test_calls_before_resume_count(journal: Journal) -> None:
    await interrupted(journal, Limits(max_calls=2), after=1)
    tools = Tools()
    outcome = await resumed(journal, tools)
    assert outcome.result is not None
    assert outcome.result.refusal == Refusal("max_calls", 2, 2, "READ")
    assert tools.calls == 1
    assert outcome.usage.calls_by_tool == {"READ": 2}
    assert (outcome.usage.tokens, outcome.usage.cost, outcome.usage.bytes) == (6, 0.5, 4)


async def test_raised_limit_stays_raised_on_resume(journal: Journal) -> None:
    await interrupted(journal, Limits(max_calls=2), after=1)
    outcome = await resumed(journal, Tools(), limits=lambda before: before.changed({"max_calls": 3}))
    assert outcome.result is not None
    assert outcome.result.response == "é é é"
    again = await resumed(journal, Tools())
    assert again == outcome
    assert again.usage == outcome.usage
    limits = [e.body for e in journal.events("run") if e.type is EventType.LIMITS]
    assert [body and body["limits"]["max_calls"] for body in limits] == [3]


async def test_end_event_has_usage(journal: Journal) -> None:
    ports = Ports(route_to(Tools().by_name))
    outcome = await start_run(plan_of(PLAN), ports, launch(Limits(max_calls=2)), journal, "run")
    end = list(journal.events("run"))[-1].body or {}
    assert end["usage"] == outcome.usage.to_json()
    assert end["usage"]["calls_by_tool"] == {"READ": 2}
    assert end["refusal"] == {"budget": "max_calls", "limit": 2, "used": 2, "tool": "READ"}


async def test_hanging_call_is_ended_at_time_limit(journal: Journal, clock: Clock) -> None:
    tools = Tools(hangs_at=2)
    ports = Ports(route_to(tools.by_name))
    limits = Limits(max_seconds=40)
    running = asyncio.create_task(start_run(plan_of(PLAN), ports, launch(limits), journal, "run"))
    await tools.hangs.wait()
    clock.go_on(50)
    async with asyncio.timeout(60):
        outcome = await running
    result = outcome.result
    assert result is not None
    assert result.refusal is not None
    assert (result.status, result.refusal.budget, result.variables) == (
        Status.FAILED,
        "max_seconds",
        {"a": "é"},
    )
    assert outcome.usage.seconds >= 50
    again = await resumed(journal, Tools())
    assert (again.result, again.usage) == (result, outcome.usage)
    assert journal.verify("run") is None


async def test_time_before_resume_counts(journal: Journal) -> None:
    await interrupted(journal, Limits(max_seconds=20, schedule="sequential"), after=1, takes=0.3)
    tools = Tools()
    outcome = await resumed(journal, tools, limits=lambda before: before.changed({"max_seconds": 0.25}))
    assert outcome.result is not None
    assert outcome.result.refusal is not None
    assert outcome.result.refusal.budget == "max_seconds"
    assert tools.calls == 0


async def test_time_is_limited_without_journal() -> None:
    ports = Ports(route_to(Tools(hangs_at=1).by_name))
    result = await run_unrecorded(plan_of(PLAN), ports, launch(Limits(max_seconds=0.05)))
    assert result.refusal is not None
    assert result.refusal.budget == "max_seconds"
    assert result.usage.seconds >= 0.05


@pytest.mark.parametrize("bad", [{"cost": -1.0}, {"cost": float("nan")}, {"input_tokens": -1}])
def test_call_cannot_refund_usage(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        CallContext("run", "S1.0.1").spend(**bad)
