"""Watching runs from Python, and searching for texts in them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from callsheet import Answer, CallsheetError, JournalEvent, Runtime, tool

PLAN = 'S1: @SLOW ("ada") > $a\nS2: @RESPOND ("$a!")'


async def test_tail_follows_run_executed_by_another_runtime(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    @tool(effect="read")
    def slow(name: str) -> str:
        """Waits for a signal."""
        begun.set()
        assert go.wait(60)
        return f"hello {name}"

    path = tmp_path / "runs.db"
    async with Runtime([slow], journal=path) as runner, Runtime(journal=path) as watcher:
        handle = runner.start(PLAN, run_id="slow")
        assert await asyncio.to_thread(begun.wait, 30)
        seen: list[JournalEvent] = []
        async for event in watcher.tail("slow", follow=True):
            seen.append(event)
            if event.type == "intent":
                go.set()
        assert (await handle.result()).response == "hello ada!"
        rest = [event async for event in watcher.tail("last", after=2)]
    assert [(event.seq, event.type) for event in seen] == [(1, "start"), (2, "intent"), (3, "ok"), (4, "end")]
    assert (seen[2].key, seen[2].step, seen[2].body) == ("S1.0.1", "S1", {"value": "hello ada"})
    assert rest == seen[2:]


@pytest.mark.parametrize("is_open", [True, False])
async def test_tail_follows_run_from_its_start(tmp_path: Path, is_open: bool) -> None:
    runtime = Runtime(journal=tmp_path / "runs.db")
    async with runtime if is_open else nullcontext():
        run = runtime.start("S1: @RESPOND (1)", run_id="r")
        seen = [event.type async for event in runtime.tail("r", follow=True)]
        await run.result()
    assert seen == ["start", "end"]


async def test_unrecorded_run_is_not_waited_for(tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "runs.db") as runtime:
        run = runtime.start("S1: @NOTHING () > $a", run_id="r")
        with pytest.raises(CallsheetError, match="JRN002"):
            await asyncio.wait_for(anext(runtime.tail("r", follow=True)), 20)
        with pytest.raises(CallsheetError, match="CHK040"):
            await run.result()


async def test_tail_ends_where_run_waits_for_people(tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "runs.db") as runtime:
        await runtime.run('S1: @ASK_HUMAN ("who?") > $who\nS2: @RESPOND ($who)', run_id="who")
        seen = [event.type async for event in runtime.tail("who", follow=True)]
        assert seen == ["start", "ask"]
        await runtime.answer("who", "S1", Answer.of("ada"))
        await runtime.resume("who")
        (match,) = await runtime.search("/^a.a$/", "who", limit=1)
    assert (match.what, match.text, match.run_id) == ("answer", "ada", "who")


def test_text_is_found_in_all_runs_or_one(tmp_path: Path) -> None:
    with Runtime(journal=tmp_path / "runs.db") as runtime:
        for name in ("ada", "bob"):
            runtime.run_sync("S1: @RESPOND ($who)", {"who": name}, run_id=name)
        assert {match.run_id for match in runtime.search_sync("BO", ignore_case=True)} == {"bob"}
        assert runtime.search_sync("bob", "ada") == []
        first = runtime.search_sync("ada", "ada")[0]
        assert (first.seq, first.what, first.variable, first.text) == (1, "given", "who", "ada")
        with pytest.raises(CallsheetError, match="JRN085"):
            runtime.search_sync("/(?=x)/")
        with pytest.raises(ValueError, match="empty"):
            runtime.search_sync("")
    with pytest.raises(ValueError, match="journal"):
        Runtime().search_sync("x")


def test_abandoned_tail_warns_about_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Runtime(journal=tmp_path / "j.db") as runtime:
        run = runtime.run_sync('S1: @CALC ("1 + 1") > $a\nS2: @RESPOND ($a)').run_id

    async def leave() -> object:
        events = runtime.tail(run)
        async for _ in events:
            break
        return events

    for _ in range(8):  # the loop closes what is left in no order of its own
        asyncio.run(leave())
    assert not caplog.records


async def test_run_list_shows_resumable_runs(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime([nap], journal=path) as runtime:
        await runtime.run('S1: @RESPOND ("hello")', run_id="done")
        await runtime.run('S1: @ASK_HUMAN ("who?") > $who', run_id="asks")
        await anext(runtime.start("S1: @NAP > $a", run_id="left"))
        assert [run.run_id for run in await runtime.runs(status="running")] == ["left"]
    async with Runtime([nap], journal=path) as runtime:
        listed = [(run.run_id, run.status) for run in await runtime.runs()]
        assert listed == [("left", "interrupted"), ("asks", "waiting"), ("done", "done")]
        assert [run.run_id for run in await runtime.runs(status="interrupted", limit=1)] == ["left"]
        assert await runtime.runs(limit=0) == []
        with pytest.raises(ValueError, match="no status 'stopped'; there are running, "):
            await runtime.runs(status="stopped")
    with pytest.raises(ValueError, match="journal"):
        await Runtime().runs()


@tool(effect="read")
async def nap() -> str:
    """Sleeps for a long time."""
    await asyncio.sleep(60)
    return "late"
