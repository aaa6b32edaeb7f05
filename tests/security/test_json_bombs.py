"""JSON that is too deep, too long or ambiguous: an immediate error, wherever it comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet import Plan
from callsheet.diagnostics import CallsheetError, Source
from callsheet.frontends.dag import parse_dag
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.machine.values import parse_json
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.mcp import McpPool, McpServerConfig, StdioServer, parse_config
from callsheet.ports.mcp.trust import PinFile
from callsheet.store.library import PlanLibrary
from callsheet.store.library.library import import_plans
from callsheet.store.retention import read_anchors

BOMBS = {
    "100,000 lists": "[" * 100_000 + "]" * 100_000,
    "100,000 objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "lists without end": "[" * 1_000_000,
    "5,000 digits": "9" * 5_000,
    "NaN": "NaN",
    "Infinity": "-Infinity",
    "1e999": "1e999",
    "a key twice": '{"a": 1, "a": 2}',
}
CANONICAL = Plan.parse('respond "here"').to_json()
GRAPH = {"steps": [{"index": "1", "title": "A", "tool": "t", "args": {"v": "here"}, "depends_on": []}]}


def canonical(bomb: str, _: Path) -> object:
    return Plan.from_json(json.dumps(CANONICAL).replace('"here"', bomb))


def graph(bomb: str, _: Path) -> object:
    return parse_dag(json.dumps(GRAPH).replace('"here"', bomb)).require()


def servers(bomb: str, folder: Path) -> object:
    text = '{"mcpServers": {"a": {"command": "x", "timeout": %s}}}' % bomb  # noqa: UP031 - braces in it
    return parse_config(Source("mcp.json", text), folder, {})


def pins(bomb: str, folder: Path) -> object:
    (folder / "pins.json").write_text('{"schema": 1, "servers": [%s]}' % bomb)  # noqa: UP031 - as above
    return PinFile(folder / "pins.json").read()


def exported(bomb: str, folder: Path) -> object:
    return import_plans(PlanLibrary(folder / "plans"), '{"callsheet": "plans", "plans": [%s]}' % bomb)  # noqa: UP031 - as above


def anchors(bomb: str, folder: Path) -> object:
    (folder / "heads").write_text('{"run": "r", "seq": %s, "head": "", "time": 1}' % bomb)  # noqa: UP031 - as above
    return read_anchors(folder / "heads")


PLACES: list[Callable[[str, Path], object]] = [canonical, graph, servers, pins, exported, anchors]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_json_bomb_is_error_with_code(tmp_path, place, bomb):
    with pytest.raises(CallsheetError) as caught:
        place(bomb, tmp_path)
    assert {d.code for d in caught.value.diagnostics if d.is_error} <= {
        "CFG001", "CFG111", "CFG112", "CFG114", "DAG002", "DAG003", "DAG004", "DAG005", "DAG006", "JRN018",
        "PLN026",
    }  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_strict_reader_refuses_each_bomb_with_reason(bomb):
    with pytest.raises(NotJson, match=r"deep|twice|digits|large|is not JSON"):
        read_json(bomb)
    known, value = parse_json(bomb)
    assert (known, value) in ((False, None), (True, {"a": 2}))  # data of a tool may say a thing twice


def test_plan_over_hundred_megabytes_is_refused_unread(tmp_path):
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(100_000_001)
    with pytest.raises(CallsheetError, match=r"CFG012.*larger than 100 MB"):
        Plan.load(path)


def test_plan_of_fifty_megabytes_is_error_or_plan():
    wrong = json.dumps(GRAPH).replace('"here"', f'"{"x" * 50_000_000}')
    with pytest.raises(CallsheetError):
        parse_dag(wrong).require()


@pytest.mark.parametrize("value", ["1e999", "NaN", "-Infinity"])
def test_command_line_variable_is_never_infinite(user, value):
    said = user("run", user.plan("S1: @RESPOND ($x)"), "--var", f"x={value}")
    assert (said.exit_code, said.stdout) == (0, f"{value}\n")


SERVER = """
import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [], "structuredContent": {"v": "here"}},
    }.get(ask["method"])
    if "id" in ask:
        text = json.dumps({"jsonrpc": "2.0", "id": ask["id"], "result": result})
        bomb = open(sys.argv[1]).read()
        print(text.replace('"here"', bomb), flush=True)
"""


@pytest.mark.parametrize("bomb", ["100,000 lists", "5,000 digits", "lists without end"])
async def test_json_bomb_from_server_fails_call_at_once(tmp_path, bomb):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "bomb").write_text(BOMBS[bomb])
    command = StdioServer(sys.executable, (str(tmp_path / "server.py"), str(tmp_path / "bomb")))
    async with McpPool([McpServerConfig("s", command, timeout=60)]) as pool:
        await pool.connect()
        ((tool, _),) = pool.tools()
        with pytest.raises(ToolFailed, match="answered with an invalid result") as caught:
            await tool.handler({}, CallContext("r", "k"))
        assert caught.value.in_doubt
        (tmp_path / "bomb").write_text("1")
        answer: Any = await tool.handler({}, CallContext("r", "k"))
    assert answer == {"v": 1}
