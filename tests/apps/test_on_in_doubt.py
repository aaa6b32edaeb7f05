"""Lost answers without a person: handled as the tool, an option or the configuration says."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from callsheet import CallsheetError, RunStatus, Runtime, tool

TOOLS = '''
import asyncio
from pathlib import Path
from callsheet import tool

@tool(effect="unsafe", timeout=0.2)
async def pay(log: str) -> str:
    """Pay, and never answer the first time."""
    first = not Path(log).exists()
    with open(log, "a") as file:
        file.write("paid\\n")
    if first:
        await asyncio.sleep(30)
    return "receipt"
'''
PLAN = ("S1: @PAY (log=$log) > $a ON_FAIL GOTO S3", 'S2: @RESPOND ("paid", $a)', 'S3: @RESPOND ("not: $a")')


def run(machine: Any, *options: str) -> Any:
    tools = machine.write("paying.py", TOOLS)
    log = str(machine.folder / "log")
    return machine(
        "run", machine.plan(*PLAN), "--tools", tools, "--var", f"log={log}", "--run-id", "r", *options
    )


def paid(machine: Any) -> int:
    return (machine.folder / "log").read_text().count("paid")


def settings(machine: Any, text: str) -> None:
    machine.write("home/config/callsheet/config.toml", text)


@pytest.mark.parametrize(
    ("policy", "status", "said", "calls"),
    [("ask", 4, "", 1), ("fail", 0, "not: ", 1), ("retry", 0, "paid receipt", 2)],
)
@pytest.mark.parametrize("place", ["option", "configuration"])
def test_declared_policy_decides(machine, place, policy, status, said, calls):
    """`retry` applies to tools with a declared effect, such as this one."""
    if place == "configuration":
        settings(machine, f'on_in_doubt = "{policy}"\n')
    done = run(machine, *(("--on-in-doubt", policy) if place == "option" else ()))
    assert done.exit_code == status, done.stderr
    assert done.stdout.startswith(said)
    assert paid(machine) == calls


def test_option_overrides_configuration(machine):
    settings(machine, 'on_in_doubt = "retry"\n')
    assert run(machine, "--on-in-doubt", "fail").stdout.startswith("not: ")
    assert paid(machine) == 1


@pytest.mark.parametrize("text", ['on_in_doubt = "perhaps"\n', "on_in_doubt = 3\n"])
def test_invalid_policy_is_error_with_position(machine, text):
    settings(machine, text)
    done = run(machine)
    assert done.exit_code == 2
    assert "config.toml" in done.stderr
    assert "on_in_doubt" in done.stderr
    assert not (machine.folder / "log").exists()
    assert run(machine, "--on-in-doubt", "perhaps").exit_code == 2


def test_invalid_policy_of_server_tool_is_error_with_position(machine):
    rule = {"pay": {"effect": "unsafe", "on_in_doubt": "maybe"}}
    server = {"command": sys.executable, "callsheet": {"effects": rule}}
    config = machine.write("mcp.json", json.dumps({"mcpServers": {"till": server}}))
    done = machine("tools", "--mcp-config", config)
    assert done.exit_code == 2
    assert "maybe" in done.stderr
    assert "mcp.json" in done.stderr


@tool(effect="unsafe", timeout=0.1, name="pay")
async def pay(log: str) -> str:
    if noted(Path(log)) == 1:
        await asyncio.sleep(30)
    return "receipt"


def noted(log: Path) -> int:
    """Record a call and return the number of calls."""
    with log.open("a") as file:
        file.write("paid\n")
    return log.read_text().count("paid")


@pytest.mark.parametrize(
    ("policy", "status", "calls"),
    [("ask", RunStatus.IN_DOUBT, 1), ("fail", RunStatus.DONE, 1), ("retry", RunStatus.DONE, 2)],
)
async def test_runtime_takes_policy(tmp_path: Path, policy: Any, status: RunStatus, calls: int) -> None:
    log = tmp_path / "log"
    runtime = Runtime([pay], journal=tmp_path / "j.db", on_in_doubt=policy)
    result = await runtime.run("\n".join(PLAN), {"log": str(log)}, run_id="r")
    assert result.status is status
    assert log.read_text().count("paid") == calls
    if policy == "fail":
        assert result.response.startswith("not: it is not known whether the call took place")


def test_invalid_policy_of_runtime_or_function_raises_at_once() -> None:
    with pytest.raises(ValueError, match="perhaps"):
        Runtime(on_in_doubt="perhaps")  # type: ignore[arg-type]
    with pytest.raises((CallsheetError, ValueError), match="perhaps"):

        @tool(on_in_doubt="perhaps")
        def odd() -> None: ...


@pytest.mark.servers
@pytest.mark.parametrize(
    ("policy", "status", "calls"), [("retry", RunStatus.IN_DOUBT, 1), ("fail", RunStatus.DONE, 1)]
)
async def test_retry_policy_excludes_undeclared_tools(
    tmp_path: Path, policy: Any, status: RunStatus, calls: int
) -> None:
    """A server whose tool has no declared effect; its first answer is late."""
    servers = {
        "odd": {
            "command": sys.executable,
            "args": [str(Path(__file__).parents[1] / "crash/servers/odd.py"), str(tmp_path / "notes")],
            "timeout": 0.5,
        }
    }
    async with Runtime(mcp=servers, data=tmp_path, journal=tmp_path / "j.db", on_in_doubt=policy) as runtime:
        result = await runtime.run('S1: @GIVE ("too late") > $a', run_id="r")
    assert result.status is status
    assert (tmp_path / "notes").read_text().count("too late") == calls
