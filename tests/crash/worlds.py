"""The files of runs that are damaged and resumed, and the conditions that they must meet.

The oracle: a run that can be resumed reaches the end that it would have had, no finished call is repeated,
and no write is repeated without a decision.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests import forked
from tests.runtime import crashing

from callsheet.machine import Decision, Result
from callsheet.machine.keys import parse_key
from callsheet.runtime import runs
from callsheet.store import Durability, EventType, Journal

ROOT = Path(__file__).parents[2]
WRITES = ("S3", "S4", "S8")


class World:
    """The files of one run, and the effects of its calls."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.journal = folder / "journal.db"
        self.log = folder / "effects"
        self.log.touch()
        self.durability = Durability.FULL

    @property
    def wal(self) -> Path:
        return self.folder / "journal.db-wal"

    @property
    def effects(self) -> Counter[str]:
        return Counter(self.log.read_text().split())

    def copy(self, name: str) -> World:
        """A copy of the files in a neighbouring folder."""
        other = World(self.folder.with_name(name))
        for path in (self.journal, self.wal, self.log):
            if path.exists():
                shutil.copy(path, other.folder)
        return other

    def killed(self, where: str) -> World:
        command = [sys.executable, "-m", "tests.runtime.crashing", self.journal, self.log, "start", where]
        forked.run([str(c) for c in command], cwd=ROOT, check=False, timeout=60, stdout=subprocess.DEVNULL)
        return self

    def resume(self, decision: Decision | None = None) -> runs.RunOutcome:
        return crashing.resume(self.journal, self.log, lambda place: None, decision, self.durability)

    def finish(self) -> Result:
        """Resume to the end; calls in doubt are repeated, since these tools are harmless."""
        outcome = self.resume()
        if outcome.result is None:
            outcome = self.resume(Decision.RETRY)
        assert outcome.result is not None
        return outcome.result

    def settled(self) -> set[str]:
        with Journal.open(self.journal) as journal:
            assert journal.verify("run") is None
            kinds = (EventType.OK, EventType.ERR)
            return {event.key or "" for event in journal.events("run") if event.type in kinds}

    def decided(self) -> set[str]:
        with Journal.open(self.journal) as journal:
            return {event.key or "" for event in journal.events("run") if event.type is EventType.DECIDED}


def judge(world: World, expected: Result) -> None:
    """Resume the run to its end and compare it with the oracle."""
    settled, before = world.settled(), world.effects
    assert repr(world.finish()) == repr(expected)
    decided = world.decided()
    for key, times in world.effects.items():
        assert key not in settled or times == before[key]
        assert times == 1 or key in decided or parse_key(key).step not in WRITES
    world.settled()
