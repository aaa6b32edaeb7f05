"""A gate in front of a real server: what its client sees, what is recorded, refused, asked and lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent
from scripts.question_picture import picture
from tests import forked

from callsheet.api.policies import load_policy
from callsheet.apps.gate.own_tools import EXAMPLE, OWN_TOOLS
from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.authoring.distillation.recorded_calls import work_in
from callsheet.frontends.python import read_python
from callsheet.store import Journal
from callsheet.store.library import PlanLibrary

DESK = Path(__file__).parent / "desk.py"
ROOT = Path(__file__).resolve().parents[3]
POLICY = """
schema = 1
extends = "workspace"
[tools."@READ_MAIL"]
egress = false
destructive = false
returns = "U/priv"
[tools."@SEND_MAIL"]
egress = true
audience_arg = "to"
control = ["to"]
destructive = false
approval = "never"
returns = "T/pub"
"""


@dataclass
class Desk:
    """A folder with a server behind a gate; `asked` are the questions that its client was asked."""

    folder: Path
    asked: list[str] = field(default_factory=list[str])
    shows_forms: bool = True

    @property
    def config(self) -> Path:
        return self.folder / "mcp.json"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def log(self) -> list[str]:
        place = self.folder / "log"
        return place.read_text().splitlines() if place.exists() else []

    def callsheet(self, *words: str) -> str:
        return self.callsheet_in_folder(*words, "--journal", str(self.journal))

    def callsheet_in_folder(self, *words: str) -> str:
        line = [sys.executable, "-m", "callsheet", *words]
        done = forked.run(
            line, capture_output=True, text=True, cwd=self.folder, stdin=subprocess.DEVNULL, check=False
        )
        return done.stdout + done.stderr

    @asynccontextmanager
    async def client(
        self,
        mode: str = "2026-07-28",
        *,
        lock: Path | None = None,
        expose: Expose = Expose.BOTH,
        policy: str = "",
        observes: bool = False,
        approve: tuple[str, ...] = (),
        agrees: bool | None = None,
        unproved: bool = False,
    ) -> AsyncGenerator[Client]:
        """A client of a gate; with `agrees` it can ask its person, who always answers that."""

        async def elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            self.asked.append(params.message)
            if not self.shows_forms:
                raise RuntimeError("no window")
            fields = getattr(params, "requested_schema", {}).get("properties", {})
            boxes = {name: bool(agrees) for name in ("approve", "program") if name in fields}
            decision = {"decision": "skip"} if "decision" in fields else {}
            return ElicitResult(action="accept", content={**boxes, **decision})

        held = None
        if policy:
            (self.folder / "policy.toml").write_text(policy)
            held = replace(load_policy(str(self.folder / "policy.toml")), observes=observes)
        setup = Setup(
            workspace=self.folder, data=self.folder / "data", mcp_configs=(self.config,), discovers=False
        )
        setup = replace(setup, lock=lock, settings=replace(setup.settings, approve=approve))
        with Journal.open(self.journal) as journal:
            async with Host(setup, journal, policy=held) as host:
                context = ServerContext(host=host, library=PlanLibrary(self.folder / "plans"))
                async with Gate(context, expose, asks_unproved=unproved) as gate:
                    asks = None if agrees is None else elicit
                    async with Client(make_server(gate), mode=mode, elicitation_callback=asks) as client:
                        yield client


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("")
    server = forked.server(DESK, tmp_path / "log")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    return Desk(tmp_path)


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def test_tools_and_results_are_those_of_the_server(desk: Desk) -> None:
    direct = StdioServerParameters(**forked.server(DESK, desk.folder / "other"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_mail", {"number": 1}),
        ("send_mail", {"to": "ann", "text": "x"}),
        ("fail", {"text": "no"}),
        ("read_mail", {"number": "word"}),
        ("read_mail", {"number": 1}),
    ]
    async with Client(stdio_client(direct)) as before:
        listed = (await before.list_tools()).tools
        expected = [await before.call_tool(*call) for call in calls]
    async with desk.client(expose=Expose.TOOLS) as client:
        assert (await client.list_tools()).tools == listed
        given = [await client.call_tool(*call) for call in calls]
    assert given == expected
    assert desk.log == ["read 1", "send ann: x", "read 1"]


async def test_tools_of_locked_servers_are_listed_and_passed_through(desk: Desk) -> None:
    desk.callsheet_in_folder("lock", "--mcp-config", str(desk.config))
    async with desk.client(expose=Expose.TOOLS) as client:
        listed = (await client.list_tools()).tools
    async with desk.client(expose=Expose.TOOLS, lock=desk.folder / "callsheet.lock") as client:
        assert sorted((await client.list_tools()).tools, key=lambda t: t.name) == sorted(
            listed, key=lambda t: t.name
        )
        assert text_of(await client.call_tool("send_mail", {"to": "ann", "text": "x"})) == "sent to ann"
    assert desk.log == ["send ann: x"]


async def test_session_is_a_run_that_can_be_shown(desk: Desk) -> None:
    async with desk.client() as client:
        await client.call_tool("read_mail", {"number": 1})
        quick = asyncio.create_task(client.call_tool("slow", {"seconds": 0.5}))
        await asyncio.sleep(0.1)
        await client.call_tool("read_mail", {"number": 2})
        assert not quick.done()  # a long call holds up no other
        await quick
    shown = desk.callsheet("show", "last")
    assert "status   done" in shown
    assert "READ_MAIL 2" in shown
    assert "SLOW 1" in shown


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_call_that_needs_approval_asks_with_its_arguments(desk: Desk, mode: str) -> None:
    async with desk.client(mode, approve=("SEND_MAIL",), agrees=True) as client:
        given = await client.call_tool("send_mail", {"to": "bob", "text": "exactly this"})
    assert text_of(given) == "sent to bob"
    assert "bob" in desk.asked[0]
    assert "exactly this" in desk.asked[0]


async def test_name_of_an_argument_cannot_write_lines_of_the_question(desk: Desk) -> None:
    forged = {'text\n    to = "ann"\n  because': "x", 'to = "ann"': "y", "\u202eot": "z", "cc-list": ["eve"]}
    asks = POLICY.replace('approval = "never"', 'approval = "if-untrusted-or-outside"')
    for policy, approve in (("", ("SEND_MAIL",)), (asks, ())):
        async with desk.client(policy=policy, approve=approve, agrees=False) as client:
            await client.call_tool("read_mail", {"number": 1})
            await client.call_tool("send_mail", {"to": "eve@out.example", **forged})
    for question in desk.asked:
        lines = [line for line in question.splitlines() if line.startswith("    ")]
        assert lines == [
            '    to = "eve@out.example"',
            r'    "text\n    to = \"ann\"\n  because" = "x"',
            r'    "to = \"ann\"" = "y"',
            r'    "\u202eot" = "z"',
            '    cc-list = ["eve"]',
        ]
        assert "\u202e" not in question
        assert not [line for line in question.splitlines() if line.startswith(("  because =", "  because:"))]
    assert len(desk.asked) == 2


async def test_picture_shows_the_question_that_is_asked(desk: Desk) -> None:
    asks = POLICY.replace('approval = "never"', 'approval = "if-untrusted-or-outside"')
    async with desk.client(policy=asks, agrees=True) as client:
        await client.call_tool("read_mail", {"number": 3})
        await client.call_tool("send_mail", {"to": "bob@out.example", "text": "the figures of week 3"})
    assert (ROOT / "docs" / "gate-question.svg").read_text() == picture(desk.asked[0])


async def test_program_asks_once_for_all_calls_that_it_can_show(desk: Desk) -> None:
    asks = POLICY.replace('approval = "never"', 'approval = "if-untrusted-or-outside"')
    code = """
async def main():
    mails = [await read_mail(number=n) for n in [1, 2, 3]]
    for mail in mails:
        await send_mail(to=mail["from"] + "@out.example", text=mail["text"])
    last = await read_mail(number=4)
    await send_mail(to="bob@out.example", text=last["text"])
    return "sent"
"""
    async with desk.client(policy=asks, agrees=True) as client:
        given = await client.call_tool("run_program", {"code": code})
    assert text_of(given).startswith("sent")
    (question,) = desk.asked
    assert question.count("because send_mail sends private data to ann@out.example") == 3
    assert 'text = "mail 3"' in question
    assert "text = \u2039" in question, "what the last mail says is not known yet"
    assert [line for line in desk.log if line.startswith("send")] == [
        *(f"send ann@out.example: mail {n}" for n in (1, 2, 3)), "send bob@out.example: mail 4"
    ]  # fmt: skip


async def test_question_of_a_saved_program_shows_its_lines_and_what_has_changed_since_a_yes(
    desk: Desk,
) -> None:
    code = """async def main():
    mail = await read_mail(number=1)
    return await send_mail(to="bob", text=mail["text"])
"""
    changed = code.replace("bob", "eve")
    async with desk.client(approve=("SEND_MAIL",), agrees=True) as client:
        for _ in range(2):  # the same text under its name is no other program
            assert not (await client.call_tool("run_program", {"code": code, "name": "fw"})).is_error
        refused = text_of(await client.call_tool("run_program", {"code": changed, "name": "fw"}))
        assert "the plan fw exists, and is another program" in refused
        (desk.folder / "new.py").write_text(changed)
        await asyncio.to_thread(
            desk.callsheet_in_folder, "plan", "save", "new.py", "--as", "fw", "--plans", "plans"
        )
        await client.call_tool("plans", {"action": "run", "name": "fw"})
    first, again, last = desk.asked
    assert '3|     return await send_mail(to="bob", text=mail["text"])' in first
    assert "note: the same call, with the same arguments from the same steps, was approved" in again
    assert last.split("approved by mcp (MCP) for run ")[1].splitlines()[1:] == [
        '    -    return await send_mail(to="bob", text=mail["text"])',
        '    +    return await send_mail(to="eve", text=mail["text"])',
    ]


async def test_saved_program_has_the_label_of_what_its_author_had_read(desk: Desk) -> None:
    send = {"to": "bob@out.example", "text": "mail 1"}
    code = 'async def main():\n    return "mail 1"\n'
    async with desk.client(policy=POLICY) as client:
        assert not (await client.call_tool("run_program", {"code": code, "name": "before"})).is_error
        await client.call_tool("read_mail", {"number": 1})
        told = await client.call_tool("run_program", {"code": code, "name": "after"})
        assert not told.is_error, text_of(told)
    for name, is_refused in (("before", False), ("after", True)):
        async with desk.client(policy=POLICY) as client:
            told = await client.call_tool("plans", {"action": "run", "name": name})
            assert text_of(told).startswith("mail 1")
            sent = await client.call_tool("send_mail", send)
            assert sent.is_error is is_refused, text_of(sent)
    kept = desk.callsheet_in_folder("plan", "export", "after", "--plans", "plans")
    assert '"label": "U/priv"' in kept


async def test_denied_call_is_not_made_and_session_goes_on(desk: Desk) -> None:
    async with desk.client(approve=("SEND_MAIL",), agrees=False) as client:
        given = await client.call_tool("send_mail", {"to": "bob", "text": "x"})
        assert given.is_error
        assert not (await client.call_tool("read_mail", {"number": 1})).is_error
    assert desk.log == ["read 1"]


async def test_call_without_anyone_to_ask_waits_in_the_inbox(desk: Desk) -> None:
    async with desk.client(approve=("SEND_MAIL",)) as client:
        call = asyncio.create_task(client.call_tool("send_mail", {"to": "bob", "text": "x"}))
        await client.call_tool("read_mail", {"number": 1})
        waiting = await asyncio.to_thread(desk.callsheet, "inbox")
        run, key = re.search(r"callsheet approve (\S+) (\S+)", waiting).groups()  # pyright: ignore[reportOptionalMemberAccess]
        await asyncio.to_thread(desk.callsheet, "approve", run, key)
        assert text_of(await call) == "sent to bob"


async def test_question_that_a_client_fails_to_show_waits_in_the_inbox(desk: Desk) -> None:
    desk.shows_forms = False
    async with desk.client("legacy", approve=("SEND_MAIL",), agrees=True) as client:
        call = asyncio.create_task(client.call_tool("send_mail", {"to": "bob", "text": "x"}))
        while not desk.asked:  # noqa: ASYNC110 - by the gate
            await asyncio.sleep(0.02)
        waiting = await asyncio.to_thread(desk.callsheet, "inbox")
        run, key = re.search(r"callsheet approve (\S+) (\S+)", waiting).groups()  # pyright: ignore[reportOptionalMemberAccess]
        await asyncio.to_thread(desk.callsheet, "approve", run, key)
        assert text_of(await call) == "sent to bob"


async def test_client_is_not_asked_what_somebody_with_a_role_has_to_approve(desk: Desk) -> None:
    rule = POLICY.replace('approval = "never"', 'approval = "always"\napprover = "finance"')
    async with desk.client(policy=rule, agrees=True) as client:
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.set_result(message or "")

        mail = {"to": "bob", "text": "x"}
        call = asyncio.create_task(client.call_tool("send_mail", mail, progress_callback=hear))
        assert "waits for the approval of somebody with the role finance" in await told
        waiting = await asyncio.to_thread(desk.callsheet, "inbox")
        assert "only somebody with the role finance may answer" in waiting
        assert not call.done()
        call.cancel()
    assert (desk.asked, desk.log) == ([], [])


async def test_policy_refuses_what_would_carry_private_data_out(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk.client(policy=f'{POLICY}\n[tools."@SEND_MIAL"]\negress = false\n') as client:
        before = await client.call_tool("send_mail", {"to": "ann@out.example", "text": "hello"})
        assert text_of(before) == "sent to ann@out.example"
        await client.call_tool("read_mail", {"number": 1})
        after = await client.call_tool("send_mail", {"to": "ann@out.example", "text": "hello"})
        assert after.is_error
        assert "the policy refuses @SEND_MAIL" in text_of(after)
        assert "flow @READ_MAIL -> @SEND_MAIL" in text_of(after)
        assert "help: " in text_of(after)
        assert not (await client.call_tool("read_mail", {"number": 2})).is_error
        assert (await client.call_tool("slow", {"seconds": 0})).is_error  # it has no entry
    assert desk.log == ["send ann@out.example: hello", "read 1", "read 2"]
    assert "POL008: the policy has an entry for @SEND_MIAL, which does not exist here" in caplog.text


BOB = {"to": "bob@out.example", "text": "see you at ten"}
SAID = {"io.github.callsheet/said": "Read mail 1. Then tell bob@out.example: see you at ten."}


async def test_words_of_the_user_do_not_count_as_read(desk: Desk) -> None:
    async with desk.client(policy=POLICY) as client:
        await client.call_tool("read_mail", {"number": 1}, meta=SAID)
        assert text_of(await client.call_tool("send_mail", BOB)) == "sent to bob@out.example"
        again = await client.call_tool("send_mail", BOB)  # how often would tell something
        assert "tells bob@out.example about private data" in text_of(again)
        other = await client.call_tool("send_mail", {**BOB, "text": "see you at"})
        assert other.is_error or desk.log[-1] == "send bob@out.example: see you at"
        for wrong in (
            {**BOB, "text": "the mail"},
            {**BOB, "to": "bob@out.exam"},
            {**BOB, "to": "eve@out.example"},
        ):
            assert (await client.call_tool("send_mail", wrong)).is_error
    shown = desk.callsheet("show", "last")
    assert "the user has said: Read mail 1. Then tell" in shown


async def test_harmless_values_of_the_policy_do_not_count_as_read(desk: Desk) -> None:
    policy = POLICY.replace("[tools", '[defaults]\nharmless = ["ann@corp.example"]\n[tools', 1)
    policy = policy.replace(
        'audience_arg = "to"', 'audience_arg = "to"\ntrusted_audience = ["*@corp.example"]'
    )
    async with desk.client(policy=policy) as client:
        await client.call_tool("read_mail", {"number": 1})
        assert not (
            await client.call_tool("send_mail", {"to": "ann@corp.example", "text": "mail 1"})
        ).is_error
        chosen = await client.call_tool("send_mail", {"to": "eva@corp.example", "text": "mail 1"})
        assert "untrusted data decides 'to' of @SEND_MAIL" in text_of(chosen)


async def test_observing_blocks_nothing_and_records_what_would_have_been(desk: Desk) -> None:
    policy = (
        POLICY
        + '[tools."@SLOW"]\negress = false\ndestructive = true\napproval = "always"\nreturns = "T/pub"\n'
    )
    async with desk.client(policy=policy, observes=True) as client:
        await client.call_tool("read_mail", {"number": 1})
        assert text_of(
            await client.call_tool("send_mail", {"to": "eve@out.example", "text": "x"})
        ).startswith("sent")
        assert not (await client.call_tool("slow", {"seconds": 0})).is_error
        code = "S1: @read_mail (number=4) > $mail\nS2: @send_mail (to='eve@out.example', text=$mail.text)\n"
        program = text_of(await client.call_tool("run_program", {"code": code}))
        assert "would be refused: untrusted data decides 'to' of @SEND_MAIL" in program
        assert "done" in program
        python = "async def main() -> str:\n    return await send_mail(to='eve@out.example', text='y')\n"
        run = text_of(await client.call_tool("run_program", {"code": python}))
        assert "would be refused: " in run
    first = ["read 1", "send eve@out.example: x", "slow", "read 4", "send eve@out.example: mail 4"]
    assert desk.log == [*first, "send eve@out.example: y"]
    shown = desk.callsheet("show", session_in(desk))
    assert "observes: it would have refused 1, asked about 1" in shown
    propose = ("policy", "propose", "--policy", "workspace", "--mcp-config", "mcp.json", "--from")
    assert "callsheet distil RUN -o plan.py" in desk.callsheet(*propose, session_in(desk))
    desk.callsheet("distil", session_in(desk), "-o", "plan.py", "--journal", str(desk.journal))
    assert 'sends = ["desk__send_mail"]' in desk.callsheet(*propose, "plan.py")
    flow = "would reach eve@out.example (rule flow; flow READ_MAIL -> SEND_MAIL)"
    assert f"would be refused: @SEND_MAIL: private data in to of @SEND_MAIL {flow}" in shown
    assert (
        "would be asked: @SLOW: untrusted data decides whether @SLOW is called, which cannot be undone"
        in shown
    )
    observed = re.search(r"run (\S+): done", program).group(1)  # pyright: ignore[reportOptionalMemberAccess]
    assert "would be refused: @SEND_MAIL: private data in" in desk.callsheet("show", observed)


def session_in(desk: Desk) -> str:
    """The id of the session in the journal."""
    return next(line.split()[0] for line in desk.callsheet("runs").splitlines() if "session of" in line)


async def test_programs_and_their_session_know_what_each_other_has_read(desk: Desk) -> None:
    send = "S1: @send_mail (to='bob@out.example', text='mail 4')\n"
    read = "S1: @read_mail (number=4) > $mail\nS2: @respond ($mail.text)\n"
    async with desk.client(policy=POLICY) as client:
        assert not (await client.call_tool("run_program", {"code": send})).is_error
        assert text_of(await client.call_tool("run_program", {"code": read})).startswith("mail 4")
        by_call = await client.call_tool("send_mail", {"to": "bob@out.example", "text": "mail 4"})
        assert "flow @run " in text_of(by_call)
        by_program = await client.call_tool("run_program", {"code": send})
        assert by_program.is_error
        assert "what you write counts as U/priv" in text_of(by_program)
        assert "error POL1" in text_of(await client.call_tool("check_program", {"code": send}))
        for _ in range(2):  # what is refused is not saved: another session would not know what it repeats
            kept = await client.call_tool("run_program", {"code": send, "name": "kept"})
            assert "error POL1" in text_of(kept)
        assert "kept" not in text_of(await client.call_tool("plans", {"action": "list"}))
    assert desk.log == ["send bob@out.example: mail 4", "read 4"]
    assert "has read run" in desk.callsheet("show", session_in(desk))


async def test_lost_call_is_reported_and_left_to_a_person(desk: Desk) -> None:
    async with desk.client() as client:
        lost = await client.call_tool("die", {})
        assert lost.is_error
        assert "it is not known whether @DIE took place" in text_of(lost)
        assert text_of(await client.call_tool("read_mail", {"number": 1}))
    assert desk.log == ["die", "read 1"]


FAR = """
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

with Path(sys.argv[1]).open("a") as log:
    log.write("started\\n")
server = MCPServer("far")


@server.tool()
def look_far(number: int) -> str:
    return "far"


server.run()
"""


async def test_resumed_session_starts_only_the_servers_of_its_open_calls(desk: Desk) -> None:
    far, starts = desk.folder / "far.py", desk.folder / "starts"
    far.write_text(FAR)
    servers = json.loads(desk.config.read_text())["mcpServers"] | {"far": forked.server(far, starts)}
    desk.config.write_text(json.dumps({"mcpServers": servers}))
    async with desk.client(approve=("SEND_MAIL",)) as client:
        call = asyncio.create_task(client.call_tool("send_mail", {"to": "bob", "text": "x"}))
        await client.call_tool("look_far", {"number": 1})
        while not (waiting := await asyncio.to_thread(desk.callsheet, "inbox", "--json")).strip("[]\n "):
            pass
        call.cancel()
    assert "SEND_MAIL" in waiting
    assert starts.read_text() == "started\n"
    run, key = re.search(r"callsheet approve (\S+) (\S+)", desk.callsheet("inbox")).groups()  # pyright: ignore[reportOptionalMemberAccess]
    desk.callsheet("approve", run, key)
    desk.callsheet("resume", run)
    assert desk.log == ["send bob: x"]
    assert starts.read_text() == "started\n"


ODD = """
import json
import sys

COUNTS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": COUNTS},
    {"name": "shapeless"},
    "nameless",
]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"content": [], "structuredContent": {"n": "seven"}}
    if asked["method"] == "initialize":
        info = {"name": "odd", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_tool_against_the_protocol_and_result_against_its_schema_are_told(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    odd = desk.folder / "odd.py"
    odd.write_text(ODD)
    desk.config.write_text(json.dumps({"mcpServers": {"odd": forked.server(odd)}}))
    async with desk.client(expose=Expose.TOOLS) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["count"]
        told = text_of(await asyncio.wait_for(client.call_tool("count", {}), 20))
        with pytest.raises(MCPError, match=r"no tool 'shapeless'; .* inputSchema: field"):
            await client.call_tool("shapeless", {})
    assert "TOL018: the tool 'shapeless' of the MCP server 'odd'" in caplog.text
    assert "'number 3' of the MCP server 'odd' is not declared as the protocol has it: input" in caplog.text
    assert "its structured content.n should be integer" in told
    assert "Do not call it again" in told


NAMED = """
import json
import sys

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in sys.argv[2:]]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"tools": TOOLS}
    if asked["method"] == "initialize":
        info = {"name": sys.argv[1], "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif asked["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": f"{asked['params']['name']} of {sys.argv[1]}"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("expose", [Expose.TOOLS, Expose.BOTH])
async def test_each_name_is_one_tool_and_only_names_that_meet_are_changed(desk: Desk, expose: Expose) -> None:
    program = desk.folder / "named.py"
    program.write_text(NAMED)
    servers = {
        "a": forked.server(program, "a", "run", "see", "gr\u00fc\u00dfe"),
        "b": forked.server(program, "b", "see", "a__run", "odd-name", "read_file"),
    }
    desk.config.write_text(json.dumps({"mcpServers": servers}))
    run, read = ("run", "read_file") if expose is Expose.TOOLS else ("a__run", "b__read_file")
    claimed = "a__run" if expose is Expose.TOOLS else "b__a__run"
    tools = {run: "run of a", claimed: "a__run of b", read: "read_file of b"}
    tools |= {"a__see": "see of a", "b__see": "see of b"}
    async with desk.client(expose=expose) as client:
        listed = await client.list_tools()
        own = OWN_TOOLS if expose is Expose.BOTH else ()
        assert sorted(tool.name for tool in listed.tools) == sorted([*tools, "odd-name", *own])
        assert r"'gr\xfc\xdfe', which could be" in str((listed.meta or {})["io.github.callsheet/missing"][0])
        assert {name: text_of(await client.call_tool(name, {})) for name in tools} == tools
        if expose is Expose.BOTH:  # a name of the list is that of programs
            made = ", ".join(f"await {name}()" for name in tools)
            code = f"async def main():\n    return [{made}]\n"
            done = text_of(await client.call_tool("run_program", {"code": code}))
            assert json.loads(done.partition("\n")[0]) == [*tools.values()]
            wrong = text_of(await client.call_tool("run_program", {"code": code.replace("see", "sea")}))
            assert "a__sea" in wrong
            assert "seen for the first time" not in done + wrong


def test_unreadable_configuration_is_reported_before_serving(desk: Desk) -> None:
    desk.config.write_text("{")
    assert "error CFG111" in desk.callsheet("gate", "--mcp-config", str(desk.config))


async def test_server_that_cannot_be_used_takes_no_other_with_it(desk: Desk) -> None:
    servers = json.loads(desk.config.read_text())["mcpServers"]
    servers |= {
        "keyless": {"command": "npx", "env": {"KEY": "${NO_SUCH_KEY}"}},
        "gone": {"command": "/no/such"},
    }
    desk.config.write_text(json.dumps({"mcpServers": servers}))
    line = ["-m", "callsheet", "gate", "--mcp-config", str(desk.config), "--journal", str(desk.journal)]
    started = StdioServerParameters(**forked.server(*line), env={**os.environ}, cwd=desk.folder)
    with (desk.folder / "stderr").open("w+") as said:
        async with Client(stdio_client(started, errlog=said)) as client:
            assert text_of(await client.call_tool("send_mail", {"to": "ann", "text": "x"})) == "sent to ann"
            with pytest.raises(MCPError, match="there is no tool 'far'; the MCP server 'gone'"):
                await client.call_tool("far", {})
            assert "the MCP server 'gone'" in text_of(await client.call_tool("find_tools", {"query": "far"}))
        said.seek(0)
        warned = said.read()
    assert "the server 'keyless' is skipped: the environment variable NO_SUCH_KEY is not set" in warned
    assert "'gone'" in warned


LARGE = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("large")


@server.tool(structured_output=False)
def dump(size: int) -> str:
    return "0123456789" * (size // 10)


server.run()
"""


async def test_answer_of_many_megabytes_arrives_whole_and_is_in_the_journal_once(desk: Desk) -> None:
    large = {"command": sys.executable, "args": ["-c", LARGE]}
    desk.config.write_text(json.dumps({"mcpServers": {"large": large}}))
    size = 30_000_000
    async with desk.client() as client:
        text = text_of(await client.call_tool("dump", {"size": size}))
    assert len(text) == size
    assert text.endswith("0123456789")
    kept = sum(each.stat().st_size for each in desk.folder.rglob("*") if each.is_file())
    assert size < kept < 2 * size


@pytest.mark.parametrize("moment", ["as the call arrives", "between calls", "after some calls", "at a time"])
async def test_killed_gate_loses_no_outcome_and_repeats_no_call(desk: Desk, moment: str) -> None:
    line = ["-m", "callsheet", "gate", "--mcp-config", str(desk.config), "--journal", str(desk.journal)]
    started = StdioServerParameters(**forked.server(*line), env={**os.environ}, cwd=desk.folder)
    answered: list[str] = []

    async def send(client: Client, number: int) -> None:
        await client.call_tool("send_mail", {"to": "ann", "text": f"{number}"})
        answered.append(f"send ann: {number}")

    async def until_killed() -> None:
        async with Client(stdio_client(started)) as client:
            await send(client, 0)
            gate = gate_on(desk.journal)
            match moment:
                case "as the call arrives":
                    call = asyncio.create_task(client.call_tool("slow", {"seconds": 30}))
                    while "slow" not in desk.log:  # noqa: ASYNC110 - written by another process
                        await asyncio.sleep(0.02)
                    os.kill(gate, signal.SIGKILL)
                    await call
                case "between calls":
                    os.kill(gate, signal.SIGKILL)
                case "after some calls":
                    calls = [asyncio.create_task(send(client, number)) for number in range(1, 40)]
                    while len(answered) < 10:  # noqa: ASYNC110 - of other tasks
                        await asyncio.sleep(0)
                    os.kill(gate, signal.SIGKILL)
                    await asyncio.gather(*calls)
                case _:
                    asyncio.get_running_loop().call_later(0.06, os.kill, gate, signal.SIGKILL)
                    for number in range(1, 1_000):
                        await send(client, number)
            for number in range(1_000, 100_000):  # the end of the gate may take a moment
                await send(client, number)

    with pytest.raises(BaseException):  # noqa: B017, PT011 - the client's, when its server is gone
        await until_killed()
    with Journal.open_to_read(desk.journal) as journal:
        work = work_in(journal.events(journal.find_run("last").run_id))
    recorded = {f"send ann: {call.args['text']}" for call in work.calls}
    assert {*answered} <= recorded  # no outcome that the client has heard of is lost
    resumed = desk.callsheet("resume", "last", "--in-doubt", "fail")
    assert "done" in desk.callsheet("show", "last"), resumed
    assert len({*desk.log}) == len(desk.log)  # nothing was done twice
    unknown = {*desk.log} - recorded - {"slow"}
    assert len(unknown) <= len(work.failed)  # and nothing without an intent
    assert "slow" not in desk.log or work.failed == ["SLOW"]


def gate_on(journal: Path) -> int:
    """The process of the gate with this journal."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            line = (place / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"gate" in line and str(journal).encode() in line:
            return int(place.name)
    raise AssertionError("no gate is running")


async def test_clients_over_http_share_a_session(desk: Desk) -> None:
    line = forked.line("-m", "callsheet", "gate", "--http", "0", "--mcp-config", desk.config)
    token = "t" * 40
    gate = await asyncio.create_subprocess_exec(
        *line,
        "--journal",
        str(desk.journal),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "CALLSHEET_TOKEN": token},
    )
    assert gate.stderr is not None
    try:
        url = (await gate.stderr.readline()).decode().split()[-1]
        for number in (1, 2):
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                given = await client.call_tool("read_mail", {"number": number})
                assert given.structured_content == {"from": "ann", "text": f"mail {number}"}
    finally:
        gate.terminate()
        await gate.communicate()
    listed = desk.callsheet("runs")
    assert listed.count("session of mcp (MCP)") == 1
    assert " done " in listed


async def test_program_runs_on_the_tools_behind(desk: Desk) -> None:
    code = "S1: @read_mail (number=4) > $mail\nS2: @respond ($mail.text)\n"
    async with desk.client(expose=Expose.PROGRAM) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*OWN_TOOLS]
        found = text_of(await client.call_tool("find_tools", {"query": "send somebody a mail"}))
        assert found.splitlines()[0].startswith("async def send_mail(to: str, text: str) -> str")
        assert not (await client.call_tool("check_program", {"code": code})).is_error
        assert desk.log == []
        done = text_of(await client.call_tool("run_program", {"code": code, "name": "mail"}))
        assert done.startswith("mail 4\n")
        run = re.search(r"run (\S+): done", done).group(1)  # pyright: ignore[reportOptionalMemberAccess]
        assert "mail 4" in text_of(
            await client.call_tool("run", {"id": run, "what": "value", "variable": "mail"})
        )
        assert "mail" in text_of(await client.call_tool("plans", {"action": "list"}))
        again = await client.call_tool("plans", {"action": "run", "name": "mail"})
        assert text_of(again).startswith("mail 4\n")
        wrong = await client.call_tool("check_program", {"code": "S1: @nothing ()"})
        assert wrong.is_error
        assert "is called @NOTHING" in text_of(wrong)


async def test_run_tells_values_their_parts_their_origin_and_its_failure(desk: Desk) -> None:
    code = """
async def main():
    mail = await read_mail(number=4)
    long = mail["text"] * 5_000
    rows = [{"at": n, "text": mail["text"]} for n in range(3)]
    return long
"""
    failing = "async def main():\n    mail = await read_mail(number=4)\n    await fail(text=mail['text'])"

    async with desk.client(expose=Expose.PROGRAM) as client:

        async def told(run: str, what: str, **more: Any) -> str:
            return text_of(await client.call_tool("run", {"id": run, "what": what, **more}))

        async def run_of(code: str) -> str:
            done = text_of(await client.call_tool("run_program", {"code": code}))
            return re.search(r"run (\S+):", done).group(1)  # pyright: ignore[reportOptionalMemberAccess]

        run, whole = await run_of(code), "mail 4" * 5_000
        assert await told(run, "value", variable="rows[2].text") == "mail 4"
        assert await told(run, "value", variable="rows[2]") == '{"at": 2, "text": "mail 4"}'
        assert "rows[2] has no txt" in await told(run, "value", variable="rows[2].txt")
        first, said = (await told(run, "answer")).rsplit("\n", 1)
        asked = re.search(r"for the rest: run \(what=answer, start=(\d+)\)$", said)
        assert asked is not None
        rest = (await told(run, "answer", start=int(asked[1]))).rsplit("\n", 1)[0]
        assert first + rest == whole
        assert "read_mail(number=4)" in await told(run, "why", variable="rows[1].text")
        assert "JRN042" in await told(run, "failure")
        failed = await run_of(failing)
        assert (await told(failed, "failure")).startswith("failed        main.fail")
        assert "JRN040" in await told(failed, "answer")
        assert "'what' should be one of 'status', 'answer'" in (await told(run, "all")).replace("`", "'")


async def test_program_in_python_runs_on_the_tools_behind(desk: Desk) -> None:
    code = (
        "async def main(numbers: list[int]) -> str:\n"
        "    mails = [await read_mail(number=n) for n in numbers]\n"
        '    return ", ".join(sorted(m["text"] for m in mails))\n'
    )
    async with desk.client(expose=Expose.PROGRAM) as client:
        checked = await client.call_tool("check_program", {"code": code})
        assert not checked.is_error, text_of(checked)
        assert desk.log == []
        done = text_of(await client.call_tool("run_program", {"code": code, "inputs": {"numbers": [4, 2]}}))
        assert done.startswith("mail 2, mail 4\n")
        wrong = await client.call_tool("check_program", {"code": code.replace("await ", "")})
        assert wrong.is_error
        assert "PYT007" in text_of(wrong)


async def test_program_of_a_killed_gate_is_looked_at_and_resumed_by_another(desk: Desk) -> None:
    line = ["-m", "callsheet", "gate", "--mcp-config", str(desk.config), "--journal", str(desk.journal)]
    started = StdioServerParameters(**forked.server(*line), env={**os.environ}, cwd=desk.folder)
    code = """
async def main(to: str):
    mail = await read_mail(number=7)
    await send_mail(to=to, text=mail["text"])
    await slow(seconds=60)
    last = await read_mail(number=8)
    return {"first": mail, "last": last["text"], "long": "ab" * 30_000}
"""

    async def until_killed() -> None:
        async with Client(stdio_client(started)) as client:
            given = {"code": code, "inputs": {"to": "ann"}}
            call = asyncio.create_task(client.call_tool("run_program", given))
            while "slow" not in desk.log:  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.02)
            os.kill(gate_on(desk.journal), signal.SIGKILL)
            await call

    with pytest.raises((MCPError, ExceptionGroup)):
        await until_killed()
    run = desk.callsheet("runs").split()[0]

    async with desk.client(agrees=True) as client:

        async def told(what: str, **more: Any) -> str:
            return text_of(await client.call_tool("run", {"id": run, "what": what, **more}))

        assert "@SLOW" in await told("status")
        done = await told("resume")
        assert "whether it took place is unknown" in desk.asked[0]
        assert f"run {run}: done" in done
        assert len(done) < 21_000, "a large answer stays in the run"
        start = re.search(r"for the rest: run \(what=answer, start=(\d+)\)", done)
        assert start is not None, done[-500:]
        rest = await told("answer", start=int(start[1]))
        assert f"characters {int(start[1]):,} to 40,000" in rest
        assert "nothing at 70,000: the text has 60,074 characters" in await told("answer", start=70_000)
        assert '"text": "mail 7"' in await told("value", variable="mail")
        assert "READ_MAIL" in (await told("why")).upper()
        assert "RUN" in await told("cancel") or "done" in await told("cancel")
    assert desk.log == ["read 7", "send ann: mail 7", "slow", "read 8"]


async def test_programs_are_saved_listed_shown_and_run_by_name(desk: Desk) -> None:
    code = "async def main(n: int = 1):\n    return (await read_mail(number=n))['text']\n"
    async with desk.client() as client:

        async def plans(action: str, **more: Any) -> str:
            return text_of(await client.call_tool("plans", {"action": action, **more}))

        assert "run_program with a name saves one" in await plans("list")
        assert (await client.call_tool("run_program", {"code": code + "  (", "name": "mail"})).is_error
        await client.call_tool("run_program", {"code": code, "name": "mail"})
        assert (await plans("list")).startswith("mail ")
        assert "read_mail(number=n)" in await plans("show", name="mail")
        assert (await plans("run", name="mail", inputs={"n": 3})).startswith("mail 3\n")
        assert "no input m" in await plans("run", name="mail", inputs={"m": 3})
        assert "delete" not in await plans("list")
        assert "should be" in await plans("delete", name="mail")
    assert desk.log == ["read 1", "read 3"]


async def test_an_answer_is_for_the_call_that_was_shown(desk: Desk) -> None:
    mail, other = ({"to": to, "text": "x"} for to in ("ann", "eve"))
    async with desk.client(approve=("SEND_MAIL",), agrees=True) as client:
        found = await client.session.call_tool("send_mail", mail, allow_input_required=True)
        assert isinstance(found, InputRequiredResult)
        agreed = ElicitResult(action="accept", content={"approve": True})
        state, answers = found.request_state, dict.fromkeys(found.input_requests or (), agreed)
        for tool, args in (("send_mail", other), ("slow", {"seconds": 0}), ("run_program", {"code": "x"})):
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool(
                    tool, args, request_state=state, input_responses=answers, allow_input_required=True
                )
        for said in ("sent to ann", "the question is not open any more"):
            given = await client.session.call_tool(
                "send_mail", mail, request_state=state, input_responses=answers, allow_input_required=True
            )
            assert text_of(given) == said
    assert desk.log == ["send ann: x"]


async def test_checked_program_in_python_is_proved_under_the_policy(desk: Desk) -> None:
    code = (
        "async def main(number: int) -> str:\n"
        "    mail = await read_mail(number=number)\n"
        '    return await send_mail(to="ann@out.example", text=mail["text"])\n'
    )
    async with desk.client(policy=POLICY) as client:
        refused = await client.call_tool("check_program", {"code": code, "inputs": {"number": 1}})
        assert "private data in text" in text_of(refused)
        assert "reach ann@out.example" in text_of(refused)
        harmless = code.replace('mail["text"]', '"hello"')
        proved = await client.call_tool("check_program", {"code": harmless, "inputs": {"number": 1}})
        assert "proved against" in text_of(proved)
    assert desk.log == []


def test_the_example_of_the_language_is_a_program() -> None:
    read = read_python(EXAMPLE, "example.py")
    assert [one.message for one in read.diagnostics] == []
    assert read.plan is not None
