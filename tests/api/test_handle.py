"""Handles of runs: every event once and in order, for any number of readers; ways to end a run."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet import (
    CallInDoubt,
    CallsheetError,
    CastFailed,
    Journal,
    Limits,
    PlanError,
    Replanned,
    RunEnded,
    RunEvent,
    RunHandle,
    RunInterrupted,
    RunStatus,
    Runtime,
    StepDiverted,
    StepFailed,
    StepFinished,
    StepRemarked,
    StepRetrying,
    StepSkipped,
    StepStarted,
    ToolFailed,
    tool,
)
from callsheet.store import EventType

ANSWER = "S1: @RESPOND (1)"

AT_ONCE = Limits(retry_delay=0)


class Gate:
    """A tool that blocks until it is released and reports when it has started."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.open = asyncio.Event()
        self.calls = 0

    @tool(effect="unsafe")
    async def gate(self) -> str:
        self.calls += 1
        self.began.set()
        await self.open.wait()
        return "through"


def tasks() -> int:
    return len(asyncio.all_tasks())


async def events_of(run: RunHandle) -> list[RunEvent]:
    return [event async for event in run]


# ------------------------------------------------------------ what is told


async def test_events_of_step_are_typed() -> None:
    attempts = iter([OSError("busy"), "21"])

    @tool(effect="read", inline=True)
    def flaky() -> str:
        outcome = next(attempts)
        if isinstance(outcome, Exception):
            raise ToolFailed(str(outcome))
        return outcome

    plan = "S1: @FLAKY () > $n:int ON_FAIL @RETRY(1)\nS2: ?IF ($n > 30) THEN GOTO S1\nS3: @RESPOND ($n)"
    run = Runtime([flaky], limits=AT_ONCE).start(plan, run_id="r1")
    story = await events_of(run)
    place = {"run_id": "r1", "replayed": False}
    assert story == [
        StepStarted(**place, number=1, step="S1", action="@FLAKY"),
        StepRetrying(**place, number=2, step="S1", action="@FLAKY", error="busy", attempt=2),
        StepFinished(**place, number=3, step="S1", action="@FLAKY", variable="n", value=21),
        StepSkipped(**place, number=4, step="S2", action="GOTO", reason="the condition does not hold"),
        StepStarted(**place, number=5, step="S3", action="@RESPOND"),
        StepFinished(**place, number=6, step="S3", action="@RESPOND", variable=None, value=None),
        RunEnded(**place, number=7, result=await run.result()),
    ]


async def test_failed_items_are_told_by_index_and_attempt() -> None:
    @tool(effect="read")
    def check(n: int) -> int:
        if n == 20:
            raise ToolFailed("no")
        return n

    plan = "S1: ?FOREACH ($n IN [10, 20, 30]) THEN @CHECK ($n) ON_FAIL @RETRY(1)"
    story = await events_of(Runtime([check], limits=AT_ONCE).start(plan))
    told = [(type(e), e.item, e.attempt) for e in story if isinstance(e, StepRetrying | StepFailed)]
    assert told == [(StepRetrying, 1, 2), (StepFailed, 1, 2)]


@pytest.mark.parametrize(("on_fail", "fails"), [("", False), ("ON_FAIL GOTO S2", True)])
async def test_loop_has_failed_if_on_fail_jumps(on_fail: str, *, fails: bool) -> None:
    def check(n: int) -> int:
        if n > 1:
            raise ToolFailed("no")
        return n

    plan = f"S1: ?FOREACH ($i IN [1, 2]) THEN @CHECK ($i) > $a {on_fail}\nS2: @RESPOND ('done')"
    story = await events_of(Runtime([check]).start(plan))
    (item,) = (event for event in story if isinstance(event, StepFailed))
    (loop,) = (event for event in story if isinstance(event, StepFinished) and event.step == "S1")
    assert (item.error, loop.value, loop.failed) == ("no", [1, "no"], fails)


async def test_events_include_failures() -> None:
    def broken() -> None:
        raise OSError("no")

    plan = (
        "S1: @BROKEN () > $a ON_FAIL GOTO S3\nS2: @RESPOND ('never')\n"
        "S3: @CALC ('1') > $b:list\nS4: @FORMAT ('{') > $c:json\nS5: RE-PLAN ('more')"
    )
    runtime = Runtime([broken], compiler=lambda _: "S1: @RESPOND ('done')")
    story = await events_of(runtime.start(plan))
    kinds = [type(event) for event in story]
    assert kinds[:4] == [StepStarted, StepRemarked, StepFailed, StepDiverted]
    assert CastFailed in kinds
    diverted = story[3]
    assert isinstance(diverted, StepDiverted)
    assert diverted.target == "S3"
    at = kinds.index(Replanned)
    assert [getattr(e, "action", "") for e in story[at:]] == ["RE-PLAN", "@RESPOND", "@RESPOND", ""]


@given(
    pace=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    items=st.integers(0, 30),
    steps=st.integers(1, 12),
)
@settings(max_examples=30, deadline=None)
def test_slow_reader_loses_and_reorders_no_event(pace: list[int], items: int, steps: int) -> None:
    """Numbers run from 1 to the end without gaps, and the events equal those of a fast reader."""
    text = "".join(f"S{n}: ?FOREACH ($i IN $items) THEN @TICK ($i) > $v{n}\n" for n in range(1, steps + 1))

    @tool(effect="read")
    async def tick(i: int) -> int:
        await asyncio.sleep(0)
        if i % 7 == 3:
            raise OSError(f"item {i}")
        return i

    async def story(pace: list[int]) -> list[RunEvent]:
        told: list[RunEvent] = []
        run = Runtime([tick]).start(text, {"items": list(range(items))}, run_id="r")
        async for event in run:
            told.append(event)
            for _ in range(pace[len(told) % len(pace)]):
                await asyncio.sleep(0)
        return told

    slow, quick = asyncio.run(story(pace)), asyncio.run(story([0]))
    assert [event.number for event in slow] == list(range(1, len(slow) + 1))
    assert slow == quick
    assert isinstance(slow[-1], RunEnded)


async def test_run_does_not_wait_for_reader() -> None:
    text = "".join(f"S{n}: @CALC ('{n}') > $v{n}\n" for n in range(1, 400))
    run = Runtime(schedule="sequential").start(text)
    result = await run.result()
    assert result.steps_executed == 399
    story = await events_of(run)
    assert (story[0].number, story[-1].number) == (1, 2 * 399 + 1)


async def test_leaving_iteration_keeps_run_and_iteration_can_continue() -> None:
    gate = Gate()
    run = Runtime([gate.gate]).start("S1: @CALC ('1') > $a\nS2: @GATE () > $b\nS3: @RESPOND ($b)")
    async for event in run:
        if isinstance(event, StepFinished):
            break
    gate.open.set()
    assert (await run.result()).response == "through"
    assert [event.number for event in await events_of(run)] == [3, 4, 5, 6, 7]


async def test_reader_that_times_out_loses_no_event() -> None:
    gate = Gate()
    run = Runtime([gate.gate]).start("S1: @GATE () > $a")
    assert (await anext(run)).number == 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(run), 0.01)
    gate.open.set()
    assert [event.number for event in await events_of(run)] == [2, 3]


async def test_event_values_are_copies() -> None:
    gate = Gate()
    run = Runtime([gate.gate]).start('S1: @SELECT ($d, query="a") > $a\nS2: @GATE ()', {"d": {"a": [1]}})
    async for event in run:
        if isinstance(event, StepFinished) and event.step == "S1":
            assert isinstance(event.value, list)
            event.value.append(2)
            gate.open.set()
    assert (await run.result()).variables["a"] == [1]


def test_events_are_immutable() -> None:
    event = StepSkipped(run_id="r", number=1, step="S1", action="GOTO", reason="")
    with pytest.raises(AttributeError):
        event.number = 2  # type: ignore[misc]


async def test_event_is_delivered_after_it_is_journaled(tmp_path: Path) -> None:
    text = "".join(f"S{n}: @CALC ('{n}') > $v{n}\n" for n in range(1, 30))
    with Journal.open(tmp_path / "j.db") as journal:
        async with Runtime(journal=journal) as runtime:
            async for event in runtime.start(text, run_id="r1"):
                held = {(row.type, row.step) for row in journal.events("r1")}
                if isinstance(event, StepFinished):
                    assert (EventType.OK, event.step) in held
                if isinstance(event, RunEnded):
                    assert EventType.END in {kind for kind, _ in held}


# ------------------------------------------------------------ what is wrong


async def test_invalid_plan_text_starts_nothing() -> None:
    before = tasks()
    with pytest.raises(PlanError, match="MIC012"):
        Runtime().start("serch 'x'")
    assert tasks() == before


@pytest.mark.parametrize("is_open", [True, False])
async def test_used_run_id_is_refused_at_start(tmp_path: Path, is_open: bool) -> None:
    runtime = Runtime(journal=tmp_path / "journal.db")
    async with runtime if is_open else nullcontext():
        first = runtime.start(ANSWER, run_id="r")
        with pytest.raises(CallsheetError, match="JRN003"):
            runtime.start(ANSWER, run_id="r")  # the first is not recorded yet
        await first.result()
        with pytest.raises(CallsheetError, match="JRN003"):
            runtime.start(ANSWER, run_id="r")
    with pytest.raises(CallsheetError, match="JRN003"):
        Runtime(journal=tmp_path / "journal.db").start(ANSWER, run_id="r")


async def test_run_id_is_reusable_for_unrecorded_runs() -> None:
    runtime = Runtime()
    runs = [runtime.start(ANSWER, run_id="r") for _ in range(2)]
    assert [(await run.result()).response for run in runs] == ["1", "1"]


async def test_refused_plan_raises_for_reader_and_waiter() -> None:
    run = Runtime().start("S1: GOTO S9")
    with pytest.raises(PlanError, match="CHK012"):
        await anext(run)
    with pytest.raises(PlanError, match="CHK012"):
        await run.result()
    with pytest.raises(PlanError, match="CHK012"):
        async with Runtime().start("S1: GOTO S9"):
            pass
    async with Runtime().start("S1: GOTO S9") as told:
        with pytest.raises(PlanError):
            await told.result()


def test_handle_needs_event_loop() -> None:
    with pytest.raises(RuntimeError, match="needs a running event loop"):
        Runtime().start("respond 1")


# ------------------------------------------------------------ ending and stopping


async def test_cancelled_run_ends_as_cancelled_with_its_reason(tmp_path: Path) -> None:
    gate = Gate()
    async with Runtime([gate.gate], journal=tmp_path / "j.db") as runtime:
        run = runtime.start("S1: @CALC ('1') > $a\nS2: @GATE () > $b", run_id="r1")
        await gate.began.wait()
        run.cancel("enough")
        run.cancel("again")
        result = await run.result()
        assert (result.status, result.error) == (RunStatus.CANCELLED, "enough")
        assert result.variables == {"a": 1}
        assert [type(e).__name__ for e in await events_of(run)][-1] == "RunEnded"
        assert await runtime.resume("r1") == result
        run.cancel("too late")
        assert await run.result() == result


async def test_run_is_cancelled_before_it_starts(tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.start("respond n", {"n": 1}, run_id="r1")
        run.cancel()
        result = await run.result()
        assert (result.status, result.variables) == (RunStatus.CANCELLED, {"n": 1})
        assert [type(e) for e in await events_of(run)] == [RunEnded]
        assert (await runtime.run("respond 1", run_id="r1")).ok  # nothing of it was recorded


async def test_run_is_cancelled_while_servers_start() -> None:
    import sys

    asleep = {"asleep": {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}}
    async with Runtime(mcp=asleep) as runtime:
        run = runtime.start("S1: @NOT_HERE ()")
        await asyncio.sleep(0.3)
        run.cancel("no patience")
        result = await asyncio.wait_for(run.result(), 50)
    assert (result.status, result.error) == (RunStatus.CANCELLED, "no patience")


async def test_cancelling_waiter_keeps_run() -> None:
    gate = Gate()
    run = Runtime([gate.gate]).start("S1: @GATE () > $a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(run.result(), 0.01)
    gate.open.set()
    assert (await run.result()).ok


async def test_interrupted_run_has_no_end_and_resumes_as_stream(tmp_path: Path) -> None:
    gate = Gate()
    text = "S1: @CALC ('1') > $a\nS2: @GATE () > $b\nS3: @RESPOND ($b)"
    async with Runtime([gate.gate], journal=tmp_path / "j.db") as runtime:
        run = runtime.start(text, run_id="r1")
        await gate.began.wait()
        await run.interrupt()
        with pytest.raises(RunInterrupted, match=r"runtime\.resume\('r1'\)"):
            await run.result()
        with pytest.raises(RunInterrupted):
            await events_of(run)
        gate.open.set()
        again = runtime.start_resume("r1", in_doubt="retry")
        story = await events_of(again)
    past = [event for event in story if event.replayed]
    assert [(type(e), getattr(e, "action", "")) for e in past] == [
        (StepStarted, "@CALC"), (StepFinished, "@CALC"), (StepStarted, "@GATE")
    ]  # fmt: skip
    assert [e.number for e in story] == list(range(1, len(story) + 1))
    assert (await again.result()).response == "through"


async def test_events_of_resumed_run_know_earlier_plans(tmp_path: Path) -> None:
    gate = Gate()
    runtime = Runtime([gate.gate], compiler=lambda _: "S1: @GATE () > $x", journal=tmp_path / "j.db")
    async with runtime:
        run = runtime.start("S1: RE-PLAN ('more')", run_id="r1")
        await gate.began.wait()
        await run.interrupt()
        gate.open.set()
        story = await events_of(runtime.start_resume("r1", in_doubt="retry"))
    assert [getattr(e, "action", "") for e in story] == ["RE-PLAN"] * 3 + ["@GATE"] * 2 + [""]


async def test_calls_in_doubt_are_reported_before_end(tmp_path: Path) -> None:
    @tool(effect="unsafe")
    async def pay() -> None:
        raise ToolFailed("no answer", in_doubt=True)

    async with Runtime([pay], journal=tmp_path / "j.db") as runtime:
        started, doubt, ended = await events_of(runtime.start("S1: @PAY ()"))
    assert isinstance(started, StepStarted)
    assert isinstance(doubt, CallInDoubt)
    assert isinstance(ended, RunEnded)
    assert ended.result.in_doubt == (doubt.call,)


async def test_exception_in_reader_interrupts_run_and_leaves_no_task(tmp_path: Path) -> None:
    before = tasks()
    gate = Gate()
    async with Runtime([gate.gate], journal=tmp_path / "j.db") as runtime:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - a block is what is tested
            async with runtime.start("S1: @GATE () > $a", run_id="r1") as run:
                async for _ in run:
                    raise ZeroDivisionError
        assert run.is_done
        assert (await runtime.resume("r1")).status is RunStatus.IN_DOUBT
    assert tasks() == before


async def test_normal_exit_of_with_block_waits_for_run() -> None:
    before = tasks()
    gate = Gate()
    asyncio.get_running_loop().call_later(0.05, gate.open.set)
    async with Runtime([gate.gate]).start("S1: @GATE () > $a") as run:
        pass
    assert run.is_done
    assert (await run.result()).ok
    assert tasks() == before


async def test_cancelled_with_block_leaves_no_run() -> None:
    before = tasks()
    gate = Gate()

    async def block() -> None:
        async with Runtime([gate.gate]).start("S1: @GATE () > $a"):
            pass

    task = asyncio.create_task(block())
    await gate.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tasks() == before


async def test_closing_runtime_interrupts_running_runs(tmp_path: Path) -> None:
    before = tasks()
    gate = Gate()
    async with Runtime([gate.gate], journal=tmp_path / "j.db") as runtime:
        run = runtime.start("S1: @GATE () > $a", run_id="r1")
        await gate.began.wait()
    with pytest.raises(RunInterrupted):
        await run.result()
    assert tasks() == before


async def test_concurrent_runs_have_separate_streams(tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "j.db") as runtime:
        runs = [runtime.start('S1: @CALC ("$n") > $m', {"n": n}, run_id=f"r{n}") for n in range(20)]
        stories: list[list[Any]] = await asyncio.gather(*(events_of(run) for run in runs))
    for n, story in enumerate(stories):
        assert {event.run_id for event in story} == {f"r{n}"}
        assert [event.number for event in story] == [1, 2, 3]
