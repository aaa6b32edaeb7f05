"""What a gate passes through besides calls: what servers offer, ask and tell; each on both protocols."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.context import ClientRequestContext
from mcp.shared.exceptions import MCPError
from tests import forked

from callsheet.api.policies import load_policy
from callsheet.apps.gate.server import Expose, Gate, make_server
from callsheet.apps.gate.spoken_words import SpokenWords
from callsheet.apps.hosting import Host
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.setup import Setup
from callsheet.runtime.answers import Answer
from callsheet.runtime.cancelling import cancel_run
from callsheet.runtime.inbox import answer_run, inbox
from callsheet.store import EventType, Journal
from callsheet.store.library import PlanLibrary

OFFICE = Path(__file__).parent / "office.py"
OLDER, NEWER, BOTH = "legacy", "2026-07-28", "both"


@dataclass
class Office:
    """A folder with a server behind a gate, and what its client was asked and told."""

    folder: Path
    heard: list[Any] = field(default_factory=list[Any])

    @property
    def log(self) -> list[str]:
        place = self.folder / "log"
        return place.read_text().splitlines() if place.exists() else []

    def rows(self, *kinds: EventType) -> list[Any]:
        with Journal.open(self.folder / "journal.db") as journal:
            runs = journal.runs()
            return [row for row in journal.events(runs[0].run_id) if row.type in kinds]

    def trust(self) -> None:
        """Approve what the server declares now, as a person does."""
        words = ["trust", "approve", "office", "--mcp-config", str(self.folder / "mcp.json"), "--yes"]
        line = [sys.executable, "-m", "callsheet", *words]
        done = forked.run(line, capture_output=True, text=True, cwd=self.folder, check=False)
        assert done.returncode == 0, done.stderr

    @asynccontextmanager
    async def client(
        self,
        mode: str,
        server: str = NEWER,
        *,
        forms: bool = True,
        is_silent: bool = False,
        models: bool = True,
        policy: str = "",
        protocol: str = "",
        others: dict[str, Any] = {},  # noqa: B006 - it is only read
    ) -> AsyncGenerator[Client]:
        office = forked.server(
            OFFICE, self.folder / "log", *{OLDER: ["older"], BOTH: ["both"]}.get(server, [])
        )
        if protocol:
            office["callsheet"] = {"protocol": protocol}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"office": office, **others}}))

        async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
            self.heard.append(params)
            if is_silent:
                await asyncio.sleep(3_600)
            return types.ElicitResult(action="accept", content={"day": "Monday"})

        async def sample(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
            self.heard.append(params)
            words = types.TextContent(text="four")
            return types.CreateMessageResult(role="assistant", content=words, model="m")

        async def roots(context: ClientRequestContext) -> Any:
            return types.ListRootsResult(roots=[types.Root(uri="file:///home/ann")])

        async def note(message: Any) -> None:
            self.heard.append(message)

        held = None
        if policy:
            (self.folder / "policy.toml").write_text(policy)
            held = load_policy(str(self.folder / "policy.toml"))
        setup = Setup(
            workspace=self.folder,
            data=self.folder / "data",
            mcp_configs=(self.folder / "mcp.json",),
            discovers=False,
        )
        with Journal.open(self.folder / "journal.db") as journal:
            async with Host(setup, journal, policy=held) as host:
                context = ServerContext(host=host, library=PlanLibrary(self.folder / "plans"))
                async with (
                    Gate(context, Expose.BOTH, (), SpokenWords(self.folder)) as gate,
                    Client(
                        make_server(gate),
                        mode=mode,
                        elicitation_callback=elicit if forms else None,
                        sampling_callback=sample if models else None,
                        list_roots_callback=roots,
                        logging_callback=note,
                        log_level="warning",
                        message_handler=note,
                        cache=None,
                    ) as client,
                ):
                    yield client


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("")
    return Office(tmp_path)


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, types.TextContent))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.02)


async def test_resources_prompts_completions_and_errors_are_those_of_the_server(office: Office) -> None:
    async with office.client(NEWER) as client:
        assert [each.uri for each in (await client.list_resources()).resources] == [
            "office://notes",
            "office://logo",
        ]
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == ["office://days/{day}"]
        read = await client.read_resource("office://logo")
        assert read.contents[0].blob == "iVBORw0KGgo="  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(MCPError, match="no such paper") as unknown:
            await client.read_resource("office://secrets")
        assert unknown.value.error.data == {"uri": "office://secrets"}
        with pytest.raises(MCPError, match="no such day") as unknown:
            await client.call_tool("read", {"day": "never"})
        assert (unknown.value.error.code, unknown.value.error.data) == (-32050, {"day": "never"})
        assert [each.name for each in (await client.list_prompts()).prompts] == ["greet"]
        greeting = await client.get_prompt("greet", {"who": "ann"})
        assert greeting.messages[0].content.text == "Greet ann."  # pyright: ignore[reportAttributeAccessIssue]
        ref = types.PromptReference(name="greet")
        assert (await client.complete(ref, {"name": "who", "value": "an"})).completion.values == [
            "ann",
            "anton",
        ]
    noted = ["read office://logo", "read office://secrets", "read", "prompt greet {'who': 'ann'}"]
    assert office.log == noted
    intents = [row.body["tool"] for row in office.rows(EventType.INTENT) if row.body]
    assert intents == ["RESOURCE", "RESOURCE", "READ", "PROMPT"]


async def test_what_a_client_has_read_of_resources_counts(office: Office) -> None:
    policy = """
schema = 1
extends = "workspace"
[tools."@RESOURCE"]
egress = false
destructive = false
returns = "U/priv"
[tools."@PROMPT"]
egress = true
destructive = false
returns = "T/pub"
"""
    async with office.client(NEWER, policy=policy) as client:
        ref = types.PromptReference(name="greet")
        assert (await client.complete(ref, {"name": "who", "value": "b"})).completion.values == ["bob"]
        await client.get_prompt("greet", {"who": "ann"})
        await client.read_resource("office://notes")
        assert (await client.complete(ref, {"name": "who", "value": "b"})).completion.values == []
        with pytest.raises(MCPError, match="the policy refuses @PROMPT"):
            await client.get_prompt("greet", {"who": "the milk of ann"})
    assert office.log == ["prompt greet {'who': 'ann'}", "read office://notes"]


async def subscribe(client: Client, uri: str) -> None:
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


async def test_address_of_a_subscription_carries_nothing_that_was_read(office: Office) -> None:
    policy = """
schema = 1
extends = "workspace"
[tools."@RESOURCE"]
egress = false
destructive = false
returns = "U/priv"
"""
    async with office.client(OLDER, OLDER, policy=policy) as client:
        await subscribe(client, "office://anything")
        await client.read_resource("office://notes")
        with pytest.raises(MCPError, match="no server lists the resource"):
            await subscribe(client, "office://buy-milk")
        await subscribe(client, "office://notes")
    assert office.log == [
        "subscribe office://anything",
        "read office://notes",
        "subscribe office://notes",
    ]


async def test_what_a_server_sends_against_the_protocol_is_named_and_spoils_nothing_else(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    (office.folder / "odd").touch()
    async with office.client(OLDER, OLDER) as client:
        assert (await client.list_resources()).resources == []
        assert "office: resources/list ends early: the MCP server 'office' answered" in caplog.text
        with pytest.raises(MCPError, match="invalid result"):
            await client.read_resource("office://notes")


@pytest.mark.parametrize(
    ("mode", "server", "protocol"),
    [
        (OLDER, OLDER, ""),
        (OLDER, NEWER, ""),
        (OLDER, BOTH, ""),
        (NEWER, OLDER, ""),
        (NEWER, NEWER, ""),
        (NEWER, BOTH, "older"),
    ],
)
async def test_questions_of_a_server_reach_its_client_and_the_journal(
    office: Office, mode: str, server: str, protocol: str
) -> None:
    async with office.client(mode, server, protocol=protocol) as client:
        assert text_of(await client.call_tool("ask_day")) == "accept {'day': 'Monday'}"
        assert text_of(await client.call_tool("ask_model")) == "the model says four"
        assert text_of(await client.call_tool("roots")) == "file:///home/ann"
    form, asks = office.heard[0], next(one for one in office.heard if hasattr(one, "max_tokens"))
    assert (form.message, asks.include_context) == (
        "the server office asks: Which day?",
        "allServers",
    )
    asked, told = office.rows(EventType.SERVER_ASKS), office.rows(EventType.SERVER_TOLD)
    assert [row.body["method"] for row in asked] == ["elicitation/create", "sampling/createMessage"]
    assert told[0].body["result"] == {"action": "accept", "content": {"day": "Monday"}}
    assert told[1].body["result"]["content"] == {"type": "text", "text": "four"}


async def test_under_a_policy_a_model_that_is_asked_gets_nothing_else(office: Office) -> None:
    policy = """
schema = 1
extends = "workspace"
[tools."@ASK_MODEL"]
egress = false
destructive = false
returns = "T/pub"
"""
    async with office.client(NEWER, policy=policy) as client:
        assert text_of(await client.call_tool("ask_model")) == "the model says four"
    assert office.heard[0].include_context == "none"


@pytest.mark.parametrize("server", [OLDER, NEWER])
async def test_question_that_the_client_cannot_show_waits_in_the_inbox(office: Office, server: str) -> None:
    async with office.client(NEWER, server, forms=False) as client:
        calling = asyncio.create_task(client.call_tool("ask_day"))
        with Journal.open(office.folder / "journal.db") as journal:
            await until(lambda: bool(inbox(journal)))
            (ask,) = inbox(journal)
            assert ask.prompt == "the server office asks: Which day?"
            answer_run(journal, ask.run_id, Answer.of({"day": "Friday"}, by="ann"), ask.key)
        assert text_of(await calling) == "accept {'day': 'Friday'}"
    (told,) = office.rows(EventType.SERVER_TOLD)
    assert told.body["by"] == "ann"


async def test_call_ends_with_its_session_though_its_form_stays_open(office: Office) -> None:
    async with office.client(OLDER, OLDER, is_silent=True) as client:
        calling = asyncio.create_task(client.call_tool("ask_day"))
        await until(lambda: bool(office.heard))
        with Journal.open(office.folder / "journal.db") as journal:
            await cancel_run(journal, journal.runs()[0].run_id, "enough", 5.0)
        async with asyncio.timeout(5):
            assert "has ended: enough" in text_of(await calling)


async def test_model_that_the_client_does_not_have_is_not_asked(office: Office) -> None:
    async with office.client(OLDER, OLDER, models=False) as client:
        with pytest.raises(MCPError, match="Sampling not supported"):
            await client.call_tool("ask_model")


@pytest.mark.parametrize("server", [OLDER, NEWER])
async def test_progress_and_log_lines_reach_the_client_that_wants_them(office: Office, server: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    async with office.client(OLDER, server) as client:
        await client.call_tool("count", progress_callback=progress)
        await until(lambda: len(seen) == 2 and any("counted" in str(each) for each in office.heard))
    assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


@pytest.mark.parametrize("server", [OLDER, NEWER])
async def test_new_tools_of_a_server_are_told_listed_and_called(office: Office, server: str) -> None:
    async with office.client(OLDER, server) as client:
        await client.list_tools()
        await client.call_tool("grow")
        await until(lambda: any("tools/list_changed" in str(each) for each in office.heard))
        listed = await client.list_tools()
        assert "new_tool" not in [tool.name for tool in listed.tools]
        assert "'office' these are not called, and a call says why: new_tool" in str(listed.meta)
        refused = await client.call_tool("new_tool")
        assert refused.is_error
        assert "callsheet trust approve" in text_of(refused)
        await asyncio.to_thread(office.trust)
        assert "new_tool" in [tool.name for tool in (await client.list_tools()).tools]
        assert text_of(await client.call_tool("new_tool")) == "did new_tool"
        assert text_of(await client.call_tool("read")) == "did read"
    assert office.log == ["new_tool", "read"]


LATE = """
import pathlib, sys, time
from mcp.server.mcpserver import MCPServer

server = MCPServer("late")


@server.tool()
def greet() -> str:
    return "hello"


while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
server.run()
"""


@pytest.mark.parametrize("mode", [OLDER, NEWER])
async def test_servers_that_are_late_hold_up_no_other_and_are_named(office: Office, mode: str) -> None:
    late = {"command": sys.executable, "args": ["-c", LATE, str(office.folder / "go")]}
    hung = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}
    async with office.client(mode, mode, others={"late": late, "hung": hung}) as client:
        async with asyncio.timeout(25):  # after 30 s a server is given up
            listed = await client.list_tools()
            while "read" not in {
                tool.name for tool in listed.tools
            }:  # on a slow machine none may be there yet
                listed = await client.list_tools()
        names = {tool.name for tool in listed.tools}
        assert "greet" not in names
        missing = (listed.meta or {})["io.github.callsheet/missing"]
        assert ["'late'" in missing[0], "'hung'" in missing[1]] == [True, True]
        assert text_of(await client.call_tool("read")) == "did read"
        found = text_of(await client.call_tool("find_tools", {"query": "greet"}))
        assert "# not there: the MCP server 'late' has not answered its first request yet" in found
        if mode == OLDER:
            await until(lambda: any("tools are missing" in str(each) for each in office.heard))
        calling = asyncio.create_task(client.call_tool("greet"))
        (office.folder / "go").touch()
        assert text_of(await calling) == "hello"
        assert "greet" in {tool.name for tool in (await client.list_tools()).tools}
        if mode == OLDER:
            await until(lambda: any("tools/list_changed" in str(each) for each in office.heard))
        assert text_of(await client.call_tool("read")) == "did read"


async def test_first_list_that_a_client_gives_up_leaves_no_tool_out(office: Office) -> None:
    hung = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}
    async with office.client(OLDER, OLDER, others={"hung": hung}) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await client.list_tools()
        async with asyncio.timeout(25):
            names = set[str]()
            while "read" not in names:  # on a slow machine it may come later
                names = {tool.name for tool in (await client.list_tools()).tools}
        assert text_of(await client.call_tool("read")) == "did read"
