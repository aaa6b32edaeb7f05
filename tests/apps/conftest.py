"""Fixtures for the command line: a folder, a journal, and two ways to run commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests import forked

from callsheet.apps.cli.main import main
from local_models import model_file

__all__ = ["model_file"]

TOOLS = '''
"""Tools of the tests."""
import os
import time
from pathlib import Path

from callsheet.ports.python_tools import tool


@tool(effect="read")
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers.

    More that nobody reads in a list.
    """
    return a + b


@tool(effect="read")
def fail(text: str) -> str:
    """Fails with a text."""
    raise RuntimeError(text)


@tool(effect="read")
def bulk(size: int) -> str:
    """A long text."""
    return "x" * size


@tool(effect="read")
def chat(text: str) -> str:
    """Prints where it should not."""
    print("chatter", text)
    return text


@tool
def note(line: str, path: str = "notes.txt", wait: float = 0.0) -> str:
    """Adds a line to a file and then takes its time."""
    with open(path, "a") as file:
        file.write(line + "\\n")
    time.sleep(wait)
    return line


@tool(effect="read")
def look(path: str, wait: float = 0.0, until: str = "") -> str:
    """Leaves a mark and then takes its time, or waits for a mark of others."""
    Path(path).touch()
    time.sleep(wait)
    while until and not Path(until).exists():
        time.sleep(0.05)
    return "seen"


@tool
def die(marker: str) -> str:
    """Ends the process the first time, as kill -9 would."""
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), 9)
    return "alive"
'''

SERVER = """
import json, sys

def say(ask, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **answer}), flush=True)

ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
for line in sys.stdin:
    ask = json.loads(line)
    if "id" not in ask:
        continue
    method, params = ask["method"], ask.get("params", {})
    if method == "initialize":
        say(ask, result={"protocolVersion": "2025-06-18", **ABOUT})
    elif method == "tools/list":
        say(ask, result={"tools": [{"name": n, "inputSchema": SCHEMA} for n in ("greet", "read_file")]})
    elif method == "tools/call":
        text = params["name"] + " " + params.get("arguments", {}).get("name", "")
        say(ask, result={"content": [{"type": "text", "text": text}]})
    else:
        say(ask, error={"code": -32601, "message": "no"})
"""

_SIGNALS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
"""As a shell starts a command: one that runs the tests in the background has both ignored."""


class Machine:
    """A working folder and the command line in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = self.write("tools.py", TOOLS)
        self.journal = folder / "data" / "journal.db"

    def write(self, name: str, text: str) -> str:
        """Write a file and return its name."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    def plan(self, *steps: str, name: str = "plan.ltp") -> str:
        """Write a plan of these lines and return its name."""
        return self.write(name, "\n".join(["# ltp: 1", "PLAN_START", *steps, "PLAN_END", ""]))

    def __call__(self, *line: str, stdin: str | bytes | None = None) -> Result:
        """Run a command line in this process."""
        return CliRunner().invoke(main, list(line), input=stdin)

    def run(self, *steps: str, code: int = 0) -> None:
        """Run a plan of these lines as r1 and expect an exit status."""
        assert self("run", self.plan(*steps), "--tools", self.tools, "--run-id", "r1").exit_code == code

    def json(self, *line: str, stdin: str | None = None) -> Any:
        """Run a command line with --json and return its parsed output."""
        result = self(*line, "--json", stdin=stdin)
        return json.loads(result.stdout)

    def spawn(
        self, *line: str, prefix: str = "", imports: bool = False, **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command line in its own process, which `imports` callsheet itself or is a fork.

        `prefix` is Python code that runs before.
        """
        code = f"{_SIGNALS}\n{prefix}\nfrom callsheet.apps.cli.main import main\nmain()"
        command = [sys.executable, "-c", code, *line]
        usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder}
        start = subprocess.Popen if imports else forked.Popen
        return start(command, text=True, env=dict(os.environ), **usual | options)

    def shell(self, *line: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command line in its own process to its end; options as those of `spawn`."""
        with self.spawn(*line, **options) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(line, process.returncode, out, err)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A user's machine."""
    made = Machine(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    monkeypatch.setenv("CALLSHEET_JOURNAL", str(made.journal))
    monkeypatch.delenv("CALLSHEET_MCP_CONFIG", raising=False)
    return made


@pytest.fixture
def wait_for() -> Callable[[Path], None]:
    """Waits until a file exists."""

    def wait(path: Path) -> None:
        import time

        deadline = time.monotonic() + 60
        while not path.exists():
            if time.monotonic() > deadline:
                raise AssertionError(f"{path} did not appear")
            time.sleep(0.02)

    return wait


@pytest.fixture
def with_server(machine: Machine) -> Machine:
    """The machine with a project configuration of one working and one failing server."""
    machine.write("server.py", SERVER)
    servers = {
        "hall": {"command": sys.executable, "args": [str(machine.folder / "server.py")]},
        "broken": {"command": "no-such-program"},
    }
    machine.write(".mcp.json", json.dumps({"mcpServers": servers}))
    return machine
