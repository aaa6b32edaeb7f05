"""No command prints control sequences from tools, servers, agents or models."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests import forked
from tests.security.conftest import LOOK, SEND

import lctl_blocks

OBEYED = "\x1b\x07\x08\x9b\x9d\x85\x90\x7f\u202e\u2066\u200f"
"""Characters that begin a command, go back, end a line or turn the order of what is read."""
HOSTILE = f"evil \x1b]0;owned\x07\x1b[2J\x1b[1A\x9b31m\x9dx\x90{OBEYED}\r\n\x1b]8;;http://evil.example\x1b\\x"
RAW = HOSTILE.replace("\r\n", "").replace("\\", "")
UNSEEN = "evil \x9b31m\u202e\u2066\u200f\x9dx"
"""What may stand in a file of TOML as it is."""
WORD = "evil"
TOOLS = f'''
from callsheet.ports.python_tools import tool

@tool(effect="read")
def fail(text: str) -> str:
    """Fails with what it is given."""
    raise RuntimeError({HOSTILE!r} + text)
'''
GRAPH: dict[str, Any] = {
    "id": "graph", "title": HOSTILE, "goal": HOSTILE,
    "variables": {"given": HOSTILE},
    "steps": [
        {"index": "1", "title": HOSTILE, "tool": "look", "args": {"thing": HOSTILE}, "depends_on": [],
         "result_variable": "seen"},
        {"index": "2", "title": "b", "tool": "look", "args": {"thing": "${seen}"}, "depends_on": ["1"]},
        {"index": "3", "title": HOSTILE, "tool": "fail", "args": {"text": "${seen}"}, "depends_on": ["2"]},
    ],
}  # fmt: skip
ASKING = """S1: @LOOK (thing="x") > $a
S2: @ASK_HUMAN ("Shall it be $a?", options=["yes", "no"]) > $b
S3: @RESPOND ($a)"""


def on_terminal(lines: list[list[str]]) -> list[str]:
    """The terminal output of each of the command lines."""
    ours, theirs = pty.openpty()
    said: list[bytes] = []

    def read() -> None:
        with suppress(OSError):
            while piece := os.read(ours, 65_536):
                said.append(piece)

    command = [sys.executable, str(Path(__file__).with_name("typed.py"))]
    environment = {**os.environ, "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"}
    with forked.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, env=environment, text=True
    ) as process:
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        process.communicate(json.dumps(lines), timeout=120)
        reader.join(60)
    os.close(ours)
    told = re.split(r"\r\n=== \d+ \S+\r\n", b"".join(said).decode())
    assert len(told) == len(lines) + 1, told[-1]
    return told[:-1]


def written(user: Any) -> None:
    """Files and runs with as hostile content as possible."""
    changeling = user.changeling
    changeling.declare(LOOK | {"description": HOSTILE, "title": HOSTILE}, SEND, name=HOSTILE, version=HOSTILE)
    changeling.answer(look=HOSTILE)
    for name, text in {
        "tools.py": TOOLS,
        "graph.json": json.dumps(GRAPH),
        "ask.ltp": ASKING,
        "odd.ltp": f'# {RAW}\nS1: @LOOK (thing="{RAW}") > $a\nS2: @RESPOND ("{RAW} $a")\n',
        "policy2.toml": f'# {UNSEEN}\nschema = 1\nname = "x"\n',
        "broken.ltp": f'S1: @LOOK (thing="{HOSTILE}\nS2: {HOSTILE}: @{HOSTILE}\n',
        "broken.json": json.dumps(GRAPH | {"id": HOSTILE, HOSTILE: HOSTILE}),
        "policy.toml": f'schema = 1\n[tools."@LOOK"]\n{json.dumps(HOSTILE)} = 1\n',
    }.items():
        Path(name).write_text(text, "utf-8", newline="")
    for number in (1, 2):
        block = lctl_blocks.hop(number)
        block["chain"] |= {"source": HOSTILE, "id": HOSTILE}
        block["trace"][0] |= {"agent": HOSTILE, "action": HOSTILE}
        block["facts"]["F1"] |= {"text": HOSTILE, "source": HOSTILE}
        block["instruction"] = HOSTILE
        Path(f"hop{number}.yaml").write_text(json.dumps(block), "utf-8")
    for name, run_id, status in (
        ("graph.json", "graph", 1),
        ("graph.json", "again", 1),
        ("ask.ltp", "ask", 4),
    ):
        line = ("run", name, "--run-id", run_id, "--tools", "tools.py", "--journal", "journal.db")
        done = user(*line, "--progress", "none")
        assert done.exit_code == status, done.output
    for name in ("graph.json", "odd.ltp"):
        assert user("save", name, "--id", name.partition(".")[0]).exit_code == 0
    assert user("trust", "approve", "hall", "--yes").exit_code == 0
    changed = f"{HOSTILE} changed"
    changeling.declare(LOOK | {"description": changed, "title": changed}, SEND)


JOURNAL = ["--journal", "journal.db"]
MCP = ["--mcp-config", "mcp.json"]
ALL = [*MCP, "--tools", "tools.py"]
SHOWING: list[list[str]] = [
    ["show", "graph", *JOURNAL],
    ["show", "graph", "--events", *JOURNAL],
    ["show", "graph", "--timeline", *JOURNAL],
    ["show", "graph", "--json", *JOURNAL],
    ["show", "ask", *JOURNAL],
    ["inbox", *JOURNAL],
    ["inbox", "--json", *JOURNAL],
    ["runs", *JOURNAL],
    ["tail", "graph", *JOURNAL],
    ["tail", "graph", "--json", *JOURNAL],
    ["search", "graph", "evil", *JOURNAL],
    ["search", "graph", "evil", "--json", *JOURNAL],
    ["why", "graph", "seen", *JOURNAL],
    ["why", "graph", "seen", "--forward", *JOURNAL],
    ["why", "graph", "seen", "--json", *JOURNAL],
    ["at", "graph", "5", *JOURNAL],
    ["diff", "graph", "ask", *JOURNAL],
    ["blame", "graph", *JOURNAL],
    ["playback", "graph", "--speed", "1000000", *JOURNAL],
    ["report", "graph", "--preview-redaction", *JOURNAL],
    ["lctl", "emit", "graph", *JOURNAL],
    ["lctl", "check", "hop1.yaml", "hop2.yaml"],
    ["lctl", "show", "hop1.yaml", "hop2.yaml"],
    ["lctl", "graph", "hop1.yaml", "hop2.yaml"],
    ["lctl", "graph", "--format", "mermaid", "hop1.yaml", "hop2.yaml"],
    ["graph", "graph.json"],
    ["graph", "--format", "mermaid", "graph.json"],
    ["check", "broken.ltp", *ALL],
    ["check", "broken.json", *ALL],
    ["check", "broken.json", "--json", *ALL],
    ["dry-run", "graph.json", *ALL],
    ["explain-policy", "graph.json", "--policy", "strict", *ALL],
    ["policy", "check", "policy.toml"],
    ["policy", "show", "policy2.toml"],
    ["policy", "init", "-o", "-", *MCP],
    ["run", "graph.json", *ALL, *JOURNAL, "--progress", "plain"],
    ["run", "graph.json", *ALL, *JOURNAL, "--progress", "json"],
    ["resume", "ask", *JOURNAL],
    ["plan", "diff", "graph.json", "ask.ltp"],
    ["tools", *MCP],
    ["tools", "--json", *MCP],
    ["trust", "list"],
    ["trust", "diff", *MCP],
    ["plan", "list"],
    ["plan", "show", "odd"],
    ["plan", "show", "odd", "--text"],
    ["plan", "export", "odd"],
    ["plan", "diff", "odd.ltp", "ask.ltp"],
    ["graph", "odd.ltp"],
    ["check", "odd.ltp", *ALL],
    ["dry-run", "odd.ltp", *ALL],
    ["verify", "odd.ltp", "--policy", "strict", *ALL],
    ["run", "odd.ltp", *ALL, *JOURNAL, "--progress", "plain"],
    ["run", "odd.ltp", *ALL, *JOURNAL, "--progress", "live"],
    ["fmt", "odd.ltp", "--diff"],
    ["fmt", "odd.ltp", "--to", "ltp"],
    ["plan", "show", "graph"],
    ["plan", "show", "graph", "--text"],
]


def test_terminal_executes_no_control_sequence_in_any_output(user):
    written(user)
    told = dict(zip(map(" ".join, SHOWING), on_terminal(SHOWING), strict=True))
    assert {line: found for line, text in told.items() if (found := set(OBEYED) & set(text))} == {}
    assert [line for line, text in told.items() if WORD not in text] == []  # it would prove nothing
    assert [line for line, text in told.items() if "callsheet/apps/" in text or "a bug" in text] == []
