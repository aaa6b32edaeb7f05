"""Eager tasks, and the calls that a crew makes in them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from tests.runtime.tools import FACTS, plan_of, route_to, run

from callsheet.ir import JSON
from callsheet.machine import Machine, Started, Status, compile_plan
from callsheet.ports.tools import CallContext
from callsheet.runtime.concurrent_calls import begin_now
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.local import LocalDriver

GROUP = "@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b\n}\nS3: @C () > $c"


async def test_non_waiting_coroutine_completes_at_once() -> None:
    async def work() -> int:
        return 7

    task = begin_now(work())
    assert task.done()
    assert task.result() == 7


async def test_eager_task_runs_in_one_task_and_caller_in_another() -> None:
    found: list[asyncio.Task[Any] | None] = []
    word = contextvars.ContextVar("word", default="outside")

    async def work() -> None:
        word.set("inside")
        found.append(asyncio.current_task())
        await asyncio.sleep(0)
        found.append(asyncio.current_task())
        assert word.get() == "inside"

    caller = asyncio.current_task()
    task = begin_now(work())
    assert not task.done()
    assert (asyncio.current_task(), word.get()) == (caller, "outside")
    await task
    assert found == [task, task]


async def test_exception_and_cancellation_reach_eager_task() -> None:
    async def fail() -> None:
        raise KeyError("x")

    async def wait() -> None:
        await asyncio.sleep(60)

    with pytest.raises(KeyError):
        await begin_now(fail())
    waiting = begin_now(wait())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_callbacks_from_other_threads_run() -> None:
    loop, brought, done = asyncio.get_running_loop(), 0, threading.Event()

    def bring() -> None:
        nonlocal brought
        brought += 1

    def other() -> None:
        for _ in range(2_000):
            loop.call_soon_threadsafe(bring)
        done.set()

    async def work() -> int:
        return 1

    thread = threading.Thread(target=other)
    thread.start()
    tasks = [begin_now(work()) for _ in range(2_000)]
    while not done.is_set():
        tasks.append(begin_now(work()))
        await asyncio.sleep(0)
    thread.join()
    await asyncio.sleep(0)
    assert (sum(await asyncio.gather(*tasks)), brought) == (len(tasks), 2_000)


async def test_timeout_within_concurrent_call_is_its_own() -> None:
    async def late(args: dict[str, Any], context: CallContext) -> JSON:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(60)
        except TimeoutError:
            return "late"

    async def well(args: dict[str, Any], context: CallContext) -> JSON:
        await asyncio.sleep(0.03)
        return "well"

    result = await run(GROUP, {"A": late, "B": well, "C": "end"})
    assert result.variables == {"a": "late", "b": "well", "c": "end"}


@pytest.mark.parametrize("calls", [GROUP, "S1: @A () > $a\nS3: @C () > $c"], ids=["a group", "a step"])
async def test_call_that_cancels_its_run_is_last(calls: str) -> None:
    made: list[str] = []

    async def cancel(args: dict[str, Any], context: CallContext) -> JSON:
        made.append(context.key)
        driver.cancel("enough")
        return "done"

    async def note(args: dict[str, Any], context: CallContext) -> JSON:
        made.append(context.key)
        return "done"

    ports = Ports(route_to({"A": cancel, "B": note, "C": note}))
    machine = Machine(compile_plan(plan_of(calls), FACTS))
    driver = LocalDriver(machine, Gateway(ports, "run"))
    result = await driver.run(machine.feed(Started({})))
    assert result is not None
    assert (result.status, result.error) == (Status.CANCELLED, "enough")
    assert "S3.0.1" not in made
    await asyncio.sleep(0.01)  # nothing of it comes later
