"""Runs on a real Temporal server are paused, left alone, and go on, as on the local engine."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest
from temporalio.api.enums.v1 import EventType
from tests.runtime.engines.temporal.conftest import World
from tests.runtime.engines.temporal.test_kept_calls import plan_of
from tests.runtime.engines.temporal.test_runs import histories

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Effect
from callsheet.machine import Limits, Status, ToolFacts
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext
from callsheet.runtime.answers import Answer
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.gateway import Ports, Route

LOOP = """# ltp: 2
S1: ?FOREACH ($n IN range(8)) TOGETHER MAX 2 {
  S2: @PUT (x=$n) > $done
  YIELD ($done)
} > $rows
@RESPOND ($rows)
"""
ASKS = """# ltp: 2
S1: @ASK_HUMAN ("which?") > $x
S2: @PUT (x=$x) > $done
@RESPOND ($done)
"""
FACTS = {"PUT": ToolFacts(Effect.UNSAFE, ("x",)), **OWN_FACTS}


class Tools:
    """A tool that answers when it may."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.begun, self.may_answer = asyncio.Event(), asyncio.Event()

    async def put(self, args: dict[str, Any], context: CallContext) -> Any:
        self.calls.append(args["x"])
        self.begun.set()
        await self.may_answer.wait()
        return args["x"]

    def ports(self) -> Ports:
        return Ports({"PUT": Route(self.put)}.get)


async def test_paused_run_makes_no_further_call_until_a_person_lets_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Tools()
    async with world.worker(tools.ports()):
        run_id = await world.start(plan_of(LOOP), {}, FACTS)
        run = world.temporal_run(run_id)
        await asyncio.wait_for(tools.begun.wait(), 60)
        assert await client.pause(run, "ada", "prices are wrong", 0.0) is None
        tools.may_answer.set()
        paused = await client.pause(run, "bob", "too late", 60.0)
        assert paused is not None
        assert (paused.by, paused.reason, sorted(tools.calls)) == ("ada", "prices are wrong", [0, 1])
    assert await client.pause(run, "bob", "", 0.0) == paused
    before = await client._history_of(run)
    await run.handle.signal("unpause", "eve")
    with monkeypatch.context() as patch:  # the server keeps a signal back that arrives during a task
        patch.setattr(client, "_history_of", AsyncMock(return_value=before))
        assert await client.pause(run, "bob", "still wrong", 0.0) is None, "ada's pause is over"
    async with world.worker(tools.ports()):
        paused = await client.pause(run, "bob", "still wrong", 60.0)
        assert paused is not None
        assert (paused.by, paused.reason) == ("bob", "still wrong")
        made = len(tools.calls)
    async with world.worker(tools.ports()):  # no worker takes it up by itself
        left = await client.resume_and_wait(run, None)
        assert (left.pause, left.result, left.in_doubt) == (paused, None, ())
        assert str(world.journal.find_run(run_id).status) == "paused"
        assert len(tools.calls) == made < 8
        ended = await client.resume_and_wait(run, None, unpaused_by="eve")
        with pytest.raises(CallsheetError, match=r"JRN032.*done"):
            await client.pause(run, "ada", "", 60.0)
    assert ended.result is not None
    assert (ended.result.answer, sorted(tools.calls)) == ([*range(8)], [*range(8)])
    told = [(str(e.type), e.body) for e in world.journal.events(run_id) if "pause" in e.type]
    first, again = ({"by": "ada", "reason": "prices are wrong"}, {"by": "bob", "reason": "still wrong"})
    goes_on = ("unpause", {"by": "eve"})
    assert told == [("pause", first), goes_on, ("pause", again), goes_on]
    assert world.journal.verify(run_id) is None


async def test_run_that_is_paused_while_it_continues_as_new_loses_nothing(
    world: World,
) -> None:
    items, tools = 20, Tools()
    tools.may_answer.set()
    text = LOOP.replace("range(8)) TOGETHER MAX 2", f"range({items}))")
    async with asyncio.timeout(90), world.worker(tools.ports()):
        run_id = await world.start(plan_of(text), {}, FACTS, turn_over=20)
        run, pauses = world.temporal_run(run_id), 0
        await asyncio.wait_for(tools.begun.wait(), 60)
        while len(tools.calls) < items - 4 and pauses < 3:
            assert await client.pause(run, "ada", str(pauses), 60.0) is not None
            pauses, made = pauses + 1, len(tools.calls)
            await asyncio.sleep(0.1)
            assert len(tools.calls) == made
            await run.handle.signal("unpause", "eve")
            while (await client.bring_up_to_date(run)).pause is not None:  # noqa: ASYNC110 - by the server
                await asyncio.sleep(0.05)
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert (outcome.result.answer, tools.calls) == (list(range(items)), list(range(items)))
    told = [str(event.type) for event in world.journal.events(run_id) if "pause" in event.type]
    assert told == ["pause", "unpause"] * pauses
    assert pauses > 1
    assert await histories(world, run_id) > 2
    assert world.journal.verify(run_id) is None


async def test_answer_to_a_paused_run_counts_when_it_goes_on_and_cancelling_ends_it(world: World) -> None:
    tools = Tools()
    tools.may_answer.set()
    async with world.worker(tools.ports()):
        asked = [await world.run(plan_of(ASKS), {}, FACTS) for _ in range(2)]
        first, second = (world.temporal_run(one.run_id) for one in asked)
        for run in (first, second):
            assert await client.pause(run, "ada", "", 60.0) is not None
            await client.answer(run, Answer.of("b", by="bob"), None)
        assert (await client.bring_up_to_date(first)).pause is not None
        assert tools.calls == []
        await client.cancel(second, "no more")
        cancelled = await world.wait(second.run_id)
        done = await client.resume_and_wait(first, None, unpaused_by="ada")
    assert cancelled.result is not None
    assert done.result is not None
    assert (cancelled.result.status, done.result.answer, tools.calls) == (Status.CANCELLED, "b", ["b"])


async def test_time_limit_of_a_run_that_rests_sets_no_timers(world: World) -> None:
    tools = Tools()
    tools.may_answer.set()
    async with world.worker(tools.ports()):
        asked = await world.run(plan_of(ASKS), {}, FACTS, limits=Limits(max_seconds=1.2))
        run = world.temporal_run(asked.run_id)
        await asyncio.sleep(4)
        history = await run.handle.fetch_history()
    timers = [e for e in history.events if e.event_type == EventType.EVENT_TYPE_TIMER_STARTED]
    assert len(timers) <= 2
