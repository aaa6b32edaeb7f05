"""The demonstration and the examples work as the README says."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests import forked

from callsheet import Plan
from callsheet.apps.demo import sample
from callsheet.apps.demo.sample import plan_text

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.ltp"))


def callsheet(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "callsheet", *arguments]
    return forked.run(command, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.mark.servers
@pytest.mark.usefixtures("demonstration_servers")
def test_demo_draws_checks_runs_and_explains_plan(tmp_path: Path) -> None:
    places = ("--dir", str(tmp_path / "demo"), "--journal", str(tmp_path / "journal.db"))
    done = callsheet("demo", *places, CALLSHEET_PINS=str(tmp_path / "pins.json"))
    assert done.returncode == 0, done.stderr
    for command in ("graph", "check", "run", "show"):
        assert f"$ callsheet {command}" in done.stderr
    assert "v2.0 is held" in done.stdout
    assert "chain verified" in done.stdout
    assert str(tmp_path / "journal.db") in done.stderr
    with closing(sqlite3.connect(tmp_path / "demo" / "workspace" / "tickets.db")) as database:
        assert database.execute("SELECT text FROM decisions").fetchall() == [
            ("v2.0 is held: a crash is open",)
        ]
    assert "crash when a ticket has no title" in (tmp_path / "demo" / "workspace" / "report.md").read_text()


@pytest.mark.servers
@pytest.mark.usefixtures("demonstration_servers")
def test_demo_can_be_prepared_without_run(tmp_path: Path) -> None:
    done = callsheet("demo", "--prepare", "--dir", str(tmp_path), CALLSHEET_PINS=str(tmp_path / "pins.json"))
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["graph", "check", "run", "show"]
    assert not (tmp_path / "workspace" / "report.md").exists()


@pytest.mark.servers
def test_goal_is_compiled_by_model_and_runs_on_demo_servers(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "def ask(messages):\n"
        "    assert 'tickets (id, title, state)' in messages[-1]['content']\n"
        "    return 'S1: @list_tables > $v1\\nS2: @respond (\"Tables:\", $v1)'\n"
    )
    named = ("--goal", "Which tables are there?", "--model", f"{tmp_path / 'model.py'}:ask")
    places = ("--dir", str(tmp_path / "demo"), "--journal", str(tmp_path / "journal.db"))
    done = callsheet("demo", *named, *places)
    assert done.returncode == 0, done.stderr
    for command in ("compile", "graph", "run", "show"):
        assert f"$ callsheet {command}" in done.stderr
    assert "can still be wrong" in done.stderr
    assert "decisions" in done.stdout
    assert "chain verified" in done.stdout


def test_goal_without_model_is_refused_before_setup(tmp_path: Path) -> None:
    nowhere = {"CALLSHEET_MODELS": str(tmp_path / "none"), "CALLSHEET_MODEL": ""}
    done = callsheet("demo", "--goal", "--dir", str(tmp_path / "demo"), **nowhere)
    assert done.returncode == 2
    assert "CMP001" in done.stderr
    assert "callsheet models get" in done.stderr
    assert not (tmp_path / "demo").exists()


def test_demo_plan_equals_example() -> None:
    assert (ROOT / "examples" / "release.ltp").read_text(encoding="utf-8") == plan_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert Plan.parse(text).to_ltp() == text


def test_readme_shows_inbox_example_diagram_and_answer(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = ROOT / "examples" / "inbox.ltp"
    shown, *_ = re.findall(r"```ltp\n(.*?)```", readme, re.DOTALL)
    assert shown == example.read_text(encoding="utf-8")
    (picture,) = re.findall(r"```mermaid\n(.*?)```", readme, re.DOTALL)
    assert picture == callsheet("graph", "--format", "mermaid", str(example)).stdout
    tools = ROOT / "examples" / "inbox_tools.py"
    done = callsheet("run", str(example), "--tools", str(tools), "--journal", str(tmp_path / "journal.db"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in readme


def test_abandoned_server_installation_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, told = tmp_path / "python", tmp_path / "pid"
    slow.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {told}.new\nmv {told}.new {told}\nwait\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(sample, "REQUIREMENTS", {"one": ("one",)})
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(sample.install_servers(tmp_path / "servers", lambda text: None), 2))
    state = Path(f"/proc/{told.read_text().strip()}/stat")
    deadline = time.monotonic() + 30
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "what it has started goes on"
        time.sleep(0.01)
