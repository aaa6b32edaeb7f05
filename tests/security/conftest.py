"""Fixtures: a misbehaving server as a process, and a user's machine that has it configured."""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.security.world import World

from callsheet.apps.cli.main import main
from callsheet.ports.mcp import McpServerConfig, StdioServer
from callsheet.store import Journal

SERVERS = Path(__file__).parent / "servers"
LOOK = {
    "name": "look",
    "description": "Looks a thing up.",
    "inputSchema": {"type": "object", "properties": {"thing": {"type": "string"}, "n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}
SEND = {"name": "send", "description": "Sends a text.", "inputSchema": {"type": "object", "properties": {}}}


class Changeling:
    """A server whose declarations and answers can be changed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.json"
        self.script = str(SERVERS / "changeling.py")
        self.state: dict[str, Any] = {"tools": copy.deepcopy([LOOK, SEND]), "answers": {}}
        self.write()

    def write(self) -> None:
        self.path.write_text(json.dumps(self.state))

    def declare(self, *tools: Any, **more: Any) -> None:
        """Declare these tools from now on."""
        self.state |= {"tools": list(tools), **more}
        self.write()

    def answer(self, **texts: Any) -> None:
        """Answer calls of these tools so from now on."""
        self.state["answers"] |= texts
        self.write()

    @property
    def calls(self) -> list[str]:
        """The names of the tools that were called, in order."""
        noted = Path(f"{self.path}.calls")
        return [line.split()[0] for line in noted.read_text().splitlines()] if noted.exists() else []

    @property
    def arguments(self) -> list[Any]:
        """The arguments of these calls."""
        return [
            json.loads(line.partition(" ")[2]) for line in Path(f"{self.path}.calls").read_text().splitlines()
        ]

    @property
    def command(self) -> dict[str, Any]:
        """The server as named in a configuration file."""
        return {"command": sys.executable, "args": [self.script, str(self.path)]}

    def config(self, **more: Any) -> McpServerConfig:
        """The server as configured in the library."""
        return McpServerConfig(
            "hall", StdioServer(sys.executable, (self.script, str(self.path))), timeout=60, **more
        )


class User:
    """A folder of a project with the changeling servers, and a command line in it."""

    def __init__(self, folder: Path, changeling: Changeling) -> None:
        self.folder = folder
        self.changeling = changeling
        self.pins = folder / "home" / "config" / "callsheet" / "mcp-pins.json"
        self.configure()

    def configure(self, **extension: Any) -> None:
        """Write the configuration, with the settings of the operator."""
        server = {**self.changeling.command, **({"callsheet": extension} if extension else {})}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hall": server}}))

    def plan(self, *steps: str) -> str:
        """Write a plan of these steps and return its name."""
        (self.folder / "plan.ltp").write_text("\n".join(["# ltp: 1", "PLAN_START", *steps, "PLAN_END", ""]))
        return "plan.ltp"

    def __call__(self, *line: str, typed: str | None = None) -> Result:
        """Run a command line, with the servers of the project if the command takes them."""
        takes = line[0] in ("run", "check", "tools") or line[:2] in (("trust", "diff"), ("trust", "approve"))
        return CliRunner().invoke(
            main, [*line, *(["--mcp-config", "mcp.json"] if takes else [])], input=typed
        )

    def json(self, *line: str) -> Any:
        """Run a command line with --json and return its parsed output."""
        return json.loads(self(*line, "--json").stdout)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the disk: policies refuse all that is in /dev, where other tests have theirs."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder).resolve()


@pytest.fixture
def changeling(tmp_path: Path) -> Changeling:
    """A server that can be made to change."""
    return Changeling(tmp_path)


@pytest.fixture
def user(tmp_path: Path, changeling: Changeling, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user of that server."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "HOME": "home",
        "XDG_DATA_HOME": "home/data",
        "XDG_CONFIG_HOME": "home/config",
    }.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    for name in list(os.environ):
        if name.startswith("CALLSHEET_"):
            monkeypatch.delenv(name)
    return User(tmp_path, changeling)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "work"
    folder.mkdir()
    with Journal.open(tmp_path / "journal.db") as journal:
        yield World(folder, journal)
