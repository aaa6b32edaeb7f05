"""`callsheet tools NAME`, `call` and `stubs`: what is known of a tool, and trying one."""

from __future__ import annotations

import json
import sys

import pytest

SERVER = """
import json, sys

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ISSUE = {"title": "Issue", "type": "object", "required": ["number"],
         "properties": {"number": NUMBER, "title": {"anyOf": [TEXT, {"type": "null"}]}}}
LIST = {"type": "array", "items": {"$ref": "#/$defs/Issue"}}
ISSUES = {"properties": {"result": LIST}, "$defs": {"Issue": ISSUE}}
TOOLS = [
    {"name": "list_issues", "description": "The issues of a repository.",
     "annotations": {"readOnlyHint": True},
     "inputSchema": {"type": "object", "required": ["repo"],
                     "properties": {"repo": TEXT, "limit": {**NUMBER, "default": 2}}},
     "outputSchema": {"type": "object", **ISSUES}},
    {"name": "close_issue", "description": "Closes an issue.",
     "inputSchema": {"type": "object", "required": ["number"], "properties": {"number": NUMBER, "why": TEXT},
                     "additionalProperties": False}},
]

def call(name, arguments):
    if name == "list_issues":
        found = [{"number": n, "title": f"{arguments['repo']} {n}"} for n in range(arguments.get("limit", 2))]
        return {"structuredContent": {"result": found}, "content": []}
    text = f"closed {arguments['number']} {arguments.get('why', '')}"
    is_wrong = arguments["number"] < 0
    return {"content": [{"type": "text", "text": "no such issue" if is_wrong else text}], "isError": is_wrong}

for line in sys.stdin:
    ask = json.loads(line)
    params = ask.get("params", {})
    answers = {
        "initialize": lambda: {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "tracker", "version": "1"}},
        "tools/list": lambda: {"tools": TOOLS},
        "tools/call": lambda: call(params["name"], params.get("arguments", {})),
    }
    if "id" in ask:
        answer = answers.get(ask["method"])
        result = {"error": {"code": -32601, "message": "no"}} if answer is None else {"result": answer()}
        print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **result}), flush=True)
"""


@pytest.fixture
def tracker(machine):
    """A project with a real server, which is locked."""
    (machine.folder / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": ["server.py"]}
    (machine.folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"tracker": server}}))
    assert machine("lock").exit_code == 0
    return machine


def test_details_of_tool_say_types_effect_and_where_each_comes_from(tracker):
    shown = tracker("tools", "list_issues").stdout
    assert "@LIST_ISSUES (also @TRACKER__LIST_ISSUES)" in shown
    assert "async def list_issues(repo: str, limit: int = 2) -> list[Issue]" in shown
    assert "class Issue(TypedDict):" in shown
    assert "title: NotRequired[str | None]" in shown
    assert "effect: unsafe (nobody declares it); the server says read" in shown
    assert "`callsheet lock --accept tracker/list_issues` accepts it" in shown
    assert "from: the MCP server tracker" in shown
    assert tracker("lock", "--accept", "tracker").exit_code == 0
    shown = tracker("tools", "tracker/list_issues").stdout
    assert "effect: read (the server's hint, accepted in callsheet.lock)" in shown
    wrong = tracker("tools", "list_isues")
    assert (wrong.exit_code, "did you mean @LIST_ISSUES" in wrong.output) == (2, True)


def test_one_tool_is_called_checked_and_recorded_like_a_run(tracker):
    called = tracker("call", "close_issue", "number=3", "why=5")
    assert (called.exit_code, called.stdout) == (0, "closed 3 5\n")
    assert json.loads(tracker("call", "tracker/list_issues", "repo=a/b", "limit=1").stdout) == [
        {"number": 0, "title": "a/b 0"}
    ]
    failed = tracker("call", "close_issue", "number=-1")
    assert (failed.exit_code, "no such issue" in failed.output) == (1, True)
    wrong = tracker("call", "close_issue", "numer=1")
    assert (wrong.exit_code, "numer" in wrong.output) == (2, True)
    refused = tracker("call", "close_issue", "number=3", "--policy", "strict")
    assert (refused.exit_code, "POL" in refused.output) == (3, True)
    runs = json.loads(tracker("runs", "--json").stdout)
    assert len(runs) == 3


def test_stubs_are_written_and_kept_up_to_date_without_the_server(tracker):
    (tracker.folder / "server.py").write_text("raise SystemExit(1)")
    (tracker.folder / "tools.py").write_text("")
    refused = tracker("stubs")
    assert (refused.exit_code, "tools.py stands beside it" in refused.stderr) == (2, True)
    assert tracker("stubs", "-o", "stubs").exit_code == 0
    module = (tracker.folder / "stubs" / "tracker.py").read_text()
    assert "async def list_issues(repo: str, limit: int = 2) -> list[Issue]:" in module
    assert tracker("stubs", "-o", "stubs", "--check").exit_code == 0
    (tracker.folder / "stubs" / "tracker.py").write_text(module + "\n")
    assert tracker("stubs", "-o", "stubs", "--check").exit_code == 1
    data = json.loads((tracker.folder / "callsheet.lock").read_text())
    (tracker.folder / "callsheet.lock").write_text(json.dumps({**data, "servers": {}}))
    (tracker.folder / ".mcp.json").unlink()
    assert "tracker.py is removed" in tracker("stubs", "-o", "stubs").stderr
    (tracker.folder / "stubs" / "own.py").write_text("x = 1\n")
    refused = tracker("stubs", "-o", "stubs")
    assert (refused.exit_code, "own.py in it was not written by" in refused.output) == (2, True)
