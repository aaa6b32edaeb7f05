"""The local driver: real concurrent calls on an asyncio loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.runtime.conftest import Clock
from tests.runtime.tools import FACTS, launch, plan_of, route_to, run

from callsheet.ir import JSON
from callsheet.machine import (
    Awaited,
    Event,
    Limits,
    Machine,
    Result,
    Started,
    Status,
    compile_plan,
)
from callsheet.ports.calls import CallContext
from callsheet.runtime.gateway import Gateway, Ports, Route
from callsheet.runtime.launch import Watch
from callsheet.runtime.local import LocalDriver
from callsheet.runtime.runs import run_unrecorded


class Meeting:
    """A tool whose calls return only when this many of them are concurrent."""

    def __init__(self, parties: int) -> None:
        self.barrier = asyncio.Barrier(parties)

    async def __call__(self, args: dict[str, Any], context: CallContext) -> JSON:
        async with asyncio.timeout(60):
            return await self.barrier.wait() >= 0


async def test_group_members_are_concurrent() -> None:
    meet = Route(Meeting(3))
    result = await run("@PARALLEL {\n S1: @A () > $a\n S2: @A () > $b\n S3: @A () > $c\n}", {"A": meet})
    assert result.variables == {"a": True, "b": True, "c": True}


async def test_read_only_items_are_concurrent() -> None:
    result = await run("S1: ?FOREACH ($i IN [1, 2, 3, 4]) THEN @READ ($i) > $r", {"READ": Route(Meeting(4))})
    assert result.variables["r"] == [True] * 4


async def test_writing_items_are_never_concurrent() -> None:
    under_way, most = 0, 0

    async def write(args: dict[str, Any], context: CallContext) -> JSON:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.002)
        under_way -= 1
        return args["x"]

    result = await run("S1: ?FOREACH ($i IN [1, 2, 3, 4]) THEN @WRITE ($i) > $r", {"WRITE": write})
    assert (most, result.variables["r"]) == (1, [1, 2, 3, 4])


async def test_results_are_in_item_order_despite_arrival_order() -> None:
    async def read(args: dict[str, Any], context: CallContext) -> JSON:
        await asyncio.sleep(0.02 - 0.004 * args["x"])
        return args["x"]

    result = await run("S1: ?FOREACH ($i IN [0, 1, 2, 3]) THEN @READ ($i) > $r", {"READ": read})
    assert result.variables["r"] == [0, 1, 2, 3]


async def test_tool_modifying_its_arguments_changes_nothing() -> None:
    def spoil(args: dict[str, Any]) -> JSON:
        args["v"]["deep"].append("spoiled")
        args["w"] = args.pop("v")
        return "done"

    text = "S1: @SPOIL (v=$a)\nS2: @SPOIL (v=$a)\nS3: @RESPOND ($a)"
    result = await run(text, {"SPOIL": spoil}, a={"deep": [1]})
    assert result.response == '{"deep":[1]}'
    assert result.variables["a"] == {"deep": [1]}


async def test_retried_call_gets_unmodified_arguments() -> None:
    seen: list[JSON] = []

    def spoil(args: dict[str, Any]) -> JSON:
        seen.append(list(args["v"]))
        args["v"].clear()
        raise RuntimeError("again")

    await run("S1: @SPOIL (v=$a) ON_FAIL @RETRY(1)", {"SPOIL": spoil}, a=[1, 2])
    assert seen == [[1, 2], [1, 2]]


class Turns:
    """Counts the turns of another task on the loop during a run."""

    def __init__(self) -> None:
        self.count = 0

    async def _take_turns(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    async def during(self, text: str, tools: dict[str, Any], limits: Limits | None = None) -> Result:
        other = asyncio.create_task(self._take_turns())
        await asyncio.sleep(0)
        self.count = 0
        result = await run_unrecorded(plan_of(text), Ports(route_to(tools)), launch(limits or Limits()))
        other.cancel()
        return result


MANY = list(range(100_000))
FEW_STEPS = Limits(max_steps=20_000, max_repeats=None)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("S1: GOTO S1", 20_000),
        ("S1: GOTO S2\nS2: GOTO S1", 20_000),
        ('S1: ?IF (IS_EMPTY("x")) THEN @CALC_IT ()\nS2: GOTO S1', 20_000),
        ("S1: @CALC_IT ()\nS2: GOTO S1", 20_000),
        ('S1: ?FOREACH ($i IN ["a", "b"]) THEN @CALC_IT ($i)\nS2: GOTO S1', 20_000),
        ("@PARALLEL {\n  S1: @CALC_IT ()\n  S2: GOTO S1\n}", 20_000),
    ],
)
async def test_jump_cycle_ends_and_does_not_starve_event_loop(text: str, steps: int) -> None:
    turns = Turns()
    result = await turns.during(text, {"CALC_IT": 1}, FEW_STEPS)
    assert result.steps_executed == steps
    assert "max_steps" in str(result.error)
    assert turns.count >= 8


@pytest.mark.parametrize(
    "action",
    [
        "@READ ($i) > $all",
        "@WRITE ($i) > $all",
        "?IF ($i < 0) THEN @READ ($i)",
        '?IF ($i == 99999) THEN @RESPOND ("$i")',
        '@RESPOND ("$i")',
    ],
)
async def test_long_foreach_does_not_starve_event_loop(action: str) -> None:
    turns = Turns()
    result = await turns.during(
        f"S1: @LIST () > $list\nS2: ?FOREACH ($i IN $list) THEN {action}",
        {"LIST": MANY, "READ": 1, "WRITE": 1},
    )
    assert result.status is Status.DONE
    assert turns.count >= 40


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"S{i}: @WORK ()" for i in range(40)),
        "S1: ?FOREACH ($i IN $items) THEN @READ ($i)",
    ],
)
async def test_slow_non_waiting_tools_yield_to_event_loop(text: str) -> None:
    """Forty calls of five milliseconds each: far fewer than fast calls in one slice."""

    def work(args: dict[str, Any]) -> JSON:
        time.sleep(0.005)
        return None

    turns = Turns()
    plan = text.replace("$items", str(list(range(40))))
    await turns.during(plan, {"WORK": work, "READ": work})
    assert turns.count >= 5


async def test_run_cancelled_within_slice_completes_started_work() -> None:
    """A journal folded later knows no slices: it leads to the same end."""
    drivers: list[LocalDriver] = []
    plan = plan_of("S1: @LIST () > $list\nS2: ?FOREACH ($i IN $list) THEN ?IF ($i < 0) THEN @READ ($i)")
    watch = Watch(on_driver=drivers.append)
    going = asyncio.create_task(run_unrecorded(plan, Ports(route_to({"LIST": MANY})), launch(), watch))
    for _ in range(5):
        await asyncio.sleep(0)
    drivers[0].cancel("enough")
    result = await going
    assert (result.status, result.steps_executed) == (Status.DONE, 2)


async def test_plan_of_ten_thousand_steps_runs() -> None:
    text = "\n".join(f"S{i}: @ADD (n=$n) > $n" for i in range(1, 10_001))
    result = await run(text, {"ADD": lambda args: args["n"] + 1}, n=0)
    assert result.variables["n"] == 10_000


async def test_retry_waits_for_delay() -> None:
    calls: list[float] = []

    def fail(args: dict[str, Any]) -> JSON:
        calls.append(time.monotonic())
        raise RuntimeError("no")

    await run("S1: @A () ON_FAIL @RETRY(1, delay=0.05)", {"A": fail})
    assert calls[1] - calls[0] >= 0.045


async def test_wait_blocks_no_other_step(clock: Clock) -> None:
    order: list[str] = []

    def fail(args: dict[str, Any]) -> JSON:
        order.append("fail")
        raise RuntimeError("no")

    async def write(args: dict[str, Any], context: CallContext) -> JSON:
        order.append("write")
        if order.count("write") == 3:
            await asyncio.sleep(0.02)  # the wait of S1 has begun by then
            clock.go_on(50)
        return None

    text = (
        "@PARALLEL {\n S1: @A () ON_FAIL @RETRY(1, delay=40)\n"
        " S2: ?FOREACH ($i IN [1, 2, 3]) THEN @WRITE ($i)\n}"
    )
    await run(text, {"A": fail, "WRITE": write})
    assert order == ["fail", "write", "write", "write", "fail"]


async def test_callback_runs_after_each_batch() -> None:
    told = 0

    async def tell() -> None:
        nonlocal told
        told += 1

    await run("S1: @A ()\nS2: @A ()", {"A": 1}, Watch(after_batch=tell))
    assert told >= 3


class Scroll:
    """A recorder that keeps a list, with slow commits."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self.lines: list[str] = []

    def intent(self, command: Awaited) -> None:
        self.lines.append(f"{type(command).__name__} {command.key}")

    def event(self, event: Event) -> Event:
        self.lines.append(f"{type(event).__name__} {getattr(event, 'key', '')}")
        return event

    async def commit(self, is_idle: bool) -> None:
        await asyncio.sleep(self.pause)
        self.lines.append("commit")


async def recorded(text: str, tools: dict[str, Any], scroll: Scroll) -> None:
    machine = Machine(compile_plan(plan_of(text), FACTS))
    driver = LocalDriver(machine, Gateway(Ports(route_to(tools)), "run"), scroll)
    await driver.run(machine.feed(Started({})))


async def test_intents_are_committed_before_calls() -> None:
    scroll = Scroll()

    def tool(args: dict[str, Any], context: CallContext) -> JSON:
        intents = [i for i, line in enumerate(scroll.lines) if line == f"CallTool {context.key}"]
        return bool(intents) and "commit" in scroll.lines[intents[0] :]

    await recorded("@PARALLEL {\n S1: @A () > $a\n S2: @A () > $b\n}\nS3: @A () > $c", {"A": tool}, scroll)
    assert [line for line in scroll.lines if line.startswith("Succeeded")] == [
        "Succeeded S1.0.1",
        "Succeeded S2.0.1",
        "Succeeded S3.0.1",
    ]


async def test_outcome_is_recorded_while_another_step_waits(clock: Clock) -> None:
    """Outcomes are not left unwritten while the run sleeps."""

    class Waker(Scroll):
        async def commit(self, is_idle: bool) -> None:
            await super().commit(is_idle)
            if "Succeeded S2.0.1" in self.lines:
                clock.go_on(50)

    scroll = Waker(pause=0.01)

    async def fail(args: dict[str, Any], context: CallContext) -> JSON:
        raise RuntimeError("no")

    async def write(args: dict[str, Any], context: CallContext) -> JSON:
        await asyncio.sleep(0.004)
        return 1

    text = "@PARALLEL {\n S1: @A () ON_FAIL @RETRY(1, delay=40)\n S2: @WRITE ()\n}"
    await recorded(text, {"A": fail, "WRITE": write}, scroll)
    written = scroll.lines.index("commit", scroll.lines.index("Succeeded S2.0.1"))
    assert written < scroll.lines.index("TimerFired S1.0.2")


async def test_recorder_may_transform_outcome() -> None:
    from callsheet.machine import Failed

    class Strict(Scroll):
        def event(self, event: Event) -> Event:
            return Failed(event.key, "refused")  # type: ignore[union-attr]

    machine = Machine(compile_plan(plan_of("S1: @A () > $a"), FACTS))
    driver = LocalDriver(machine, Gateway(Ports(route_to({"A": 1})), "run"), Strict())
    result = await driver.run(machine.feed(Started({})))
    assert result.variables == {"a": "refused"}


async def test_permanently_unwritable_journal_ends_driver_and_calls() -> None:
    class Broken(Scroll):
        async def commit(self, is_idle: bool) -> None:
            if any(line.startswith("Succeeded") for line in self.lines):
                raise OSError("disk full")

    ended: list[str] = []
    under_way = asyncio.Event()

    async def slow(args: dict[str, Any], context: CallContext) -> JSON:
        under_way.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(context.key)

    async def answer(args: dict[str, Any], context: CallContext) -> JSON:
        await under_way.wait()
        return 1

    tools = {"A": answer, "B": slow}
    with pytest.raises(OSError, match="disk full"):
        await recorded("@PARALLEL {\n S1: @A ()\n S2: @B ()\n}\nS3: @A ()", tools, Broken())
    assert ended == ["S2.0.1"]


async def test_end_has_status_done() -> None:
    assert (await run('S1: @RESPOND ("x")')).status is Status.DONE


@pytest.mark.parametrize("text", ["S1: @A () > $a", "@PARALLEL {\n S1: @A () > $a\n S2: @B () > $b\n}"])
async def test_call_that_cancels_its_own_task_cancels_the_run_and_does_not_hang_it(text: str) -> None:
    async def cancel(args: dict[str, Any], context: CallContext) -> JSON:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)
        return None

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await asyncio.create_task(run(text, {"A": Route(cancel), "B": Route(Meeting(1))}))
