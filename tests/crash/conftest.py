"""Fixtures: the sweep of the crash benchmark with small numbers, and commands on its plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked

_BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
_COMMAND = (sys.executable, "-c", "import sys; from callsheet.apps.cli.main import main; sys.exit(main())")

Sweep = Callable[..., "dict[str, int]"]
Spawn = Callable[..., "subprocess.Popen[str]"]


def crash_tools() -> Path:
    """Tools that write a line to `calls.log` for every call."""
    return _BENCHMARKS / "crashes" / "world_tools.py"


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """Runs `benchmarks/crash.py` and returns its figures; fails with its output if anything was wrong."""

    def run(*arguments: str) -> dict[str, int]:
        out = tmp_path / "figures.json"
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        command = [sys.executable, _BENCHMARKS / "crash.py", "--verbose", "--out", out, *arguments]
        done = forked.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        figures: dict[str, Any] = json.loads(out.read_text())
        assert (figures["finished_again"], figures["lost"], figures["orphans"]) == (0, 0, 0)
        assert figures["equal"] == figures["trials"] > 0
        return figures

    return run


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Starts `callsheet ARGUMENTS` on the journal of this test; `pause` slows its tools down."""
    children: list[subprocess.Popen[str]] = []

    def start(*arguments: str, pause: float = 0.0) -> subprocess.Popen[str]:
        env = {**os.environ, "CALLSHEET_CRASH_WORLD": str(tmp_path), "CALLSHEET_CRASH_PAUSE": str(pause)}
        child = forked.Popen(
            [*_COMMAND, *arguments, "--journal", str(tmp_path / "journal.db"), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=env,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
