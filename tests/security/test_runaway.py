"""Endless runs end at a limit, with an intact journal; a resume gives no fresh limits."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from tests.runtime.tools import FACTS, plan_of, ports_for, route_to

from callsheet import Plan as AnyPlan
from callsheet import Runtime
from callsheet.ir import JSON, Plan
from callsheet.machine import (
    CallTool,
    Command,
    Event,
    Failed,
    Limits,
    Machine,
    Refusal,
    Started,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.machine.tree.values import plain
from callsheet.ports.calls import CallContext
from callsheet.ports.mcp import late_answers
from callsheet.ports.mcp.late_answers import Unanswered
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.local import SLICE
from callsheet.runtime.runs import resume_run, start_run
from callsheet.runtime.simulated import Simulation
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, mask_value
from callsheet.store import Journal
from callsheet.store.start import Start

QUICK = Limits(retry_delay=0.0)


def fail(args: dict[str, Any]) -> JSON:
    raise ValueError("no")


async def refused(journal: Journal, text: str, limits: Limits = QUICK, **tools: Any) -> Refusal:
    """The limit that ends a run; its journal is intact, and a resume finds the same end."""
    ports = Ports(route_to(tools))
    outcome = await start_run(plan_of(text), ports, Launch(FACTS, limits=limits), journal, "run")
    assert outcome.result is not None
    assert outcome.result.status is Status.FAILED
    assert outcome.result.refusal is not None
    assert journal.verify("run") is None
    assert (await resume_run(journal, "run", ports_for(tools))).result == outcome.result
    return outcome.result.refusal


def simulated(text: str, answer: Callable[[CallTool], Event]) -> Refusal:
    """The limit that ends a run in virtual time with default limits."""

    def respond(command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool)
        return 0.0, answer(command)

    result = Simulation(Machine(compile_plan(plan_of(text), FACTS)), respond).run()
    assert result.refusal is not None
    return result.refusal


CIRCLE = 'S1: @READ ("x") > $a\nS2: GOTO S1'


async def test_jump_cycle_ends(journal: Journal) -> None:
    found = await refused(journal, CIRCLE, replace(QUICK, max_steps=200), READ="x")
    assert (found.budget, found.limit) == ("max_steps", 200)


@pytest.mark.parametrize(
    ("text", "limit"), [(CIRCLE, ("max_repeats", 1_000)), ("S1: GOTO S1", ("max_steps", 10_000))]
)
def test_jump_cycle_ends_with_default_limits(text: str, limit: tuple[str, int]) -> None:
    found = simulated(text, lambda command: Succeeded(command.key, "x"))
    assert (found.budget, found.limit) == limit


@pytest.mark.parametrize("then", ["", " ON_FAIL GOTO S1"])
async def test_loop_over_million_items_makes_no_calls(journal: Journal, then: str) -> None:
    called: list[Any] = []
    million = f"[{','.join('1' * 1_000_000)}]"
    plan = f'S1: @READ ("all") > $all\nS2: ?FOREACH ($one IN $all) THEN @WRITE ($one) > $r{then}'
    found = await refused(journal, plan, replace(QUICK, max_calls=10), READ=million, WRITE=called.append)
    assert (found.budget, found.limit, found.used) == ("max_items", 100_000, 1_000_000)
    assert called == []


async def test_hundred_thousand_retries_end_at_call_limit(journal: Journal) -> None:
    plan = 'S1: @READ ("x") > $a ON_FAIL @RETRY(100000)'
    found = await refused(journal, plan, replace(QUICK, max_calls=50), READ=fail)
    assert (found.budget, found.used) == ("max_calls", 50)


def test_hundred_thousand_retries_wait_at_most_one_hour() -> None:
    plan = 'S1: @READ ("x") > $a ON_FAIL @RETRY(100000)'
    found = simulated(plan, lambda command: Failed(command.key, "no"))
    assert (found.budget, found.limit) == ("max_waiting", 3600.0)


DOUBLING = "\n".join(f"LET $x{n + 1} = [$x{n}, $x{n}]" for n in range(40))
"""Forty steps; written out, their last value has 2 ** 40 parts."""


def rounds(body: str, start: str = "[1]") -> str:
    return f"# ltp: 2\nLET $x = {start}\nS1: ?REPEAT (max=300) {{\n  {body}\n}} UNTIL (False)"


TOO_LARGE = [
    ("doubled lists", f"# ltp: 2\nLET $x0 = [1]\n{DOUBLING}", "let24", "16,777,216 parts"),
    ("doubled dicts", rounds('SET $x = {"a": $x, "b": $x}'), "S1[#22]/S1.set1", "16,777,216 parts"),
    ("doubled short texts", rounds("SET $x = [$x, $x]", str(["fifteen letters"] * 100)), "S1[#17]/S1.set1",
     "16,777,216 parts"),
    ("joined pairs", rounds("SET $x = [$x] + [$x]"), "S1[#23]/S1.set1", "16,777,216 parts"),
    ("paired by zip", rounds("SET $x = list(zip($x, $x))"), "S1[#24]/S1.set1", "16,777,216 parts"),
    ("doubled by a sub-plan", rounds("S2: CALL twice (v=$x) > $y\n  SET $x = $y")
     + "\nPLAN twice ($v: json) -> json {\n  RETURN ([$v, $v])\n}", "S1[#23]/S2/twice.return1",
     "16,777,216 parts"),
    ("long texts in a loop", '# ltp: 2\nLET $x = "a" * 10000000\nS1: ?FOREACH ($i IN range(1000)) {\n'
     "  YIELD ($x)\n} > $all", "S1", "16,777,216 parts"),
    ("lists in a loop", "# ltp: 2\nLET $x = [0] * 100000\nS1: ?FOREACH ($i IN range(1000)) {\n"
     "  YIELD ($x)\n} > $all", "S1", "16,777,216 parts"),
    ("repeated lists", '# ltp: 2\nS1: @READ ([["a" * 1000] * 100000] * 100000)', "S1", "16,777,216 parts"),
    ("nested lists", rounds("SET $x = [$x]"), "S1[#240]/S1.set1", "240 deep"),
    ("doubled text", rounds("SET $x = $x + $x", '"ab"'), "S1[#24]/S1.set1", "16,777,216 characters"),
    ("doubled list", rounds("SET $x = $x + $x"), "S1[#20]/S1.set1", "1,000,000 items"),
    ("long list", "# ltp: 2\nLET $x = [0] * 10**9", "let1", "1,000,000 items"),
    ("long text", '# ltp: 2\nLET $x = "a" * 10**12', "let1", "16,777,216 characters"),
    ("wide format", '# ltp: 2\nLET $x = 1\n@RESPOND ("${x:>999999999999}")', "respond1", "10,000 wide"),
    ("long range", "# ltp: 2\nLET $x = range(10**12)", "let1", "1,000,000 items"),
    ("large number", "# ltp: 2\nLET $x = 9**9**9", "let1", "65,536 bits"),
    ("text of a large list", "# ltp: 2\nLET $x = [[0] * 1000] * 6000\n@RESPOND (\"${$x}\")", "respond1",
     "5,000,000 parts"),
    ("format of a large list", "# ltp: 2\nLET $x = [[0] * 1000] * 6000\n@RESPOND (\"${$x:>9}\")", "respond1",
     "5,000,000 parts"),
    ("large lists compared", "# ltp: 2\nLET $x = [[0] * 1000] * 6000\nLET $y = [[0] * 1000] * 6000\n"
     "LET $z = $x == $y", "let3", "too much work"),
    ("doubled in Python", "async def main():\n    x = [1]\n    for i in range(60):\n        await read(x=i)\n"
     "        x = [x, x]\n", "main.for_i[22]/main.for_i.set1", "16,777,216 parts"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "where", "limit"), [each[1:] for each in TOO_LARGE], ids=[each[0] for each in TOO_LARGE]
)
async def test_values_too_large_to_be_written_are_failures(
    journal: Journal, text: str, where: str, limit: str
) -> None:
    """What shares its parts is small in memory: the step that makes it too large is the one that fails."""
    plan = AnyPlan.parse(text).ir
    ports = Ports(route_to({"READ": "x"}))
    outcome = await start_run(plan, ports, Launch(FACTS, limits=QUICK), journal, "run")
    assert outcome.result is not None
    assert (outcome.result.ended_at, outcome.result.status) == (where, Status.FAILED)
    assert limit in outcome.result.response
    assert (await resume_run(journal, "run", ports_for({}))).result == outcome.result


def test_values_that_share_parts_are_made_masked_and_shown_once() -> None:
    value: Any = ["a-long-secret"]
    for _ in range(60):
        value = [value, {"both": value}]
    masked = mask_value(plain(value), Finder(Known.of(["a-long-secret"], "declared")))
    for _ in range(60):
        assert masked[0] is masked[1]["both"]
        masked = masked[0]
    assert masked == ["[secret]"]


@pytest.mark.parametrize(
    "loop", ["?FOREACH ($i IN range(100000))", "?REPEAT (max=100000)"], ids=["foreach", "repeat"]
)
def test_work_of_expressions_lets_a_driver_hear_of_signals(loop: str) -> None:
    """A slice of a machine's work ends after what takes some tenths of a second, whatever is computed."""
    until = " UNTIL (False)" if "REPEAT" in loop else ""
    text = f"# ltp: 2\nLET $n = 0\nS1: {loop} {{\n  SET $n = $n + len(range(1000000))\n}}{until}"
    machine = Machine(compile_plan(AnyPlan.parse(text).ir, FACTS))
    machine.feed(Started({}), SLICE)
    while machine.is_paused and machine.variables()["n"] == 0:  # the list of items is work, too
        machine.go_on(SLICE)
    assert machine.is_paused
    assert machine.variables()["n"] == 1_000_000


class Planner:
    """A planner whose plans ask for a new plan."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, command: Any, context: CallContext) -> Any:
        self.asked += 1
        return plan_of('S1: @READ ("again") > $a\nS2: RE-PLAN ("and again")'), FACTS


async def test_recursive_replans_end_and_resume_grants_no_more(journal: Journal) -> None:
    planner = Planner()
    tools = {"READ": "x"}
    ports = Ports(route_to(tools), compiler=planner)
    launch = Launch(FACTS, limits=QUICK)
    outcome = await start_run(plan_of('S1: RE-PLAN ("go on")'), ports, launch, journal, "run")
    assert outcome.result is not None
    assert outcome.result.refusal is not None
    assert (outcome.result.refusal.budget, planner.asked) == ("max_replans", 3)
    assert journal.verify("run") is None

    @asynccontextmanager
    async def again(start: Start, plan: Plan) -> AsyncGenerator[Ports]:
        yield ports

    assert (await resume_run(journal, "run", again)).result == outcome.result
    assert planner.asked == 3


async def test_images_of_server_count_against_byte_limit(changeling: Any, tmp_path: Path) -> None:
    picture = {"type": "image", "data": b64encode(bytes(600_000)).decode(), "mimeType": "image/png"}
    changeling.answer(look={"content": [picture]})
    runtime = Runtime(
        mcp=[changeling.config()],
        data=tmp_path / "data",
        journal=tmp_path / "own.db",
        limits=Limits(max_bytes=1_000_000),
    )
    plan = 'S1: @LOOK () > $a\nS2: @LOOK (thing="b") > $b\nS3: @LOOK (thing="c") > $c'
    result = await runtime.run(plan)
    assert result.refusal is not None
    assert result.refusal.budget == "max_bytes"
    assert changeling.calls == ["look", "look"]
    assert 1_200_000 <= result.usage.bytes < 1_201_000
    assert (await runtime.resume(result.run_id)).usage.bytes == result.usage.bytes


async def test_endless_server_requests_use_bounded_memory(changeling: Any, tmp_path: Path) -> None:
    """The SDK keeps a task for each request of a server until its answer is written."""
    changeling.answer(look="flood")
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, len(asyncio.all_tasks()))
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    server = replace(changeling.config(), timeout=1.0)
    result = await Runtime(mcp=[server], data=tmp_path).run('S1: @LOOK (thing="x") > $a')
    watching.cancel()
    assert result.variables["a"] == "no answer within 1 s"
    assert most < 250


async def test_requests_wait_only_for_bounded_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_answers, "_PATIENCE", 0.05)
    unanswered = Unanswered()
    for number in range(99):
        await unanswered.arrives(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping"))
    await unanswered.arrives(JSONRPCRequest(jsonrpc="2.0", id=1, method="ping"))
    waiting = asyncio.create_task(unanswered.arrives(JSONRPCRequest(jsonrpc="2.0", id=100, method="ping")))
    await asyncio.sleep(0)
    unanswered.has_left(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call"))  # one of ours
    assert not waiting.done()
    unanswered.has_left(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    await asyncio.wait_for(waiting, 0.04)
    cancels = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
    await unanswered.arrives(cancels)
    await asyncio.wait_for(unanswered.arrives(JSONRPCRequest(jsonrpc="2.0", id=101, method="ping")), 0.04)
    await unanswered.arrives(JSONRPCRequest(jsonrpc="2.0", id=102, method="ping"))
