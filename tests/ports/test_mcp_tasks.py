"""Calls that become tasks of their servers: their results, questions and failures, also after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests import forked

from callsheet.store import EventType, Journal

SERVER = Path(__file__).parent / "task_server.py"
OLDER = Path(__file__).parent / "older_task_server.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("")
    configure(tmp_path, SERVER)
    return tmp_path


def configure(folder: Path, server: Path) -> None:
    servers = {"builder": forked.server(server, folder)}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


def start(folder: Path, *words: str, name: str = "home") -> subprocess.Popen[str]:
    plan = f'PLAN_START\nS1: @BUILD (name="{name}") > $it\nS2: @RESPOND ("$it")\nPLAN_END\n'
    (folder / "plan.ltp").write_text(plan)
    line = [sys.executable, "-m", "callsheet", *(words or ("run", "plan.ltp", "--mcp-config", "mcp.json"))]
    return forked.Popen(
        [*line, "--journal", "j.db"],
        cwd=folder,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def start_gate(folder: Path) -> subprocess.Popen[str]:
    """A gate of an older client, which has called the tool and waits for its result."""
    line = [sys.executable, "-m", "callsheet", "gate", "--mcp-config", "mcp.json", "--journal", "j.db"]
    gate = forked.Popen(line, cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client = {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": "2025-11-25", **client}),
        ("tools/call", {"name": "build", "arguments": {"name": "home"}}),
    ]
    assert gate.stdin is not None
    assert gate.stdout is not None
    for number, (method, params) in enumerate(asked):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        gate.stdin.write(json.dumps(request) + "\n")
        gate.stdin.flush()
        if number == 0:
            gate.stdout.readline()
            gate.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    return gate


def until(place: Path, text: str) -> None:
    end = time.monotonic() + 30
    while not (place.exists() and text in place.read_text()):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_call_waits_for_its_task_and_answers_what_it_asks(folder: Path) -> None:
    (folder / "go").touch()
    run = start(folder, name="asks")
    end = time.monotonic() + 30
    while forked.run(
        [sys.executable, "-m", "callsheet", "approve", "last", "--answer", "{}", "--journal", "j.db"],
        cwd=folder,
        capture_output=True,
        check=False,
    ).returncode:
        assert time.monotonic() < end
    out, _ = run.communicate(timeout=30)
    assert "built asks" in out
    assert (folder / "log").read_text() == ("began asks\nheard {'q': {'action': 'accept', 'content': {}}}\n")


@pytest.mark.parametrize("name", ["patient", "vague", "hasty"])
def test_server_says_how_often_it_is_asked_about_a_task(folder: Path, name: str) -> None:
    (folder / "go").touch()
    servers = {"builder": {**forked.server(SERVER, folder), "timeout": 2}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    out, _ = start(folder, name=name).communicate(timeout=60)
    assert f"built {name}" in out
    assert (folder / "log").read_text() == f"began {name}\nasked about {name}\n"


def test_failed_task_fails_its_call(folder: Path) -> None:
    out, _ = start(folder, name="breaks").communicate(timeout=60)
    assert "no disk" in out


@pytest.mark.parametrize(
    ("server", "begun", "how"),
    [(SERVER, start, signal.SIGTERM), (SERVER, start, signal.SIGKILL), (OLDER, start_gate, signal.SIGKILL)],
    ids=["stopped run", "killed run", "killed gate, 2025-11-25"],
)
def test_task_goes_on_in_another_process_and_is_not_begun_again(
    folder: Path, server: Path, begun: Callable[[Path], subprocess.Popen[str]], how: signal.Signals
) -> None:
    configure(folder, server)
    run = begun(folder)
    until(folder / "log", "began home")
    end = time.monotonic() + 20
    while True:
        assert time.monotonic() < end
        if (folder / "j.db").exists():
            with Journal.open(folder / "j.db") as journal:
                found = journal.runs()
                rows = journal.events(found[0].run_id) if found else ()
                if any(row.type is EventType.SERVER_TASK for row in rows):
                    break
        time.sleep(0.02)
    os.kill(run.pid, how)
    run.communicate()
    (folder / "go").touch()
    out, _ = start(folder, "resume", "last").communicate(timeout=60)
    assert "ok" in out
    with Journal.open(folder / "j.db") as journal:
        outcomes = [e.body for e in journal.events(journal.find_run("last").run_id) if e.type is EventType.OK]
    assert {"value": "built home"} in outcomes
    assert (folder / "log").read_text() == "began home\n"


def test_task_that_its_server_has_forgotten_leaves_its_call_in_doubt(folder: Path) -> None:
    run = start(folder)
    until(folder / "log", "began home")
    (folder / "task-home").unlink()
    out, _ = run.communicate(timeout=60)
    assert "--in-doubt retry" in out
    assert "there is no such task" in out


@pytest.mark.parametrize(
    ("server", "name", "said"),
    [
        (SERVER, "odd", "a state of the task that there is not: 'sleeping'"),
        (SERVER, "begs", "List roots not supported"),
        (OLDER, "odd", "answered with an invalid result"),
        (OLDER, "lost", "does not tell the result of the task: there is no tasks/result here"),
    ],
)
def test_task_that_cannot_go_on_ends_its_call(folder: Path, server: Path, name: str, said: str) -> None:
    configure(folder, server)
    out, _ = start(folder, name=name).communicate(timeout=60)
    assert said in out
    assert ("--in-doubt retry" in out) == (name != "begs")
    assert ("cancelled begs" in (folder / "log").read_text()) == (name == "begs")
