"""Fixtures: a journal in a real file, and child processes that write it too."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests import forked

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


def without_index(path: Path, *more: str) -> None:
    """Make the journal one of a version without an index of runs, and without the columns `more`."""
    with closing(sqlite3.connect(path)) as connection:
        for index in ("runs_listed", "runs_unlisted", "runs_by_status", "runs_by_plan"):
            connection.execute(f"DROP INDEX {index}")
        names = ("indexed", "search", "tags", "tokens", "cost", "waits_for", "failed_step", "ended", *more)
        for name in names:
            connection.execute(f"ALTER TABLE runs DROP COLUMN {name}")
        connection.execute("CREATE INDEX runs_by_time ON runs (created)")
        connection.commit()


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
        child = forked.Popen(
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
