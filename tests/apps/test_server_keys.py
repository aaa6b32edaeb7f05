"""A client killed between a call's effect and its answer: keys and probes of a real MCP server."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.servers, pytest.mark.crash]
TILL = Path(__file__).parent / "servers" / "till.py"
RULES = {
    "pay": "keyed",
    "pay_named": {"effect": "keyed", "key_argument": "reference"},
    "order": {"effect": "probe", "probe": {"tool": "find_order", "key_argument": "reference"}},
    "find_order": "read",
}
LISTED = {
    "tool": "list_orders",
    "happened": "any(row.key == $key for row in $answer)",
    "value": "'listed, of ' + str($call.amount)",
}
APPEARED = """# ltp: 2
INPUT $amount: int
INPUT $key: str
S1: @LIST_ORDERS (amount=$amount) > $rows
@RESPOND ({"happened": $key in [r.key for r in $rows], "value": "appeared"})
"""


@pytest.mark.parametrize(
    ("tool", "calls", "answer", "rules"),
    [
        ("pay", 2, "paid 5", {}),
        ("pay_named", 2, "paid 5", {}),
        ("pay_once", 2, "paid 5", {"pay_once": "keyed"}),
        ("order", 1, "found", {}),
        ("order", 1, "listed, of 5", {"order": {"effect": "probe", "probe": LISTED}}),
        ("order", 1, "appeared", {"order": {"effect": "probe", "probe": {"plan": "appeared.ltp"}}}),
    ],
    ids=["key in _meta", "key in an argument", "found argument", "probing tool", "condition", "plan"],
)
def test_redelivered_call_keeps_key_and_probe_finds_it(machine, tool, calls, answer, rules):
    notes = machine.folder / "notes"
    machine.write("appeared.ltp", APPEARED)
    effects = {**RULES, "list_orders": "read", **rules}
    server = {"command": sys.executable, "args": [str(TILL), str(notes)], "callsheet": {"effects": effects}}
    config = machine.write("mcp.json", json.dumps({"mcpServers": {"till": server}}))
    plan = machine.plan(f"S1: @{tool.upper()} (5) > $a", "S2: @RESPOND ($a)")
    died = machine.shell("run", plan, "--mcp-config", config, "--run-id", "r")
    assert died.returncode == -signal.SIGKILL, died.stderr
    done = machine.shell("resume", "r")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == answer
    taken = [json.loads(line) for line in notes.read_text().splitlines()]
    assert [row["tool"] for row in taken] == [tool] * calls
    assert len({row["key"] for row in taken}) == 1
    assert len(taken[0]["key"]) == 64
