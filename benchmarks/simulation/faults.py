"""The faults of a seed: which come to which process, at which of its points."""

from __future__ import annotations

from collections import Counter
from random import Random

from benchmarks.simulation.course import RUN, Course
from benchmarks.simulation.process import Process, outside_loops
from benchmarks.simulation.server import TIMEOUT

from callsheet.store import Durability, Journal

_MIXTURES = (
    ("kill",),
    ("kill", "power"),
    ("power",),
    ("kill", "freeze", "takeover"),
    ("kill", "disk", "power", "freeze", "takeover", "clock"),
)
_PARTS = (0.2, 1.0, 1.0)
"""How far into a run, by its points, a process may come before its fault."""
_TAKING_OVER = ("written a spare file", "remove a room file")
"""Points between getting a run's lock and owning the run."""
_PERSON = 12
"""The points of a person's process at which it may die."""


class Faults:
    """Gives the processes of a course their faults, a few in all; `points` are those of a run without.

    Some of them come at any point, most at one of a kind that is as likely as each other kind; a process is
    stopped and replaced mostly while it makes calls, or while it takes over the run.
    """

    def __init__(self, course: Course, points: Counter[str]) -> None:
        self._course, self._points = course, points
        self._chance = chance = Random(f"{course.seed} faults")
        self._replacing = Random(f"{course.seed} replacing")
        self._left = chance.randint(1, 4)
        self._kinds = chance.choice(_MIXTURES)
        course.has_faults = True
        course.world.has_trouble = chance.random() < 0.7
        course.on_spawn = self._visit

    def _visit(self, process: Process) -> None:
        """Decide what will happen to a process."""
        chance, is_person = self._chance, process.name == "person"
        if self._left <= 0 or (is_person and chance.random() < 0.7):
            return
        self._left -= 1
        part = chance.choice(_PARTS)
        kind = "kill" if is_person else chance.choice(self._kinds)

        def happens() -> None:
            self._happen(kind, process)

        if is_person:
            process.faults[chance.randint(1, _PERSON)] = happens
        elif "takeover" in self._kinds and self._course.owners and self._replacing.random() < 0.3:
            process.traps[self._replacing.choice(_TAKING_OVER), 1] = lambda: self._replace(process)
        elif self._points and chance.random() < 0.6:
            within = [one for one in sorted(self._points) if one.startswith("call ")]
            is_within = kind in ("freeze", "takeover") and within and chance.random() < 0.6
            where = chance.choice(within if is_within else sorted(self._points))
            process.traps[where, chance.randint(1, max(1, int(self._points[where] * part)))] = happens
        else:
            process.faults[chance.randint(1, max(2, int(self._points.total() * part)))] = happens

    def _replace(self, process: Process) -> None:
        """Another takes over the run shortly before the process does, which goes on soon after."""
        self._course.report.faults["replacement"] += 1
        self._freeze(process, self._replacing.choice((0.0005, 0.01, 0.1)), takes_over=True)

    def _happen(self, kind: str, process: Process) -> None:
        chance = self._chance
        self._course.report.faults[kind] += 1
        match kind:
            case "kill":
                self._course.say(f"{process.name} is killed")
                process.end()
            case "power":
                self._lose_power()
            case "disk":
                self._fail_disk(chance.choice((0.3, 2.0, 20.0)))
            case "clock":
                self._set_clock(chance.choice((-86_400.0, -5.0, 5.0, 86_400.0)))
            case _:
                self._freeze(process, chance.choice((0.01, 0.1, 1.0, 30.0)), takes_over=kind == "takeover")

    def _freeze(self, process: Process, seconds: float, *, takes_over: bool) -> None:
        """The process stops for a while, and others go on; somebody may take its run away from it."""
        course, kernel = self._course, self._course.kernel
        until = kernel.now + seconds
        course.say(
            f"{process.name} stops for {seconds:g} s{', its lock file is removed' if takes_over else ''}"
        )
        if seconds >= TIMEOUT and course.settings.on_server and course.world.under_way[process]:
            course.world.has_failed = True  # when it goes on, it may take the server for lost
        process.is_stopped = True
        with kernel.running(None), outside_loops():
            if takes_over:
                (course.path.parent / f"{course.path.name}.runs" / f"{RUN}.lock").unlink(missing_ok=True)
            other = course.start_owner()
            kernel.run_until(until)
            kernel.now = max(kernel.now, until)
            if other.is_done:
                course.outcome_of(other)
                other.end()
            elif self._chance.random() < 0.3:
                other.end()
        process.is_stopped = False
        course.say(f"{process.name} goes on")
        if self._chance.random() < 0.3:
            process.faults[process.points + self._chance.randint(1, 8)] = lambda: self._happen(
                "kill", process
            )

    def _lose_power(self) -> None:
        """All processes end, and the disk keeps what it has."""
        course, kernel = self._course, self._course.kernel
        course.say("the power goes")
        with kernel.running(None):
            for process in kernel.processes:
                process.end()
            kernel.disk.lose_power()
            kernel.fails_until = 0.0
            if course.settings.durability is not Durability.FULL:
                self._forget_lost()

    def _forget_lost(self) -> None:
        """Without synced commits the last events may be gone; those before them are not."""
        course, recorded = self._course, self._course.world.recorded
        with Journal.open_to_read(course.path) as journal:
            last = max((one.seq for one in journal.events(RUN)), default=0) if journal.runs() else 0
        course.has_lost |= any(seq > last for seq in recorded.durable)
        recorded.only(last)
        course.world.forgive(last)

    def _fail_disk(self, seconds: float) -> None:
        self._course.say(f"writes fail for {seconds:g} s")
        self._course.kernel.fails_until = self._course.kernel.now + seconds

    def _set_clock(self, seconds: float) -> None:
        self._course.say(f"the wall clock is set by {seconds:+g} s")
        self._course.kernel.wall_shift += seconds
