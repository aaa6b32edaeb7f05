"""A run that is stopped anywhere and resumed has the same notes and end as one that was not."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet import Journal, Plan, RunEnded, RunEvent, RunStatus, Runtime, tool
from callsheet.store import Durability

PLAN = Plan.parse("""
S1: @STEP_ON (1) > $a
S2: ?FOREACH ($i IN $items) THEN @STEP_ON ($i) > $all
@PARALLEL {
  S3: @STEP_ON ($a) > $b ON_FAIL @RETRY(1)
  S4: @STEP_ON (9) > $c
}
S5: ?IF ($b > 100) THEN GOTO S1
S6: @RESPOND ($all, $b, $c)
""")
INPUTS = {"items": [1, 2, 3]}


@tool(effect="read")
async def step_on(n: int) -> int:
    for _ in range(n % 3 + 2):
        await asyncio.sleep(0)
    return n + 1


def told(events: list[RunEvent]) -> list[RunEvent]:
    return [replace(event, replayed=False) for event in events]


async def whole() -> list[RunEvent]:
    return [event async for event in Runtime([step_on]).start(PLAN, INPUTS, run_id="r")]


async def stopped(folder: Path, stops: list[int]) -> list[RunEvent]:
    """The events of a run that is interrupted repeatedly, each time after this many turns of the loop."""
    with Journal.open(folder / "j.db", Durability.OFF) as journal:
        async with Runtime([step_on], journal=journal) as runtime:
            run = runtime.start(PLAN, INPUTS, run_id="r")
            for turns in stops:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await run.interrupt()
                if not journal.runs():
                    run = runtime.start(PLAN, INPUTS, run_id="r")  # it had not begun
                else:
                    run = runtime.start_resume("r")
            return [event async for event in run]


@given(stops=st.lists(st.integers(0, 30), max_size=4))
@settings(max_examples=60, deadline=None)
def test_interrupted_runs_have_same_notes_as_uninterrupted(stops: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert told(asyncio.run(stopped(Path(folder), stops))) == told(asyncio.run(whole()))


@given(turns=st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_run_cancelled_at_any_moment_has_one_end_in_journal(turns: int) -> None:
    async def cancelled(folder: Path) -> None:
        with Journal.open(folder / "j.db", Durability.OFF) as journal:
            async with Runtime([step_on], journal=journal) as runtime:
                run = runtime.start(PLAN, INPUTS, run_id="r")
                for _ in range(turns):
                    await asyncio.sleep(0)
                run.cancel("enough")
                result = await run.result()
                story = [event async for event in run]
                assert story[-1] == RunEnded(run_id="r", number=len(story), result=result)
                assert result.status in {RunStatus.CANCELLED, RunStatus.DONE}
                if journal.runs():
                    assert await runtime.resume("r") == result

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(cancelled(Path(folder)))


def test_tool_ignoring_cancellation_does_not_block_program() -> None:
    """Closing a loop waits for its tasks, so a task that never ends must not be among them."""

    @tool(effect="read", timeout=0.05)
    async def deaf() -> str:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    text = "S1: @DEAF > $a\nS2: @RESPOND ($a)"
    assert Runtime([deaf]).run_sync(text).response == "no answer within 0.05 s"
    with Runtime([deaf]) as runtime:
        assert runtime.run_sync(text).response == "no answer within 0.05 s"
