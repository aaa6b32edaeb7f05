"""Fixtures: a journal in a real file, and child processes that write it too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callsheet.ir import Call, Literal, Output, Plan, Respond, Step
from callsheet.store import Durability, Journal

_PRELUDE = """
import os, signal, sys
from pathlib import Path
from callsheet.ir import Plan, Respond, Step
from callsheet.store import *
PLAN = Plan((Step("S1", Respond(())),))
PATH = Path(sys.argv[1])
"""

Spawn = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.db"


@pytest.fixture
def plan() -> Plan:
    read = Call("READ_FILE", named=(("path", Literal("a.txt")),))
    return Plan(
        (Step("S1", read, output=Output("text")), Step("S2", Respond((Literal("done"),)))),
        id="reading",
        title="Read a file",
    )


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with Journal.open(path, Durability.NORMAL) as journal:
        yield journal


@pytest.fixture
def spawn(path: Path) -> Iterator[Spawn]:
    """Starts Python on the journal in another process; PLAN and PATH are defined there."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-u", "-c", _PRELUDE + code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
