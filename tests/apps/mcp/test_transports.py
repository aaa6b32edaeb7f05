"""`callsheet mcp` as clients start it: over stdio, over HTTP, with the inspector."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel.server import Server
from tests import forked

from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.mcp.transports import Address, serve_http
from callsheet.apps.server_catalogue import select_servers
from callsheet.apps.setup import Setup
from mcp_room import TOOLS

COMMAND = (sys.executable, "-m", "callsheet")
PLAN = 'S1: @LOOK (what="tea") > $seen\nS2: @CHATTER () > $said\nS3: @RESPOND ($seen)'
MODES = ["2026-07-28", "legacy"]
CHATTER = """

@tool(effect="read")
def chatter() -> str:
    print("what stands on standard output belongs to the protocol")
    return "ok"
"""


LOUD = """
import sys

import callsheet


@callsheet.tool(effect="read")
def say(text: str) -> str:
    print("out", text)
    print("err", text, file=sys.stderr)
    return "said"
"""


def environment(folder: Path) -> dict[str, str]:
    names = ("PATH", "PYTHONPATH", "LANG")
    own = {"HOME": str(folder), "CALLSHEET_MODELS": str(folder / "models"), "CALLSHEET_TOKEN": TOKEN}
    return {name: os.environ[name] for name in names if name in os.environ} | own


TOKEN = "a-token-of-the-tests-of-32-characters"
CLIENT = {"name": "t", "version": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp")
    (made / "tools.py").write_text(TOOLS + CHATTER)
    return made


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        *COMMAND[1:],
        "mcp",
        "--documented",
        "--tools",
        str(folder / "tools.py"),
        "--journal",
        str(folder / "j.db"),
        *more,
    ]


async def use(client: Client) -> None:
    """Do what every client does and check the results."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"parse_plan", "validate_plan", "visualize_plan", "plan_execute"} <= names
    answer = await client.call_tool("plan_execute", {"ltp_text": PLAN})
    assert answer.structured_content["response"] == "seen tea"
    assert (await client.list_resources()).resources
    assert (await client.list_prompts()).prompts


async def test_secrets_are_masked_in_output_of_tools(folder: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    (folder / "loud.py").write_text(LOUD)
    plan = f'PLAN_START\nS1: @SAY (text="{token}")\nPLAN_END'
    server = StdioServerParameters(
        **forked.server(*arguments(folder, "--tools", "loud.py")),
        env=environment(folder),
        cwd=str(folder),
    )
    with (folder / "said").open("w") as said:
        async with Client(stdio_client(server, errlog=said)) as client:
            assert not (await client.call_tool("plan_execute", {"ltp_text": plan})).is_error
    assert (folder / "said").read_text().splitlines()[-2:] == ["out [secret]", "err [secret]"]


@pytest.mark.parametrize("mode", MODES)
async def test_client_works_over_stdio(folder: Path, mode: str) -> None:
    server = StdioServerParameters(
        **forked.server(*arguments(folder)), env=environment(folder), cwd=str(folder)
    )
    async with Client(server, mode=mode) as client:
        await use(client)


def test_server_ends_with_client_and_run_is_resumable(folder: Path) -> None:
    journal = folder / "ends.db"
    with forked.Popen(
        [sys.executable, *arguments(folder, "--journal", str(journal))],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        slow = 'S1: @LOOK (what="x") > $a\nS2: @SLOW (text=$a) > $b\nS3: @RESPOND ($b)'
        for message in (
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {
                "name": "plan_execute", "arguments": {"ltp_text": slow}, "_meta": {"progressToken": "p"},
            }},
        ):  # fmt: skip
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        heard = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert heard[0]["result"]["serverInfo"]["name"] == "callsheet"
        assert heard[1]["params"]["message"].startswith("S1 done")
        process.stdin.close()
        assert process.wait(60) == 0
    shown = forked.run(
        [*COMMAND, "runs", "--json", "--journal", str(journal)],
        capture_output=True,
        check=True,
        env=environment(folder),
    )
    (run,) = json.loads(shown.stdout)
    assert run["status"] in ("in_doubt", "interrupted")


@pytest.mark.parametrize(
    ("version", "kinds"), [("2024-11-05", ["text"]), ("2025-06-18", ["text", "resource_link"])]
)
def test_old_client_gets_no_unknown_fields(folder: Path, version: str, kinds: list[str]) -> None:
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    call = {"name": "plan_execute", "arguments": {"ltp_text": PLAN}}
    asked = (
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
    )
    with forked.Popen(
        [sys.executable, *arguments(folder)],
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.writelines(json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n" for each in asked)
        process.stdin.flush()
        first, second = (json.loads(process.stdout.readline())["result"] for _ in range(2))
        process.stdin.close()
        assert process.wait(60) == 0
    assert first["protocolVersion"] == version
    assert [block["type"] for block in second["content"]] == kinds
    assert second["content"][0]["text"].startswith("seen tea")


class Web(NamedTuple):
    url: str
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def web(folder: Path) -> Generator[Web]:
    """A server on a port."""
    with forked.Popen(
        [sys.executable, *arguments(folder, "--http", "0")],
        cwd=folder,
        env=environment(folder),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("callsheet mcp listens at http://127.0.0.1:"), line
        yield Web(line.split()[-1], process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@asynccontextmanager
async def over_http(url: str, mode: str) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_client_works_over_http(web: Web, mode: str) -> None:
    async with over_http(web.url, mode) as client:
        await use(client)


_ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
_KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, _ASK, 401),
        ({"Authorization": "Bearer another-token-of-the-tests"}, _ASK, 401),
        ({"Authorization": f"Basic {TOKEN}"}, _ASK, 401),
        (_KNOWN | {"Host": "evil.test"}, _ASK, 421),
        (_KNOWN | {"Host": "127.0.0.1:1"}, _ASK, 421),
        (_KNOWN | {"Origin": "http://evil.test"}, _ASK, 403),
        (_KNOWN | {"Origin": "null"}, _ASK, 403),
        (_KNOWN, "{", 400),
        (_KNOWN, [_ASK] * 2, 400),
        (_KNOWN, "x" * 5_000_000, 413),
    ],
)
async def test_invalid_http_request_is_refused(
    web: Web, headers: dict[str, str], body: Any, status: int
) -> None:
    sent = body if isinstance(body, str) else json.dumps(body)
    more = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=60) as http:
        answer = await http.post(web.url, content=sent, headers=more | headers)
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e999", '{"a": 1, "a": 2}', "9" * 5_000, "[" * 5_000 + "]" * 5_000, '"\\ud800"'],
    ids=["NaN", "Infinity", "too large", "a key twice", "digits", "depth", "surrogate"],
)
async def test_ambiguous_json_is_refused_over_http_as_on_standard_input(web: Web, value: str) -> None:
    call = {"name": "validate_plan", "arguments": {"ltp_text": "respond 1", "inputs": ["here"]}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    more = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=60, headers=more | _KNOWN) as http:
        answer = await http.post(web.url, content=body.replace('"here"', value))
        beside = await http.post(web.url, content=body.replace('"id": 1', '"id": 1, "id": 2'))
    for refused in (answer, beside):
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == -32700
        assert refused.json()["error"]["message"].startswith("the body ")


async def test_request_with_two_lengths_ends_connection() -> None:
    server: Server[Any] = Server("plain")
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        serving = asyncio.create_task(serve_http(server, bound, Address("127.0.0.1", port), TOKEN))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        writer.write(b"POST /mcp HTTP/1.1\r\nHost: a\r\n" + lengths + b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        assert (answer.split()[1], answer.count(b"HTTP/1.1")) == (b"400", 1)
        writer.close()
        serving.cancel()
        await asyncio.wait({serving})


async def test_incomplete_head_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadTimeoutProtocol, "seconds", 0.3)
    server: Server[Any] = Server("slow")
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        serving = asyncio.create_task(serve_http(server, bound, Address("127.0.0.1", port), TOKEN))
        for begun in (b"", b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: a\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(begun)
            assert await asyncio.wait_for(reader.read(100), 60) == b"", begun
            writer.close()
        serving.cancel()
        await asyncio.wait({serving})


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (["--http", "0.0.0.0:0"], "MCP002", "0.0.0.0 is an address of the network"),
        (["--http", "evil.test:80"], "MCP002", "evil.test"),
        (["--http", "99999"], "CFG010", "not an address to listen on"),
        (["--http", "0", "--token-file", "tools.py"], "API019", "tools.py"),
        (["--http", "0", "--token-file", "no-such-file"], "API019", "openssl rand -hex 32 > no-such-file)"),
    ],
)
def test_invalid_command_line_is_refused(
    folder: Path, given: list[str], code: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from callsheet.apps.cli.main import main

    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["mcp", *given])
    assert result.exit_code == 2
    assert code in result.stderr
    assert says in result.stderr


def test_used_port_is_reported(folder: Path, web: Web) -> None:
    from click.testing import CliRunner

    from callsheet.apps.cli.main import main

    port = web.url.rpartition(":")[2].removesuffix("/mcp")
    result = CliRunner().invoke(main, ["mcp", "--http", port])
    assert result.exit_code == 2
    assert "MCP003" in result.stderr


@pytest.mark.parametrize(
    "server",
    [
        {"command": "callsheet", "args": ["mcp"]},
        {"command": "/opt/bin/callsheet", "args": ["mcp", "--policy", "strict"]},
        {"command": "uvx", "args": ["callsheet", "mcp"]},
        {"command": "python3", "args": ["-m", "callsheet", "mcp"]},
    ],
)
def test_callsheet_skips_itself_in_client_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: dict[str, Any]
) -> None:
    place = tmp_path / "mcp.json"
    place.write_text(
        json.dumps({"mcpServers": {"self": server, "other": {"command": "other", "args": ["mcp"]}}})
    )
    monkeypatch.setenv("CALLSHEET_MCP_CONFIG", str(place))
    setup = Setup(workspace=tmp_path, data=tmp_path)
    assert [each.name for each in select_servers(setup, None).configs] == ["other"]
    named = Setup(workspace=tmp_path, data=tmp_path, mcp_configs=(place,))
    assert [each.name for each in select_servers(named, None).configs] == ["self", "other"]


@pytest.mark.servers
@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_official_inspector_reports_no_errors(folder: Path, node_tool: Any, era: str) -> None:
    node, inspector = node_tool("@modelcontextprotocol/inspector")
    server = forked.line(*arguments(folder))

    def inspect(*given: str) -> subprocess.CompletedProcess[str]:
        env = [f"-e{name}={value}" for name, value in environment(folder).items()]
        command = [node, inspector, "--cli", "-q", "--protocol-era", era, *env, *given, "--", *server]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment(folder), timeout=60
        )

    if era == "modern":
        listed = inspect("--method", "tools/list", "--strict")
        assert listed.returncode == 0, listed.stderr
        assert "plan_execute" in {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
    called = inspect(
        "--method",
        "tools/call",
        "--tool-name",
        "plan_execute",
        "--tool-args-json",
        json.dumps({"ltp_text": PLAN}),
    )
    assert called.returncode == 0, called.stderr
    assert json.loads(called.stdout)["structuredContent"]["response"] == "seen tea"


def test_server_that_needs_an_editor_leaves_the_others_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CALLSHEET_MCP_CONFIG", raising=False)
    place = tmp_path / ".vscode" / "mcp.json"
    place.parent.mkdir()
    asks, works = {"command": "x", "env": {"K": "${input:key}"}}, {"command": "y"}
    place.write_text(json.dumps({"inputs": [], "servers": {"asks": asks, "works": works}}))
    selected = select_servers(Setup(workspace=tmp_path, data=tmp_path), None)
    assert [each.name for each in selected.configs] == ["works"]
    (warning,) = selected.diagnostics
    assert "mcp.json: the server 'asks' is skipped: ${input:key} asks a person" in warning.message
