"""`Runtime`: only the given tools, its journal, awaited runs and runs without an event loop."""

from __future__ import annotations

import asyncio
import functools
import json
import signal
import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests import forked

import callsheet
from callsheet import (
    BuiltinSettings,
    CallContext,
    CallsheetError,
    Journal,
    Limits,
    Outcome,
    Plan,
    PlanError,
    RunFailed,
    RunResult,
    RunStatus,
    Runtime,
    ToolFailed,
    arun,
    run,
    tool,
)

WORKSHOP = Path(__file__).parents[1] / "ports" / "servers" / "workshop.py"


@tool(effect="read", inline=True)
def double(n: int) -> int:
    return 2 * n


def greet(name: str) -> str:
    return f"Hello {name}"


GREET = "S1: @GREET ($who) > $text\nS2: @RESPOND ($text)"


# ------------------------------------------------------------ results


async def test_result_lists_failed_steps_of_continued_plan(tmp_path: Path) -> None:
    @tool
    def refuse() -> None:
        raise ToolFailed("no")

    plan = 'S1: @REFUSE ()\nS2: @RESPOND ("done")'
    runtime = Runtime([refuse], journal=tmp_path / "runs.db")
    result = await runtime.run(plan, run_id="r")
    assert (result.ok, result.response, result.failed_steps) == (True, "done", ("S1",))
    again = await runtime.resume("r")
    assert (again.failed_steps, again.outcome) == (("S1",), Outcome.DONE_WITH_FAILURES)
    assert again.raise_for_status() is again
    with pytest.raises(RunFailed, match="run r is done with failures: S1 failed"):
        again.raise_for_status(strict=True)


async def test_result_of_dependency_plan_lists_all_failed_steps() -> None:
    def refuse() -> None:
        raise ToolFailed("no")

    steps = [
        {"index": 1, "title": "a", "tool": "refuse", "args": {}, "depends_on": []},
        {"index": 2, "title": "b", "tool": "double", "args": {"n": 2}, "depends_on": [1]},
    ]
    result = await Runtime([double, refuse]).run(Plan.parse(json.dumps({"steps": steps})))
    assert (result.status, result.failed_steps) == (RunStatus.FAILED, ("1",))


async def test_result_describes_end_of_run() -> None:
    result = await Runtime([double]).run(
        'S1: @DOUBLE ($n) > $m\nS2: @RESPOND ("$m")', {"n": 4}, run_id="first"
    )
    assert result == RunResult("first", RunStatus.DONE, "8", {"n": 4, "m": 8}, 2, ended_at="S2")
    assert result.ok
    assert result.raise_for_status() is result


async def test_calls_that_only_read_start_early_by_default() -> None:
    under_way = list[int]()
    both = asyncio.Event()

    @tool(effect="read")
    async def look(at: int) -> int:
        under_way.append(at)
        if len(under_way) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 30)
        return at

    text = "S1: @LOOK (1) > $a\nS2: @LOOK (2) > $b\nS3: @RESPOND ($a, $b)"
    result = await arun(text, tools=[look])
    assert (result.response, result.usage.early) == ("1 2", 1)


async def test_terminated_plan_counts_as_completed() -> None:
    result = await Runtime().run('S1: TERMINATE ("nothing to do")')
    assert (result.ok, result.terminated, result.response) == (True, True, "nothing to do")


async def test_failed_result_raises_only_on_request() -> None:
    def broken() -> None:
        raise OSError("disk on fire")

    result = await Runtime([broken]).run('S1: @BROKEN () ON_FAIL TERMINATE ("no disk")', run_id="r1")
    assert (result.status, result.response, result.ok) == (RunStatus.FAILED, "no disk", False)
    with pytest.raises(RunFailed, match="RUN020: run r1 failed at S1: OSError: disk on fire") as caught:
        result.raise_for_status()
    assert caught.value.result is result


async def test_plan_with_errors_is_refused_before_anything_runs() -> None:
    calls: list[str] = []
    plan = Plan.parse('S1: @NOTE ("a")\nS2: GOTO S9', name="p.ltp")
    with pytest.raises(PlanError, match=r"p\.ltp:2:5: error CHK012"):
        await Runtime([tool(name="note")(lambda text: calls.append(f"{text}"))]).run(plan)
    assert calls == []


# ------------------------------------------------------------ inputs


async def test_inputs_are_json_compatible_data() -> None:
    result = await Runtime().run(
        "S1: @RESPOND ($day, $where)", {"day": date(2026, 1, 31), "where": Path("a")}
    )
    assert result.response == "2026-01-31 a"


@pytest.mark.parametrize("inputs", [{"$a": 1}, {"a b": 1}, {"": 1}, {"a": object()}, {"a": float("nan")}])
async def test_invalid_inputs_are_refused(inputs: dict[str, Any]) -> None:
    with pytest.raises(CallsheetError, match="RUN022"):
        await Runtime().run('S1: @RESPOND ("x")', inputs)


async def test_run_does_not_modify_its_inputs() -> None:
    def grow(items: list[int]) -> list[int]:
        items.append(9)
        return items

    given = {"items": [1]}
    result = await Runtime([grow]).run("S1: @GROW ($items) > $grown", given)
    assert given == {"items": [1]}
    assert result.variables == {"items": [1], "grown": [1, 9]}


# ------------------------------------------------------------ tools


async def test_tools_may_be_functions_methods_partials_and_files(tmp_path: Path) -> None:
    class Shop:
        @tool(effect="read")
        def price(self, item: str) -> int:
            return len(item)

    (tmp_path / "tools.py").write_text(
        "from callsheet import tool\n\n@tool\ndef half(n: float) -> float:\n    return n / 2\n"
    )
    named = tool(name="shout", effect="pure")(functools.partial(greet, name="YOU"))
    runtime = Runtime([double, greet, Shop().price, named, tmp_path / "tools.py"])
    plan = "S1: @DOUBLE (2) > $a\nS2: @PRICE ('tea') > $b\nS3: @SHOUT () > $c\nS4: @HALF (3) > $d"
    assert (await runtime.run(plan)).variables == {"a": 4, "b": 3, "c": "Hello YOU", "d": 1.5}


def test_invalid_tool_is_refused_at_construction() -> None:
    with pytest.raises(CallsheetError, match="CFG105"):
        Runtime([lambda n: n])
    with pytest.raises(CallsheetError, match="CFG105"):
        Runtime([functools.partial(greet)])
    with pytest.raises(CallsheetError, match="TOL002"):
        Runtime([double, double])
    with pytest.raises(CallsheetError, match="TOL101"):
        Runtime(builtins=True, workspace="/no/such/folder")
    with pytest.raises(TypeError, match="tools takes a list"):
        Runtime(double)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a tool is a function"):
        Runtime([3])  # type: ignore[list-item]


async def test_only_given_tools_are_reachable(tmp_path: Path) -> None:
    plan = 'S1: @WRITE_FILE (path="a.txt", content="x") > $done\nS2: @RESPOND ($done)'
    with pytest.raises(PlanError, match="no tool is called @WRITE_FILE"):
        await Runtime().run(plan)
    result = await Runtime(builtins=True, workspace=tmp_path, data=tmp_path).run(plan)
    assert result.ok
    assert (tmp_path / "a.txt").read_text() == "x"


async def test_builtin_tools_take_settings_and_given_tools_override_them(tmp_path: Path) -> None:
    settings = BuiltinSettings(workspace=tmp_path, data=tmp_path, max_write_bytes=2)
    plan = 'S1: @WRITE_FILE (path="a.txt", content="long") ON_FAIL TERMINATE ("$x")'
    assert not (await Runtime(builtins=settings).run(plan)).ok
    written: list[str] = []
    own = tool(name="write_file")(lambda path, content: written.append(content))
    assert (await Runtime([own], builtins=settings).run(plan)).ok
    assert written == ["long"]


def test_workspace_without_builtin_tools_is_error() -> None:
    with pytest.raises(ValueError, match="builtins=True"):
        Runtime(workspace=".")


async def test_two_runs_never_share_idempotency_key() -> None:
    keys: list[str] = []

    @tool(effect="keyed")
    def pay(context: CallContext) -> str:
        keys.append(context.idempotency_key)
        return context.run_id

    runtime = Runtime([pay])
    first, second = await asyncio.gather(runtime.run("S1: @PAY () > $id"), runtime.run("S1: @PAY () > $id"))
    assert len(set(keys)) == 2
    assert (first.variables["id"], second.variables["id"]) == (first.run_id, second.run_id)


# ------------------------------------------------------------ MCP servers


def workshop(folder: Path) -> dict[str, Any]:
    return {"workshop": forked.server(WORKSHOP, "stdio", folder / "notes")}


def starts(folder: Path) -> int:
    notes = folder / "notes"
    return notes.read_text().splitlines().count("start") if notes.exists() else 0


async def test_servers_start_on_demand_and_are_reused(tmp_path: Path) -> None:
    async with Runtime([double], mcp=workshop(tmp_path), data=tmp_path) as runtime:
        await runtime.run("S1: @DOUBLE (1)")
        assert starts(tmp_path) == 0
        plan = "S1: @SLOW (0) > $a\nS2: @RESPOND ($a)"
        results = await asyncio.gather(runtime.run(plan), runtime.run(plan))
        assert [r.response for r in results] == ["done", "done"]
        assert (await runtime.check(plan)).ok
    assert starts(tmp_path) == 1


async def test_servers_may_be_file_text_or_dict(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": workshop(tmp_path)}))
    for given in (file, str(file), {"mcpServers": workshop(tmp_path)}, workshop(tmp_path)):
        result = await arun("S1: @WORKSHOP__SLOW (0) > $a", mcp=given, data=tmp_path)
        assert result.variables == {"a": "done"}


async def test_server_that_fails_to_open_refuses_plan(tmp_path: Path) -> None:
    servers = {"gone": {"command": str(tmp_path / "no-such-program")}}
    runtime = Runtime([double], mcp=servers, data=tmp_path)
    found = await runtime.check("S1: @SLOW (0)")
    assert {d.code for d in found.errors} == {"TOL010", "CHK040"}
    assert (await runtime.run("S1: @DOUBLE (1) > $a")).ok


def test_invalid_configuration_raises_at_once_with_position() -> None:
    with pytest.raises(CallsheetError) as caught:
        Runtime(mcp={"git": {"comand": "git"}})
    assert caught.value.diagnostics[0].help == "did you mean 'command'?"


# ------------------------------------------------------------ without a loop


def test_run_takes_plan_text_or_file(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "p.ltp").write_text(GREET)
    monkeypatch.chdir(tmp_path)
    for plan in (Plan.parse(GREET), GREET, tmp_path / "p.ltp", "p.ltp"):
        assert run(plan, {"who": "Ada"}, tools=[greet]).response == "Hello Ada"


def test_runs_within_with_block_share_open_servers(tmp_path: Path) -> None:
    with Runtime(mcp=workshop(tmp_path), data=tmp_path, journal=tmp_path / "j.db") as runtime:
        first = runtime.run_sync("S1: @SLOW (0) > $a", run_id="one")
        second = runtime.run_sync("S1: @SLOW (0) > $a", run_id="two")
        assert first.variables == second.variables == {"a": "done"}
        assert runtime.resume_sync("one") == first
        assert runtime.check_sync("S1: @SLOW (0) > $a").ok
    assert starts(tmp_path) == 1


STUCK = """
import sys, time
from callsheet import Runtime, tool

@tool(effect="read")
def stuck() -> str:
    print("stuck", flush=True)
    time.sleep(float(sys.argv[1]))
    return "free"

try:
    with Runtime([stuck], journal="j.db") as runtime:
        print(runtime.run_sync("S1: @STUCK () > $a", run_id="r1"))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    import os
    os._exit(0)
"""


def test_ctrl_c_interrupts_call_and_run_is_resumable(tmp_path: Path) -> None:
    with forked.Popen(
        [sys.executable, "-c", f"import signal\nsignal.signal(2, signal.default_int_handler)\n{STUCK}", "60"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=50)[0] == "interrupted\n"

    @tool(effect="read")
    def stuck() -> str:
        return "free"

    resumed = Runtime([stuck], journal=tmp_path / "j.db").resume_sync("r1")
    assert resumed.variables == {"a": "free"}


async def test_sync_run_inside_event_loop_is_refused_with_hint() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that nobody awaits would be one
        with pytest.raises(RuntimeError, match=r"await runtime\.run"):
            Runtime().run_sync("respond 1")
        with pytest.raises(RuntimeError, match=r"callsheet\.run cannot .*await callsheet\.arun"):
            run("respond 1")
        with pytest.raises(RuntimeError, match="async with"), Runtime():
            pass


async def test_runtime_is_opened_once_and_on_one_loop() -> None:
    async with Runtime() as runtime:
        with pytest.raises(RuntimeError, match="already open"):
            await runtime.__aenter__()
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(runtime.run("respond 1")))


# ------------------------------------------------------------ the journal


async def test_cancelled_await_leaves_resumable_run(tmp_path: Path) -> None:
    began, calls = asyncio.Event(), list[str]()

    @tool(effect="unsafe")
    async def first() -> str:
        calls.append("first")
        return "1"

    @tool(effect="read")
    async def second() -> str:
        calls.append("second")
        began.set()
        await asyncio.sleep(60 if len(calls) == 2 else 0)
        return "2"

    plan = 'S1: @FIRST () > $a\nS2: @SECOND () > $b\nS3: @RESPOND ("$a$b")'
    async with Runtime([first, second], journal=tmp_path / "j.db") as runtime:
        task = asyncio.create_task(runtime.run(plan, run_id="r1"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result = await runtime.resume("r1")
    assert (result.response, calls) == ("12", ["first", "second", "second"])


async def test_call_in_doubt_is_reported_and_decided(tmp_path: Path) -> None:
    @tool(effect="unsafe")
    async def pay(amount: int) -> str:
        raise ToolFailed("no answer", in_doubt=True)

    runtime = Runtime([pay], journal=tmp_path / "j.db")
    result = await runtime.run('S1: @PAY (5) > $receipt\nS2: @RESPOND ("paid: $receipt")', run_id="r1")
    assert result.status is RunStatus.IN_DOUBT
    assert [(call.step, call.tool, call.args) for call in result.in_doubt] == [("S1", "PAY", {"amount": 5})]
    with pytest.raises(
        RunFailed, match=r"S1 @PAY\n  help: check whether they did, then runtime\.resume\('r1'"
    ):
        result.raise_for_status()
    assert (await runtime.resume("r1")).status is RunStatus.IN_DOUBT
    assert (await runtime.resume("r1", in_doubt="skip")).response == "paid: "
    with pytest.raises(ValueError, match="maybe"):
        await runtime.resume("r1", in_doubt="maybe")  # type: ignore[arg-type]


async def test_changed_tools_are_refused_unless_accepted(tmp_path: Path) -> None:
    began = asyncio.Event()

    def runtime_of(effect: str, seconds: float) -> Runtime:
        @tool(effect=effect)
        async def wait() -> str:
            began.set()
            await asyncio.sleep(seconds)
            return "waited"

        return Runtime([wait], journal=tmp_path / "j.db")

    task = asyncio.create_task(runtime_of("read", 60).run("S1: @WAIT () > $a", run_id="r1"))
    await began.wait()
    task.cancel()
    await asyncio.wait({task})
    with pytest.raises(CallsheetError, match="TOL001"):
        await Runtime(journal=tmp_path / "j.db").resume("r1")
    changed = runtime_of("pure", 0)
    with pytest.raises(CallsheetError, match="JRN021") as caught:
        await changed.resume("r1")
    assert "accept_changed_tools=True" in (caught.value.diagnostics[0].help or "")
    assert (await changed.resume("r1", accept_changed_tools=True)).variables == {"a": "waited"}


async def test_open_journal_is_used_and_left_open(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j.db") as journal:
        await Runtime(journal=journal).run("S1: @RESPOND ('x')", run_id="r1")
        assert journal.find_run("r1").status is RunStatus.DONE


async def test_run_is_found_by_id_prefix_but_streamed_by_full_id(tmp_path: Path) -> None:
    async with Runtime(journal=tmp_path / "j.db") as runtime:
        result = await runtime.run("respond 1", run_id="nightly")
        assert await runtime.resume("night") == await runtime.resume("last") == result
        assert await runtime.start_resume("nightly").result() == result
        for text in ("night", "last", "daily"):
            with pytest.raises(CallsheetError, match="JRN002"):
                await runtime.start_resume(text).result()


async def test_resuming_needs_journal() -> None:
    with pytest.raises(ValueError, match="no journal"):
        await Runtime().resume("r1")


async def test_limits_of_run_override_those_of_runtime() -> None:
    runtime = Runtime(limits=Limits(max_steps=3))
    endless = "S1: @CALC ('1') > $a\nS2: ?IF ($a == 1) THEN GOTO S1\nS3: @RESPOND ('x')"
    assert (await runtime.run(endless)).steps_executed == 3
    assert (await runtime.run(endless, limits=Limits(max_steps=5))).steps_executed == 5


# ------------------------------------------------------------ the package


def test_public_names_exist_and_package_lists_them() -> None:
    for name in callsheet.__all__:
        assert getattr(callsheet, name) is not None
    assert set(callsheet.__all__) <= set(dir(callsheet))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = callsheet.nothing
