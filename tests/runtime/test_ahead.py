"""Early calls on a real event loop and in a real journal."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.runtime.tools import Tools, launch, plan_of, ports_for, route_to

from callsheet.ir import JSON
from callsheet.machine import Limits, Status
from callsheet.ports.calls import CallContext
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.runs import Amendments, resume_run, run_unrecorded, start_run
from callsheet.store import Journal

AUTO = Limits(schedule="auto", retry_delay=0.0)
PLAN = """
S1: @READ (1) > $a
S2: @READ (2) > $b
S3: @WRITE ("$a") > $c
S4: @READ (4) > $d
S5: @RESPOND ($a, $b, $c, $d)
"""


class World:
    """Tools that count their calls; those of the step `holds` wait until they are released."""

    def __init__(self, holds: str, after: int) -> None:
        self.calls = Counter[str]()
        self.free = asyncio.Event()
        self.reached = asyncio.Event()
        """That so many calls have been made."""
        self._holds, self._after = f"{holds}.0.1", after

    async def _call(self, args: dict[str, Any], context: CallContext) -> JSON:
        self.calls[context.key] += 1
        if len(self.calls) == self._after:
            self.reached.set()
        if context.key == self._holds:
            await self.free.wait()
        return args["x"]

    @property
    def tools(self) -> Tools:
        return dict.fromkeys(("READ", "WRITE"), Route(self._call))


async def start(journal: Journal, world: World, limits: Limits = AUTO) -> RunOutcome:
    return await start_run(plan_of(PLAN), Ports(route_to(world.tools)), launch(limits), journal, "run")


async def interrupt_after_calls(journal: Journal, world: World) -> None:
    """Start the run, and interrupt it a moment after the expected calls have been made."""
    driving = asyncio.create_task(start(journal, world))
    reached = asyncio.create_task(world.reached.wait())
    await asyncio.wait({driving, reached}, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert reached.done(), driving
    await asyncio.sleep(0.05)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    world.free.set()


async def test_second_read_answers_while_first_is_in_flight() -> None:
    barrier = asyncio.Barrier(2)

    async def meet(args: dict[str, Any], context: CallContext) -> JSON:
        async with asyncio.timeout(60):
            await barrier.wait()
        return args["x"]

    plan = plan_of("S1: @READ (1) > $a\nS2: @READ (2) > $b\nS3: @RESPOND ($a, $b)")
    result = await run_unrecorded(plan, Ports(route_to({"READ": meet})), launch(AUTO))
    assert (result.status, result.response) == (Status.DONE, "1 2")


@pytest.mark.parametrize(("holds", "after"), [("S1", 2), ("S4", 4)])
async def test_interrupted_run_continues_without_repeating_answered_calls(
    journal: Journal, holds: str, after: int
) -> None:
    """Interrupted during S1, then during S4; early results are in the journal and stay there."""
    world = World(holds, after)
    await interrupt_after_calls(journal, world)
    outcome = await resume_run(journal, "run", ports_for(world.tools))
    assert outcome.result is not None
    assert outcome.result.response == "1 2 1 4"
    assert {key for key, count in world.calls.items() if count > 1} == {f"{holds}.0.1"}
    assert (outcome.result.usage.calls, outcome.result.usage.early) == (4, 1)


async def test_schedule_is_recorded_with_run(journal: Journal) -> None:
    world = World("S1", 2)
    await interrupt_after_calls(journal, world)
    (first, *_) = journal.events("run")
    assert first.body is not None
    assert first.body["limits"]["schedule"] == "auto"


async def test_sequential_resume_starts_nothing_early(journal: Journal) -> None:
    world = World("S1", 2)
    await interrupt_after_calls(journal, world)
    outcome = await resume_run(
        journal,
        "run",
        ports_for(world.tools),
        Amendments(limits=lambda limits: limits.changed({"schedule": "sequential"})),
    )
    assert outcome.result is not None
    assert (outcome.result.response, outcome.result.usage.early) == ("1 2 1 4", 1)
    assert world.calls["S2.0.1"] == 1
