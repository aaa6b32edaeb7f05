"""Programs that no proof covers: asked about once, judged call by call, recorded, and explained."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp_types import ElicitRequestParams, ElicitResult
from tests import forked
from tests.apps.gate.test_gate import NAMED, POLICY, Desk, desk, gate_on, text_of

from callsheet.api.explaining import explain_value
from callsheet.store import Journal

__all__ = ["desk"]
pytest.importorskip("pydantic_monty")

COUNTS = """
def counter():
    total = 0

    async def add(number):
        nonlocal total
        mail = await read_mail(number=number)
        total += len(mail["text"])
        return total

    return [add]

async def main(most: int):
    add = counter()
    for number in range(1, most + 1):
        total = await add[0](number)
    return total
"""
SENDS = """
def post():
    async def send(to):
        return await send_mail(to=to, text="hello")
    return [send]

async def main(to: list):
    send = post()
    for name in to:
        await send[0](name)
    return "sent " + str(6 // (3 - len(to)))
"""
"""Async functions in a list that a function returns, which no plan can say."""
SLOW = SENDS.replace('return "sent', 'await slow(seconds=60)\n    return "sent')


async def run(client: Client, code: str, **inputs: Any) -> str:
    return text_of(await client.call_tool("run_program", {"code": code, "inputs": inputs}))


def run_in(text: str) -> str:
    found = re.search(r"\brun (\d{8}-\d{4}-\w+)", text)
    assert found is not None, text
    return found[1]


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_refused_program_runs_after_one_question_that_shows_it(desk: Desk, mode: str) -> None:
    async with desk.client(mode, agrees=True, unproved=True) as client:
        done = await run(client, COUNTS, most=2)
    assert done.splitlines()[0] == "12"
    assert len(desk.asked) == 1
    for part in ("could not be proved (PYT013", "async def add(number):", '"read_mail (', '"most": 2'):
        assert part in desk.asked[0]
    with Journal.open_to_read(desk.journal) as journal:
        assert journal.find_run(run_in(done)).title == "unproved program of mcp (MCP)"
        why = "\n".join(explain_value(journal, run_in(done), "answer").lines(6))
    assert "@READ_MAIL (number=1) = " in why
    assert "@READ_MAIL (number=2) = " in why


async def test_program_that_fails_names_the_calls_that_it_has_made(desk: Desk) -> None:
    async with desk.client(agrees=True, unproved=True) as client:
        done = await run(client, SENDS, to=["ann", "bob", "eve"])
        assert "line 11: ZeroDivisionError" in done
        assert 'send_mail(to="eve", text="hello"): done' in done
        status = await client.call_tool("run", {"id": run_in(done), "what": "status"})
        assert "failed" in text_of(status)
        assert "no value for to" in await run(client, SENDS)
    assert len(desk.log) == 3


async def test_nothing_runs_if_the_person_declines(desk: Desk) -> None:
    async with desk.client(agrees=False, unproved=True) as client:
        assert "not run: denied by" in await run(client, SENDS, to=["ann"])
    assert desk.log == []


async def test_question_waits_in_the_inbox_of_a_client_without_forms(desk: Desk) -> None:
    async with desk.client(unproved=True) as client:
        told = await run(client, SENDS, to=["ann"])
        assert "waits for a person" in told
        assert desk.log == []
        assert "could not be proved" in await asyncio.to_thread(desk.callsheet, "approve", run_in(told))
        with Journal.open_to_read(desk.journal) as journal:
            while (info := journal.find_run(run_in(told))).status in {"running", "waiting"}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    assert info.status == "done"
    assert desk.log == ["send ann: hello"]


async def test_its_calls_are_judged_with_all_that_was_read(desk: Desk) -> None:
    async with desk.client(policy=POLICY, agrees=True, unproved=True) as client:
        assert (await run(client, SENDS, to=["bob"])).startswith("sent 3")
        assert (await run(client, COUNTS, most=1)).startswith(
            "6\n"
        )  # the session has heard of a private mail
        refused = await run(client, SENDS, to=["bob"])
        assert "the policy refuses @SEND_MAIL: private data" in refused
        direct = await client.call_tool("send_mail", {"to": "bob", "text": "hello"})
        assert "the policy refuses @SEND_MAIL: private data" in text_of(direct)
    assert desk.log.count("send bob: hello") == 1


async def test_call_that_needs_an_approval_asks_in_the_same_conversation(desk: Desk) -> None:
    async with desk.client(agrees=True, unproved=True, approve=("SEND_MAIL",)) as client:
        assert (await run(client, SENDS, to=["ann", "bob"])).startswith("sent 6")
    assert [question.count("may @SEND_MAIL be called") for question in desk.asked] == [0, 1, 1]


async def test_program_that_reaches_outside_or_is_wrong_is_refused(desk: Desk) -> None:
    wrong = [
        (SENDS.replace("6 //", "len(open('x').read()) //"), "no tool or name open"),
        (SENDS.replace("def post", "import ctypes\ndef post"), "PYT005"),
        (SENDS.replace("send[0](name)", "send[0](nobody)"), "no tool or name nobody"),
        (SENDS.replace("return await", "yield await"), "interpreter cannot run this program either"),
    ]
    async with desk.client(agrees=True, unproved=True) as client:
        for code, part in wrong:
            result = await client.call_tool("run_program", {"code": code, "inputs": {"to": ["ann"]}})
            assert result.is_error
            assert part in text_of(result)
            assert "PYT" in text_of(result)
    assert desk.asked == []


async def test_what_is_cut_of_its_words_is_told(desk: Desk) -> None:
    program = COUNTS.rpartition("    return total")[0] + "    print('p' * 4_500)\n    return 'a' * 4_500\n"
    async with desk.client(unproved=True, agrees=True) as client:
        told = await run(client, program, most=1)
    assert "… 500 more characters: run (what=value, variable=result)" in told
    assert "pp\n… 500 more characters: not kept\n" in told


async def test_it_waits_for_the_server_that_it_names(desk: Desk) -> None:
    (server,) = json.loads(desk.config.read_text())["mcpServers"].values()
    go = desk.folder / "go"
    waits = f'while [ ! -e {go} ]; do sleep 0.1; done; exec "$0" "$@"'
    late = {"command": "sh", "args": ["-c", waits, server["command"], *server["args"]]}
    (desk.folder / "named.py").write_text(NAMED)
    quick = forked.server(desk.folder / "named.py", "quick", "see")
    desk.config.write_text(json.dumps({"mcpServers": {"late": late, "quick": quick}}))
    async with desk.client(unproved=True, agrees=True) as client:
        while "see" not in {tool.name for tool in (await client.list_tools()).tools}:
            pass
        running = asyncio.create_task(run(client, COUNTS, most=1))
        await client.call_tool("see", {})
        go.touch()
        assert (await running).startswith("6\n")


async def test_it_is_not_saved_and_says_so(desk: Desk) -> None:
    async with desk.client(unproved=True, agrees=True) as client:
        given = {"code": COUNTS, "inputs": {"most": 1}, "name": "counter"}
        assert "cannot be saved" in text_of(await client.call_tool("run_program", given))
    assert desk.asked == []


async def test_refusal_says_how_such_a_program_could_run(desk: Desk) -> None:
    async with desk.client(agrees=True) as client:
        refused = await run(client, SENDS, to=["ann"])
        assert "PYT013" in refused
        assert "`--unproved ask`" in refused
        assert "--unproved" not in await run(client, SENDS + "open('x')", to=["ann"])
    async with desk.client(agrees=True, unproved=True) as client:
        checked = await client.call_tool("check_program", {"code": SENDS, "inputs": {"to": ["ann"]}})
        assert "run_program asks a person" in text_of(checked)
    assert desk.log == []


async def test_killed_gate_names_the_call_that_may_have_taken_place(desk: Desk) -> None:
    line = ["-m", "callsheet", "gate", "--unproved", "ask", "--mcp-config", str(desk.config)]
    line += ["--journal", str(desk.journal)]
    gate = StdioServerParameters(**forked.server(*line), env={**os.environ}, cwd=desk.folder)

    async def agree(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"approve": True})

    async def until_killed() -> None:
        async with Client(stdio_client(gate), elicitation_callback=agree) as client:
            call = asyncio.create_task(run(client, SLOW, to=["ann"]))
            while "slow" not in desk.log:  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.02)
            os.kill(gate_on(desk.journal), signal.SIGKILL)
            await call

    with pytest.raises(BaseException):  # noqa: B017, PT011 - the client's, when its server is gone
        await until_killed()
    with Journal.open_to_read(desk.journal) as journal:
        program = next(
            info.run_id for info in journal.runs() if (info.title or "").startswith("unproved program")
        )
    resumed = desk.callsheet("resume", program)
    assert "SLOW" in resumed
    assert "whether it took place is unknown" in resumed
    assert "cannot be resumed" in desk.callsheet("resume", program, "--in-doubt", "fail")
    assert desk.log == ["send ann: hello", "slow"]
