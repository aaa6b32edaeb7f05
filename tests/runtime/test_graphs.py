"""Plans of dependencies in a real journal: concurrent, failed, resumed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callsheet.frontends.dag import parse_dag
from callsheet.ir import Effect, Plan
from callsheet.machine import Status, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.answers import Answer
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.inbox import answer_run, asks_of, inbox
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import RunOutcome, resume_run, start_run
from callsheet.store import EventType, Journal, RunStatus

FACTS = {"T": ToolFacts(Effect.UNSAFE)}
LAUNCH = Launch(facts=FACTS)


def plan_of(*dependencies: str) -> Plan:
    """Steps 1, 2, …, each given with its dependencies: `"3: 1 2"`."""
    steps: list[Any] = []
    for line in dependencies:
        index, _, after = line.partition(":")
        steps.append(
            {
                "index": index,
                "title": index,
                "tool": "t",
                "args": {"n": index},
                "depends_on": after.split(),
                "result_variable": f"v{index}",
            }
        )
    return parse_dag(json.dumps({"title": "p", "steps": steps})).require()


class World:
    """A tool that fails for some steps and records its calls."""

    def __init__(self, *failing: str) -> None:
        self.failing = set(failing)
        self.calls: list[str] = []
        self.most = self.open = 0
        self.under_way = asyncio.Event()
        """Step 2 has left."""

    def ports(self) -> Ports:
        async def tool(args: dict[str, Any], context: CallContext) -> Any:
            self.calls.append(args["n"])
            if args["n"] == "2":
                self.under_way.set()
            self.open += 1
            self.most = max(self.most, self.open)
            await asyncio.sleep(0.001)
            self.open -= 1
            if args["n"] in self.failing:
                raise ToolFailed("no")
            return args["n"]

        return Ports(lambda name: Route(tool))

    async def resume(self, journal: Journal) -> RunOutcome:
        @asynccontextmanager
        async def ports_for(start: Any, plan: Plan) -> AsyncGenerator[Ports]:
            yield self.ports()

        return await resume_run(journal, "run", ports_for)


async def test_steps_run_concurrently_up_to_limit(journal: Journal) -> None:
    world = World()
    plan = plan_of(*(f"{n}:" for n in range(1, 10)))
    outcome = await start_run(plan, world.ports(), LAUNCH, journal, "run")
    assert outcome.result is not None
    assert outcome.result.variables == {f"v{n}": str(n) for n in range(1, 10)}
    assert world.most == 4


async def test_question_after_repaired_failure_is_answerable(journal: Journal) -> None:
    launch = Launch(facts=FACTS, approve=("T",))
    world = World("1")
    await start_run(plan_of("1:", "2: 1"), world.ports(), launch, journal, "run")
    answer_run(journal, "run", Answer.approve())
    assert (await world.resume(journal)).result is not None
    repaired = World()
    for step in ("1", "2"):
        assert (await repaired.resume(journal)).result is None
        assert [(ask.step, ask.is_answered) for ask in inbox(journal)] == [(step, False)]
        answer_run(journal, "run", Answer.approve())
    done = await repaired.resume(journal)
    assert done.result is not None
    assert done.result.status is Status.DONE
    assert asks_of(journal, "run") == []


async def test_resumed_failed_run_repeats_failed_step_and_dependents(journal: Journal) -> None:
    plan = plan_of("1:", "2: 1", "3:", "4: 2 3", "5: 3")
    world = World("2")
    failed = await start_run(plan, world.ports(), LAUNCH, journal, "run")
    assert failed.result is not None
    assert failed.result.error == "step 2 failed: no"
    assert sorted(world.calls) == ["1", "2", "3", "5"]
    assert journal.find_run("run").status is RunStatus.FAILED
    again = World("2")
    still = await again.resume(journal)
    assert still.result is not None
    assert (still.result.status, still.result.error) == (Status.FAILED, failed.result.error)
    assert again.calls == ["2"]
    repaired = World()
    done = await repaired.resume(journal)
    assert done.result is not None
    assert (done.result.status, done.result.response) == (Status.DONE, "5")
    assert repaired.calls == ["2", "4"]
    assert journal.find_run("run").status is RunStatus.DONE
    assert journal.verify("run") is None
    kinds = [event.type for event in journal.events("run")]
    assert kinds.count(EventType.REOPEN) == 2
    assert kinds.count(EventType.END) == 3
    nothing = World()
    assert (await nothing.resume(journal)).result == done.result
    assert nothing.calls == []


async def test_interrupted_run_continues(journal: Journal) -> None:
    plan = plan_of("1:", "2: 1", "3: 2")
    world = World()
    task = asyncio.create_task(start_run(plan, world.ports(), LAUNCH, journal, "run"))
    await world.under_way.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asked = await World().resume(journal)
    assert [call.step for call in asked.in_doubt] == ["2"]
