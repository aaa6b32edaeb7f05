"""A program that runs the plan of tests/runtime/crashing.py on a disk that fails from its n-th write on.

Arguments: a folder, the name of the error, the durability, `on` if the disk stays broken or `once` if a
single write fails, and n to use each n-th write. It prints figures and problems.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.crash.disks.faulty import NOT_OFFERED, Fault, Life, is_offered, live
from tests.crash.worlds import World, judge
from tests.runtime import crashing

from callsheet.diagnostics import CallsheetError
from callsheet.machine import Decision, Result
from callsheet.machine.notes import Note
from callsheet.runtime import driving, recording, runs
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.launch import Watch
from callsheet.store import Durability, Journal
from callsheet.store.replay import fold

_DONE, _STOPPED = 0, 1


class Sweep:
    """One sweep, and what was found."""

    def __init__(self, folder: Path, error: int, durability: Durability, most: int) -> None:
        self._folder = folder
        self._error = error
        self._durability = durability
        self._most = most
        self.codes = Counter[str]()
        self.figures = Counter[str]()
        self.problems: list[str] = []
        recording._PAUSE = 0.001  # pyright: ignore[reportPrivateUsage] - a broken disk is tried often, and
        patience = 0.0 if most > 1 else 5.0  # given up at once where it stays broken
        hasty = partial(recording.JournalRecorder, patience=patience)
        runs.JournalRecorder = driving.JournalRecorder = hasty  # type: ignore[misc]
        crashing.PAUSE = 0.0  # a call still lets the others have their turn
        whole = crashing.start((self._world("whole")).journal, self._log("whole"), _never, durability)
        assert whole.result is not None
        self._expected: Result = whole.result

    def run(self, every: int) -> None:
        """Sweep over the writes of a run."""
        for first in range(0, 10_000, every):
            world = self._world(f"k{first}")
            before = len(self.problems)
            if not self._trial(world, Fault(self._error, first, self._most), f"write {first}"):
                return
            self.figures["trials"] += 1
            if len(self.problems) > before:
                self.figures["wrong"] += 1

    def _trial(self, world: World, fault: Fault, name: str) -> bool:
        notes = world.folder / "notes"
        notes.touch()
        life = self._live(world, fault, partial(_start, notes, self._durability), name)
        if life.writes <= fault.first:
            return False
        made = world.effects
        if not self._story(world).startswith(notes.read_text()):
            self.problems.append(f"{name}: what was told is not what the journal has")
        if fault.most > 1:
            self._resume_meanwhile(world, name)
            if world.effects != made:
                self.problems.append(f"{name}: calls were made on a broken disk")
        try:
            self._finish(world, made)
        except Exception:
            self.problems.append(f"{name}: {traceback.format_exc(limit=-3)}")
        return True

    def _story(self, world: World) -> str:
        """The events in the journal."""
        notes: list[Note] = []
        with Journal.open(world.journal, self._durability) as journal:
            if journal.runs():
                fold(crashing.plan_of(crashing.PLAN), journal.events("run"), journal.plan_of, notes.append)
        return "".join(map(_line, notes))

    def _resume_meanwhile(self, world: World, name: str) -> None:
        """Try to resume the run while nothing can be written."""
        take_up = partial(crashing.resume, in_doubt=Decision.RETRY, durability=self._durability)
        self._live(world, Fault(self._error, 0), take_up, f"{name}, resumed")

    def _finish(self, world: World, made: Counter[str]) -> None:
        """Resume the run on an intact disk; a run that never started has made no calls."""
        with Journal.open(world.journal, self._durability) as journal:
            is_there = bool(journal.runs())
        if is_there:
            judge(world, self._expected)
            self.figures["finished"] += 1
            return
        assert made == Counter()
        result = crashing.start(world.journal, world.log, _never, self._durability).result
        assert repr(result) == repr(self._expected)
        self.figures["begun again"] += 1

    def _live(self, world: World, fault: Fault, work: Callable[..., RunOutcome], name: str) -> Life:
        told = world.folder / "told"
        told.unlink(missing_ok=True)
        life = live(
            partial(_tell, partial(work, world.journal, world.log, _never), told), world.journal, fault
        )
        status = os.waitstatus_to_exitcode(life.status)
        if status == _STOPPED:
            self.figures["stopped"] += 1
            self.codes[told.read_text().partition("\n")[0]] += 1
        elif status != _DONE:
            what = told.read_text() if told.exists() else ""
            self.problems.append(f"{name}: ended with {status}: {what}")
        return life

    def _world(self, name: str) -> World:
        world = World(self._folder / name)
        world.durability = self._durability
        return world

    def _log(self, name: str) -> Path:
        return self._folder / name / "effects"


def _start(notes: Path, durability: Durability, path: Path, log: Path, die: crashing.Die) -> RunOutcome:
    """Start a run whose notes are written to a file as they are emitted."""
    with notes.open("w") as file:
        watch = Watch(observer=lambda note: file.write(_line(note)))
        return crashing.start(path, log, die, durability, watch)


def _line(note: Note) -> str:
    return f"{note.kind} {note.step} {note.detail}\n"


def _never(place: str) -> None:
    """Processes do not kill themselves here."""


def _tell(work: Callable[[], RunOutcome], told: Path) -> int:
    """Run and record the failure; return the exit status."""
    try:
        work()
    except CallsheetError as error:
        (diagnostic, *_) = error.diagnostics
        told.write_text(f"{diagnostic.code}\n{diagnostic.message}")
        return _STOPPED
    except BaseException:
        told.write_text(traceback.format_exc())
        return 98
    return _DONE


def main() -> None:
    """Sweep and print."""
    if not is_offered():
        sys.exit(NOT_OFFERED)
    folder, error, durability, lasts, every = sys.argv[1:]
    most = 1 if lasts == "once" else 1 << 40
    sweep = Sweep(Path(folder), getattr(errno, error), Durability(durability), most)
    sweep.run(int(every))
    print(json.dumps({"codes": sweep.codes, "figures": sweep.figures, "problems": sweep.problems}))


if __name__ == "__main__":
    main()
