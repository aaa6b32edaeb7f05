"""A run whose process is killed, at chosen and at random points, reaches the same end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests import forked
from tests.runtime import crashing

from callsheet.machine import Decision, Result
from callsheet.machine.keys import parse_key
from callsheet.store import EventType, Journal, JournalError

pytestmark = pytest.mark.crash
ROOT = Path(__file__).parents[2]
WRITES = ("S3", "S4", "S8")


class World:
    """The files of one run: its journal, and the effects of its calls."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.journal = folder / "journal.db"
        self.log = folder / "effects"
        self.log.touch()

    @property
    def effects(self) -> Counter[str]:
        return Counter(self.log.read_text().split())

    def wait_for_effects(self) -> None:
        deadline = time.monotonic() + 60
        while not self.effects:
            assert time.monotonic() < deadline, "the process did nothing"
            time.sleep(0.001)

    def keys(self, *types: EventType) -> set[str]:
        with Journal.open(self.journal) as journal:
            return {e.key for e in journal.events("run") if e.type in types and e.key}

    def process(self, what: str, where: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.runtime.crashing", self.journal, self.log, what, where]
        return forked.Popen([str(c) for c in command], cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def killed(self, what: str, where: str) -> bool:
        """Continue the run in a process; return whether it died there, and not at its end."""
        with self.process(what, where) as process:
            return process.wait(timeout=60) == -signal.SIGKILL


def uninterrupted(folder: Path) -> Result:
    world = World(folder / "uninterrupted")
    result = crashing.start(world.journal, world.log, lambda place: None).result
    assert result is not None
    return result


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return uninterrupted(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


def quietly(place: str) -> None:
    """Die nowhere."""


def finish_and_judge(world: World, expected: Result) -> None:
    """Resume to the end, deciding to retry calls in doubt, and compare the run with the oracle."""
    settled = world.keys(EventType.OK, EventType.ERR)
    before = world.effects
    asked = crashing.resume(world.journal, world.log, quietly, None)
    doubtful = {call.key for call in asked.in_doubt}
    assert (asked.result is None) == bool(doubtful)
    if doubtful:
        assert world.effects == before
        assert all(parse_key(key).step in WRITES for key in doubtful)
        assert doubtful.isdisjoint(settled)
        asked = crashing.resume(world.journal, world.log, quietly, Decision.RETRY)
    assert asked.result == expected
    assert repr(asked.result) == repr(expected)
    for key in settled:
        assert world.effects[key] == before[key]
    decided = world.keys(EventType.DECIDED)
    for key, times in world.effects.items():
        assert times == 1 or key in decided or parse_key(key).step not in WRITES
    with Journal.open(world.journal) as journal:
        assert journal.verify("run") is None


POINTS = "before:1 after:4 before:9 after:10 after:13 after:16 unwritten:2 written:7 written:12 ended:1"


@pytest.mark.parametrize("where", POINTS.split())
def test_run_killed_at_point_reaches_same_end(world: World, expected: Result, where: str) -> None:
    """The oracle: same answer and variables, no finished call again, no write twice unasked."""
    assert world.killed("start", where)
    finish_and_judge(world, expected)


def test_run_killed_repeatedly_reaches_its_end(world: World, expected: Result) -> None:
    for what, where in [("start", "after:6"), ("resume", "before:3"), ("resume", "written:4")]:
        assert world.killed(what, where)
    finish_and_judge(world, expected)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_run_killed_at_any_moment_reaches_its_end(world: World, expected: Result, seed: int) -> None:
    with world.process("start", "never") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        world.wait_for_effects()
        time.sleep(random.Random(seed).random() * 0.1)
        process.kill()
    finish_and_judge(world, expected)


def test_unanswered_write_is_in_doubt_with_key_and_arguments(world: World) -> None:
    assert world.killed("start", "after:13")
    outcome = crashing.resume(world.journal, world.log, quietly, None)
    assert outcome.result is None
    unsettled = world.effects.keys() - world.keys(EventType.OK, EventType.ERR)
    assert {call.key for call in outcome.in_doubt} >= {k for k in unsettled if parse_key(k).step in WRITES}
    for call in outcome.in_doubt:
        assert (call.tool, list(call.args)) == ("WRITE", ["x"])


@pytest.mark.parametrize(("decision", "again"), [(Decision.SKIP, 0), (Decision.FAIL, 0), (Decision.RETRY, 1)])
def test_decision_about_write_in_doubt_is_executed(world: World, decision: Decision, again: int) -> None:
    """Skip and fail do not repeat the attempt of the step; retry makes one."""
    assert world.killed("start", "after:13")
    doubtful = crashing.resume(world.journal, world.log, quietly, None).in_doubt
    before = world.effects
    outcome = crashing.resume(world.journal, world.log, quietly, decision)
    assert outcome.result is not None
    assert doubtful
    for call in doubtful:
        assert world.effects[call.key] == before[call.key] + again


def test_run_owned_by_another_process_is_refused(world: World, expected: Result) -> None:
    with world.process("start", "never") as process:
        assert process.stdout is not None
        process.stdout.readline()
        world.wait_for_effects()
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(JournalError, match="JRN004"):
                crashing.resume(world.journal, world.log, quietly, None)
        finally:
            process.send_signal(signal.SIGCONT)
        assert process.wait(timeout=60) == 0
    again = crashing.resume(world.journal, world.log, quietly, None)
    assert again.result == expected
