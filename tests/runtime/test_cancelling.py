"""Cancelling a run from outside: by its driver, or with the task that drives it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.runtime.tools import FACTS, plan_of, route_to

from callsheet.ir import JSON
from callsheet.machine import Awaited, Event, Machine, Result, Started, Status, compile_plan
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.local import LocalDriver

LONE = "S1: @SLOW () > $a\nS2: @AFTER ()"
GROUP = "S0: @QUICK () > $q\n@PARALLEL {\n S1: @SLOW () > $a\n S2: @SLOW () > $b\n}\nS3: @AFTER ()"


class Bell:
    """A tool that reports its start, then never returns."""

    def __init__(self) -> None:
        self.under_way = asyncio.Event()
        self.ended = 0

    async def __call__(self, args: dict[str, Any], context: CallContext) -> JSON:
        self.under_way.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.ended += 1


def driver_of(text: str, tools: dict[str, Any]) -> tuple[LocalDriver, Any]:
    machine = Machine(compile_plan(plan_of(text), FACTS))
    driver = LocalDriver(machine, Gateway(Ports(route_to(tools)), "run"))
    return driver, machine.feed(Started({"i": 1}))


async def cancelled(text: str, tools: dict[str, Any], under_way: asyncio.Event) -> Result:
    driver, commands = driver_of(text, tools)
    driving = asyncio.create_task(driver.run(commands))
    async with asyncio.timeout(50):
        await under_way.wait()
        await asyncio.sleep(0)
        driver.cancel("enough")
        return await driving


def tools_with(slow: Any, after: list[str]) -> dict[str, Any]:
    async def slowly(args: dict[str, Any], context: CallContext) -> JSON:
        return await slow(args, context)

    return {"SLOW": slowly, "QUICK": 5, "AFTER": lambda args: after.append("called")}


@pytest.mark.parametrize("text", [LONE, GROUP])
async def test_cancelled_run_ends_and_makes_no_calls(text: str) -> None:
    bell, after = Bell(), []
    result = await cancelled(text, tools_with(bell, after), bell.under_way)
    assert (result.status, result.error, after) == (Status.CANCELLED, "enough", [])


@pytest.mark.parametrize(("text", "calls"), [(LONE, 1), (GROUP, 2)])
async def test_no_call_outlives_cancelled_run(text: str, calls: int) -> None:
    bell = Bell()
    before = asyncio.all_tasks()
    await cancelled(text, tools_with(bell, []), bell.under_way)
    assert bell.ended == calls
    assert asyncio.all_tasks() == before


async def test_variables_are_those_at_cancellation() -> None:
    bell = Bell()
    assert (await cancelled(GROUP, tools_with(bell, []), bell.under_way)).variables == {"i": 1, "q": 5}


async def test_run_is_cancelled_during_wait() -> None:
    failed = asyncio.Event()

    async def fail(args: dict[str, Any], context: CallContext) -> JSON:
        failed.set()
        raise RuntimeError("no")

    result = await cancelled("S1: @SLOW () ON_FAIL @RETRY(1, delay=60)", tools_with(fail, []), failed)
    assert result.status is Status.CANCELLED


async def test_run_cancelled_before_resume_makes_no_calls() -> None:
    after: list[str] = []
    driver, commands = driver_of("S1: @AFTER ()", tools_with(Bell(), after))
    driver.cancel("too early")
    result = await driver.run(commands)
    assert (result.status, result.error, after) == (Status.CANCELLED, "too early", [])


@pytest.mark.parametrize("text", [LONE, GROUP])
@pytest.mark.parametrize("raises", [False, True])
async def test_tool_swallowing_cancellation_does_not_keep_run_alive(text: str, raises: bool) -> None:
    under_way, after = asyncio.Event(), []

    async def stubborn(args: dict[str, Any], context: CallContext) -> JSON:
        under_way.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if raises:
                raise ValueError("cleaning up failed") from None
        return "done all the same"

    result = await cancelled(text, tools_with(stubborn, after), under_way)
    assert (result.status, after) == (Status.CANCELLED, [])


async def test_task_that_cancels_run_continues() -> None:
    """The cancellation is used up: what the same task awaits afterwards is not cancelled."""
    bell = Bell()
    driver, commands = driver_of(LONE, tools_with(bell, []))

    async def drive_then_rest() -> str:
        await driver.run(commands)
        await asyncio.sleep(0.001)
        return "rested"

    task = asyncio.create_task(drive_then_rest())
    await bell.under_way.wait()
    driver.cancel()
    assert await task == "rested"
    assert task.cancelling() == 0


@pytest.mark.parametrize("text", [LONE, GROUP])
async def test_cancelling_task_interrupts_run_without_end(text: str) -> None:
    bell = Bell()
    driver, commands = driver_of(text, tools_with(bell, []))
    task = asyncio.create_task(driver.run(commands))
    await bell.under_way.wait()
    before = asyncio.all_tasks() - {task}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert driver._machine.result is None
    assert {t for t in asyncio.all_tasks() - before if not t.done()} == set()


class SlowJournal:
    """A recorder with a slow second commit that reports its start."""

    def __init__(self) -> None:
        self.commits = 0
        self.under_way = asyncio.Event()

    def intent(self, command: Awaited) -> None:
        pass

    def event(self, event: Event) -> Event:
        return event

    async def commit(self, is_idle: bool) -> None:
        self.commits += 1
        if self.commits == 2:
            self.under_way.set()
            await asyncio.sleep(60)


async def test_call_with_intent_being_written_does_not_start() -> None:
    journal, after = SlowJournal(), []
    machine = Machine(compile_plan(plan_of("S1: @QUICK () > $q\nS2: @AFTER ()"), FACTS))
    driver = LocalDriver(machine, Gateway(Ports(route_to(tools_with(Bell(), after))), "run"), journal)
    driving = asyncio.create_task(driver.run(machine.feed(Started({}))))
    await journal.under_way.wait()
    driver.cancel("enough")
    result = await driving
    assert (result.status, result.variables, after) == (Status.CANCELLED, {"q": 5}, [])


async def test_cancelling_twice_is_same_as_once() -> None:
    bell = Bell()
    driver, commands = driver_of(GROUP, tools_with(bell, []))
    driving = asyncio.create_task(driver.run(commands))
    await bell.under_way.wait()
    driver.cancel("first")
    driver.cancel("first")
    assert (await driving).error == "first"
    driver.cancel("late")
    assert driving.result().error == "first"
