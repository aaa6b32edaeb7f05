"""An agent whose process is killed continues at the turn that it had reached."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests import forked
from tests.crash.agent_run import runtime

from callsheet import RunStatus
from callsheet.machine import TookPlace
from callsheet.store import EventType, Journal

pytestmark = pytest.mark.crash
ROOT = Path(__file__).parents[2]
POINTS = ["before:1", "after:2", "after:3", "before:4", "after:4", "after:5", "after:6", "after:7"]


@pytest.mark.parametrize("where", POINTS)
def test_killed_agent_continues_its_turn_without_repeating_calls(tmp_path: Path, where: str) -> None:
    """Effects: a question, a price, a question, an order, a question, an order, a question."""
    path, log = tmp_path / "journal.db", tmp_path / "effects"
    log.touch()
    command = [sys.executable, "-m", "tests.crash.agent_run", str(path), str(log), where]
    assert forked.run(command, cwd=ROOT, timeout=120, check=False).returncode == -signal.SIGKILL
    with Journal.open(path) as journal:
        settled = {row.key for row in journal.events("r") if row.type is EventType.OK}
    before = log.read_text().splitlines()
    result = runtime(path, log).resume_sync("r")
    if where in ("before:4", "after:4", "after:6"):
        turn = 2 if where.endswith("4") else 3
        assert [call.key for call in result.in_doubt] == [f"S1.0.1/t{turn}c1"]
        assert log.read_text().splitlines() == before, "what is in doubt is not made again unasked"
        result = runtime(path, log).resume_sync("r", in_doubt=TookPlace("ordered"))
    assert (result.status, result.response) == (RunStatus.DONE, "bought")
    effects = Counter(log.read_text().splitlines())
    assert effects["order pen"] == (where != "before:4")
    assert effects["order ink"] == 1
    for key in settled:
        turn = int(str(key).partition("/t")[2][0])
        assert effects[f"asked {turn}"] == 1
    with Journal.open(path) as journal:
        assert journal.verify("r") is None
