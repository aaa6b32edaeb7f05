"""A run can be cancelled from anywhere in any state: no call is sent afterwards, and it has one end."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet import CallsheetError, Journal, RunResult, RunStatus, Runtime, tool
from callsheet.machine import Compile
from callsheet.runtime import driving
from callsheet.store import Durability, EventType

AFTER = "\nS9: @AFTER ()"
PLANS = {
    "a call": "S1: @HANG () > $a" + AFTER,
    "calls side by side": "@PARALLEL {\n S1: @HANG () > $a\n S2: @HANG () > $b\n}" + AFTER,
    "items": "S1: ?FOREACH ($i IN [1, 2, 3]) THEN @HANG () > $a" + AFTER,
    "a timer": "S1: @FAIL () > $a ON_FAIL @RETRY(1, delay=60)" + AFTER,
    "a new plan": 'S1: ?IF ($b != "no") THEN RE-PLAN ("once more")' + AFTER,
    "an approval": "S1: @HANG () > $a\nS2: @ASKED () > $b" + AFTER,
}


class World:
    """Tools, some of which never answer, and a record of the calls."""

    def __init__(self, path: Path) -> None:
        self.journal = path
        self.after = 0

    def runtime(self) -> Runtime:
        @tool(effect="read")
        async def hang() -> str:
            await asyncio.sleep(60)
            return "late"

        @tool(effect="read", inline=True)
        def fail() -> str:
            raise ValueError("no")

        @tool(inline=True)
        def after() -> None:
            self.after += 1

        @tool(inline=True)
        def asked() -> None:
            self.after += 1

        async def compiler(_: Compile) -> str:
            await asyncio.sleep(60)
            return "respond 1"

        return Runtime([hang, fail, after, asked], compiler=compiler, approve=["ASKED"], journal=self.journal)

    def kinds(self) -> list[EventType]:
        with Journal.open(self.journal) as journal:
            assert journal.verify("r") is None
            return [event.type for event in journal.events("r")]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(driving, "POLL", 0.01)
    return World(tmp_path / "journal.db")


async def under_way(world: World) -> None:
    """Wait until the start is journaled and every possible call is in flight."""
    async with asyncio.timeout(60):
        while not _begun(world.journal):  # noqa: ASYNC110 - as others see it
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)


def _begun(path: Path) -> bool:
    if not path.exists():
        return False
    with Journal.open(path) as journal:
        return journal.runs() != []


@pytest.mark.parametrize("state", PLANS)
async def test_running_run_is_cancelled_by_another_runtime(world: World, state: str) -> None:
    run = world.runtime().start(PLANS[state], {"b": "yes"}, run_id="r")
    await under_way(world)
    told = await world.runtime().cancel("r", "enough")
    assert told is not None
    result = await run.result()
    assert (result.status, result.error) == (told.status, told.error) == (RunStatus.CANCELLED, "enough")
    assert (await world.runtime().resume("r")).status is RunStatus.CANCELLED
    kinds = world.kinds()
    assert kinds[-2:] == [EventType.CANCEL, EventType.END]
    assert kinds.count(EventType.END) == 1
    assert world.after == 0


async def _interrupted(world: World, plan: str) -> None:
    run = world.runtime().start(plan, {"b": "yes"}, run_id="r")
    await under_way(world)
    await run.interrupt()


@pytest.mark.parametrize("state", PLANS)
async def test_interrupted_run_is_cancelled_at_once(world: World, state: str) -> None:
    await _interrupted(world, PLANS[state])
    told = await world.runtime().cancel("r", "enough", patience=0)
    assert told is not None
    assert (told.status, told.error) == (RunStatus.CANCELLED, "enough")
    assert world.kinds()[-2:] == [EventType.CANCEL, EventType.END]
    assert (await world.runtime().resume("r")).error == "enough"
    assert world.after == 0


async def test_unsafe_call_in_flight_is_reported_in_doubt(world: World) -> None:
    began = asyncio.Event()

    @tool
    async def pay(amount: int) -> str:
        began.set()
        await asyncio.sleep(60)
        return f"paid {amount}"

    runtime = Runtime([pay], journal=world.journal)
    run = runtime.start("S1: @PAY (5) > $a", run_id="r")
    await began.wait()
    told = await runtime.cancel("r")
    assert told is not None
    assert (await run.result()).status is RunStatus.CANCELLED
    assert [(call.key, call.args, call.why) for call in told.in_doubt] == [
        ("S1.0.1", {"amount": 5}, "the run was ended before the answer came")
    ]


async def test_cancelling_is_refused_for_ended_run_and_without_journal(
    world: World,
) -> None:
    assert (await world.runtime().run("S1: @RESPOND ('x')", run_id="r")).ok
    with pytest.raises(CallsheetError, match="JRN032"):
        await world.runtime().cancel("r")
    with pytest.raises(CallsheetError, match="JRN002"):
        await world.runtime().cancel("s")
    with pytest.raises(ValueError, match="no journal"):
        await Runtime().cancel("r")


def test_cancels_without_event_loop(world: World) -> None:
    runtime = Runtime(journal=world.journal)
    assert runtime.run_sync('S1: @ASK_HUMAN ("go on?")', run_id="r").status is RunStatus.WAITING
    cancelled = runtime.cancel_sync("r", "no answer")
    assert cancelled is not None
    assert (cancelled.status, cancelled.error) == (RunStatus.CANCELLED, "no answer")
    assert runtime.inbox_sync() == []


@tool(effect="unsafe")
async def step_on(n: int) -> int:
    for _ in range(n % 3 + 2):
        await asyncio.sleep(0)
    return n + 1


PLAN = """
S1: @STEP_ON (1) > $a
S2: ?FOREACH ($i IN [1, 2, 3]) THEN @STEP_ON ($i) > $all
@PARALLEL {
  S3: @STEP_ON ($a) > $b ON_FAIL @RETRY(1)
  S4: @STEP_ON (9) > $c
}
S5: @RESPOND ($all, $b, $c)
"""


@given(turns=st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_cancelled_run_has_one_end_and_no_later_intent(turns: int) -> None:
    async def scenario(folder: Path) -> None:
        with Journal.open(folder / "j.db", Durability.OFF) as journal:
            async with Runtime([step_on], journal=journal) as runtime:
                run = runtime.start(PLAN, run_id="r")
                for _ in range(turns):
                    await asyncio.sleep(0)
                told = await _cancelled(lambda: runtime.cancel("r", patience=5))
                result = await run.result()
                assert result.status in {RunStatus.CANCELLED, RunStatus.DONE}
                assert told is None or told.status == result.status
                kinds = [event.type for event in journal.events("r")]
                assert kinds.count(EventType.END) == 1
                if result.status is RunStatus.CANCELLED:
                    assert kinds[-2:] == [EventType.CANCEL, EventType.END]
                assert journal.verify("r") is None

    poll = driving.POLL
    driving.POLL = 0.0
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(scenario(Path(folder)))
    finally:
        driving.POLL = poll


async def _cancelled(cancel: Callable[[], Awaitable[RunResult | None]]) -> RunResult | None:
    """The end of a cancelled run; None if the run does not exist yet or has already ended."""
    try:
        return await cancel()
    except CallsheetError as error:
        if error.diagnostics[0].code in {"JRN002", "JRN032"}:
            return None
        raise
