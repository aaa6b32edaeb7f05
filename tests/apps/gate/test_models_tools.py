"""What a client's model is offered: the cost of the tools, and plans as tools of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from tests import forked

from callsheet import Plan
from callsheet.apps.gate import own_tools
from callsheet.apps.gate.offers import ToolIndex
from callsheet.apps.gate.own_tools import OWN_TOOLS, OwnCall, call_own
from callsheet.diagnostics import CallsheetError
from callsheet.store.library import PlanLibrary

MANY = """
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

THINGS = [f"{a}_{b}" for a in ("invoice", "ticket", "issue", "branch", "mail") for b in range(50)]
TOOLS = [
    Tool(
        name=f"{verb}_{thing}",
        description=f"{verb}s the {thing.replace('_', ' ')} of an account, with all of its details",
        input_schema={"type": "object", "properties": {n: {"type": "string"} for n in ("account", "reason")}},
    )
    for thing in THINGS
    for verb in ("list", "create", "delete", "send")
]


async def list_tools(context, params):
    return ListToolsResult(tools=TOOLS)


async def call_tool(context, params):
    return CallToolResult(content=[TextContent(text="done")])


async def main():
    server = Server("many", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


anyio.run(main)
"""
PLAN = """# ltp: 2
# title: Greets people
INPUT $names: list[str]   # who is greeted
INPUT $word: str = "hello"
LET $all = ", ".join($names)
@RESPOND ("${word} ${all}")
"""


def tokens(data: Any) -> int:
    """At least the tokens of JSON text: three characters each, which is few for English and for JSON."""
    return len(json.dumps(data)) // 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "many.py").write_text(MANY)
    server = forked.server(tmp_path / "many.py")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"many": server}}))
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "greet.ltp").write_text(PLAN)
    return tmp_path


def started(folder: Path, *words: str) -> StdioServerParameters:
    journal = str(folder / "journal.db")
    line = ["-m", "callsheet", *words, "--journal", journal, "--plans", str(folder / "plans")]
    env = {**os.environ, "HOME": str(folder), "CALLSHEET_CONFIG": str(folder / "config.toml")}
    return StdioServerParameters(**forked.server(*line), env=env, cwd=folder)


def finished(line: list[str], folder: Path, env: dict[str, str] | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, env=env, cwd=folder, capture_output=True, text=True, check=False)


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


async def test_a_thousand_tools_cost_a_model_fifteen_hundred_tokens(folder: Path) -> None:
    gate = started(folder, "gate", "--mcp-config", "mcp.json", "--expose", "program")
    async with Client(stdio_client(gate)) as client:
        listed = await client.list_tools()
        data = listed.model_dump(mode="json", by_alias=True, exclude_none=True)["tools"]
        assert tokens([data, client.instructions]) <= 1_500
        found = text_of(await client.call_tool("find_tools", {"query": "delete invoice 7"}))
        assert found.splitlines()[0].startswith("async def delete_invoice_7(")
        assert tokens(found) <= 500
    async with Client(stdio_client(started(folder, "gate", "--mcp-config", "mcp.json"))) as client:
        assert len((await client.list_tools()).tools) == 1_000 + len(OWN_TOOLS)


async def test_mcp_offers_the_tools_of_the_gate_and_more_on_request(folder: Path) -> None:
    documented = {"parse_plan", "validate_plan", "visualize_plan"}
    documented |= {"plan_create", "plan_execute", "plan_create_and_execute"}
    async with Client(stdio_client(started(folder, "mcp"))) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*OWN_TOOLS]
        code = "async def main(n: int) -> str:\n    return f'{n + 1} left'\n"
        done = text_of(await client.call_tool("run_program", {"code": code, "inputs": {"n": 2}}))
        assert done.startswith("3 left\n")
        assert "run (what=value, variable=n) returns one" in done
        assert "explain_run" not in done
        misspelt = await client.call_tool("run_program", {"code": code, "input": {"n": 2}})
        assert misspelt.is_error
        assert "`input` is undeclared" in text_of(misspelt)
        assert (await client.call_tool("find_tools", {"query": "mail", "detail": "all"})).is_error
        with pytest.raises(MCPError, match="callsheet mcp with --operations"):
            await client.call_tool("parse_plan", {"ltp_text": PLAN})
        assert "run_program with a name" not in text_of(await client.call_tool("plans", {"action": "list"}))
    async with Client(stdio_client(started(folder, "mcp", "--documented"))) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*OWN_TOOLS, *documented}
        assert not (await client.call_tool("parse_plan", {"ltp_text": PLAN})).is_error
    async with Client(stdio_client(started(folder, "mcp", "--operations"))) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"explain_run", "fork_run", *documented} < {*names}


async def test_saved_plan_is_a_tool_with_its_inputs(folder: Path) -> None:
    async with Client(stdio_client(started(folder, "mcp", "--plan-tool", "greet"))) as client:
        tool = (await client.list_tools()).tools[-1]
        assert tool.name == "greet"
        assert tool.description is not None
        assert tool.description.startswith("Greets people")
        assert tool.input_schema["required"] == ["names"]
        assert tool.input_schema["properties"]["names"] == {
            "type": "array",
            "items": {"type": "string"},
            "description": "who is greeted",
        }
        done = await client.call_tool("greet", {"names": ["ann", "bob"]})
        assert text_of(done).startswith("hello ann, bob\n")
        wrong = await client.call_tool("greet", {"names": "ann"})
        assert wrong.is_error
        assert "RUN037" in text_of(wrong)


async def test_saved_plan_and_tool_with_one_name_are_two_tools(folder: Path) -> None:
    for name in ("list_mail_1", "greet.all", "greet_all"):
        (folder / "plans" / f"{name}.ltp").write_text(PLAN)
    words = ["gate", "--mcp-config", "mcp.json", "--plan-tool", "*"]
    async with Client(stdio_client(started(folder, *words))) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert len(names) == len({*names})
        assert text_of(await client.call_tool("list_mail_1", {})) == "done"
        done = await client.call_tool("plan_list_mail_1", {"names": ["ann"]})
        assert text_of(done).startswith("hello ann\n")
    given = started(folder, *words, "--expose", "tools")
    assert "--plan-tool needs --expose" in finished([given.command, *given.args], folder, given.env).stderr


async def test_refused_program_is_withdrawn_unless_somebody_has_replaced_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = PlanLibrary(tmp_path)
    code, other = ('S1: @respond ("one")\n', 'S1: @respond ("two")\n')

    async def beside(work: Any) -> Any:
        return work()

    meanwhile: list[Callable[[], object]] = []

    async def delegated(tool: str, *_: Any) -> None:
        if tool == "save_plan":
            library.save(Plan.parse(code).ir, "rep", text=code)
            return
        for act in meanwhile:
            act()
        raise CallsheetError.single("POL110", "refused")

    monkeypatch.setattr(own_tools, "_delegate", delegated)
    context: Any = SimpleNamespace(library=library, host=SimpleNamespace(beside=beside))
    caller: Any = SimpleNamespace(state=None)
    call = OwnCall("run_program", {"code": code, "name": "rep"})

    def deletes() -> None:
        library.delete("rep")
        library.save(Plan.parse(other).ir, "report", text=other)

    def replaces() -> None:
        library.save(Plan.parse(other).ir, "rep", text=other, replaces=True)

    for acts, left in (([], []), ([deletes], ["report"]), ([replaces], ["rep", "report"])):
        meanwhile[:] = acts
        with pytest.raises(CallsheetError, match="POL110"):
            await call_own(call, ToolIndex({}, []), context, caller)
        assert sorted(library.ids()) == left


def test_plan_that_is_not_there_is_reported_before_serving(folder: Path) -> None:
    given = started(folder, "mcp", "--plan-tool", "gret")
    line, nothing = [given.command, *given.args], subprocess.DEVNULL
    done = subprocess.run(line, env=given.env, cwd=folder, stdin=nothing, capture_output=True, check=False)
    assert b"did you mean greet?" in done.stderr
    assert done.returncode == 2


async def test_session_becomes_a_plan_that_runs(folder: Path) -> None:
    server = forked.server(Path(__file__).parent / "desk.py", folder / "log")
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": server}}))
    said = {"io.github.callsheet/said": "Forward number 7 to bob@x.example"}
    async with Client(stdio_client(started(folder, "gate", "--mcp-config", "mcp.json"))) as client:
        await client.call_tool("read_mail", {"number": 3}, meta=said)
        await client.call_tool("read_mail", {"number": 7})
        await client.call_tool("send_mail", {"to": "bob@x.example", "text": "mail 7"})
    given = started(folder, "distil", "last", "-o", "plan.py")
    line = [given.command, *given.args[:-2]]
    made = finished(line, folder, given.env)
    assert "verified: on the recorded answers it makes the same 2 calls" in made.stderr, made.stderr
    assert "left out, since nothing came of them: READ_MAIL" in made.stderr
    plan = (folder / "plan.py").read_text()
    assert "mail = await read_mail(number=number)\n" in plan
    assert 'await send_mail(to=to, text=mail["text"])\n' in plan
    again = ["-m", "callsheet", "run", "plan.py", "--mcp-config", "mcp.json", "--journal", "journal.db"]
    again += ["--var", "number=8", "--var", "to=ann@x.example"]
    ran = finished([given.command, *again], folder, given.env)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "log").read_text().splitlines()[-2:] == ["read 8", "send ann@x.example: mail 8"]


async def test_mcp_counts_what_a_program_has_told_its_client(folder: Path) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "notes.md").write_text("the plan")
    (folder / "policy.toml").write_text(
        'schema = 1\nextends = "workspace"\n[sources."file:**"]\nconf = "priv"\nintegrity = "U"\n'
    )
    served = started(folder, "mcp", "--policy", "policy.toml", "--workspace", "work")
    write = "S1: @fetch_page (url='https://example.org/?q=the plan') > $p\n"
    async with Client(stdio_client(served)) as client:
        before = text_of(await client.call_tool("check_program", {"code": write}))
        assert "POL1" not in before
        read = "S1: @read_file (path='notes.md') > $text\nS2: @respond ($text)\n"
        assert text_of(await client.call_tool("run_program", {"code": read})).startswith("the plan")
        after = text_of(await client.call_tool("run_program", {"code": write}))
        assert "POL103" in after
        assert "what you write counts as U/" in after
