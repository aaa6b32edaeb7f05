"""The simulated machine: processes, their clock, and the system calls under the store.

The modules that write a journal's files reach the system through their names `os`, `fcntl`, `mmap` and
`sqlite3`; a `Kernel` puts itself in their place while a simulation runs. Each call that changes something is
a *point*, at which the simulation may end the process, stop it for a while, or turn the power off. Files lie
in memory (`/dev/shm`), with a record of what was synced.
"""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import errno
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.simulation.disk import Disk
from benchmarks.simulation.process import Killed, Process
from benchmarks.simulation.server import ServerProcess
from benchmarks.simulation.system import File, Folders, Locks, Maps, Room, Sqlite, System, kind_of

from callsheet import files
from callsheet.ports.mcp import connection
from callsheet.store import blobs, journal_paths, lock, schema, tail, writer
from callsheet.store.writer import GroupWriter

_EPOCH = 1_790_000_000.0
_TICK = 2e-6
"""Seconds that pass when a clock is read."""
_SHORTEST_WAIT = 1e-6


class Kernel:
    """The machine of one simulation."""

    def __init__(self, folder: Path, chance: Random, on_line: Callable[[str], None]) -> None:
        self.folder = folder
        self.now = 0.0
        self.wall_shift = 0.0
        self.chance = chance
        self.current: Process | None = None
        self.processes: list[Process] = []
        self.disk = Disk(folder, chance)
        self.fails_until = 0.0
        """Until when each write fails."""
        self.say = on_line
        self.errors: list[str] = []
        self._next_file = 1_000_000
        self._kinds: dict[int, str] = {}
        self._unowned: dict[int, int] = {}
        """The open files of nobody: of whoever looks at the machine from outside."""

    # ------------------------------------------------------------ processes and time

    def spawn(self, name: str) -> Process:
        """A new process."""
        process = Process(self, name, 1000 + len(self.processes))
        self.processes.append(process)
        return process

    @contextmanager
    def running(self, process: Process | None) -> Generator[None]:
        """The system calls made inside are those of this process."""
        before, self.current = self.current, process
        try:
            yield
        finally:
            self.current = before

    def monotonic(self) -> float:
        """The clock that nobody sets; reading it takes a moment."""
        self.now += _TICK
        return self.now

    def wall(self) -> float:
        """The wall clock."""
        return _EPOCH + self.wall_shift + self.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass for a process that blocks."""
        self.now += max(seconds, _SHORTEST_WAIT)

    def run_until(self, moment: float) -> bool:
        """Give processes their turns until a moment; False if none has anything left to do."""
        while True:
            due = [
                (at, self.chance.random(), process)
                for process in self.processes
                if (at := process.due()) is not None and at <= moment
            ]
            if not due:
                return self.now >= moment
            at, _, process = min(due, key=lambda one: one[:2])
            self.now = max(self.now, at)
            process.turn()
            if self.now >= moment:
                return True

    def unhandled(self, loop: Any, context: Mapping[str, Any]) -> None:
        """An event loop reports what nobody caught; that of a dead process only what its burial breaks."""
        error = context.get("exception")
        is_dead = any(one.is_dead and one.loop is loop for one in self.processes)
        if not (is_dead or isinstance(error, Killed)):
            self.errors.append(f"{context.get('message')}: {error!r}")

    def point(self, where: str) -> None:
        """A point of the current process, of this kind; raises Killed if that is dead, or dies here."""
        process = self.current
        if process is None:
            return
        if process.is_dead:
            raise Killed
        process.points += 1
        process.passed[where] += 1
        fault = process.faults.get(process.points) or process.traps.get((where, process.passed[where]))
        if fault is not None:
            self.say(f"{process.name}: at its point {process.points}, {where}")
            fault()
        if process.is_dead:
            raise Killed

    def writing(self, where: str) -> None:
        """A point before a write; raises OSError while the disk does not work."""
        self.point(where)
        if self.current is not None and self.now < self.fails_until:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # ------------------------------------------------------------ files

    def register(self, fd: int, path: str) -> int:
        """The number by which the current process knows a descriptor; it is never used again."""
        self._next_file += 1
        self._kinds[self._next_file] = kind_of(path)
        if self.current is not None:
            self.current.files[self._next_file] = fd
        else:
            self._unowned[self._next_file] = fd
        return self._next_file

    def real(self, number: int) -> int:
        """The descriptor behind a number of the current process."""
        process = self.current
        if process is not None and process.is_dead:
            raise Killed
        fd = (self._unowned if process is None else process.files).get(number)
        if fd is None:
            raise OSError(errno.EBADF, f"file {number} is not open here")
        return fd

    def kind(self, number: int) -> str:
        """What kind of file has this number."""
        return self._kinds.get(number, "")

    def forget(self, number: int) -> None:
        """Close the file with this number."""
        process = self.current
        if process is not None and process.is_dead:
            return
        fd = (self._unowned if process is None else process.files).pop(number, None)
        if fd is not None:
            os.close(fd)

    # ------------------------------------------------------------ in place of the system

    @contextmanager
    def in_place(self) -> Generator[None]:
        """While inside, the store's modules call this machine."""
        system, folders = System(self), Folders(self)
        changes: list[tuple[Any, str, Any]] = [
            *((module, "os", system) for module in (tail, blobs, lock, files)),
            (journal_paths, "os", Room()),
            *((module, "fcntl", Locks(self)) for module in (tail, lock)),
            (lock, "_open_locks", weakref.WeakSet()),  # a real fork has no copies of these
            (tail, "mmap", Maps(self)),
            (connection, "ServerProcess", ServerProcess),
            (tail, "open", lambda number, *_, **__: File(self, number, closes=False)),
            (schema, "sqlite3", Sqlite(self)),
            (schema, "refuse_network_file_system", lambda *_: None),
            (time, "time", self.wall),
            (time, "monotonic", self.monotonic),
            (time, "sleep", self.sleep),
            (Path, "replace", folders.replace),
            (Path, "unlink", folders.unlink),
            (Path, "mkdir", folders.mkdir),
            (writer, "GroupWriter", self._group),
            (sys, "unraisablehook", lambda *_: None),
        ]
        before = [(place, name, place.__dict__.get(name, _ABSENT)) for place, name, _ in changes]
        for place, name, value in changes:
            setattr(place, name, value)
        try:
            yield
        finally:
            for place, name, value in before:
                if value is _ABSENT:
                    delattr(place, name)
                else:
                    setattr(place, name, value)

    def _group(self, ledger: Any) -> Any:
        return _Group(self, ledger)


_ABSENT = object()


class _Group(GroupWriter):
    """The thread that commits for several runs, as a later turn of the loop that asks."""

    def __init__(self, kernel: Kernel, ledger: Any) -> None:
        self._kernel = kernel
        self._ledger = ledger
        self._mutex = threading.Lock()
        self._is_closed = False
        self._turns = {}

    def _hand_over(self, loop: Any) -> None:
        requests = self._turns.pop(loop)
        pause = self._kernel.chance.choice((0.0, 0.0, 0.0003, 0.01))
        loop.call_later(pause, self._carry_out, loop, requests)

    def _carry_out(self, loop: Any, requests: Any) -> None:
        self._kernel.point("group commit")
        self._write([writer._Turn(loop, requests)])

    def close(self) -> None:
        self._is_closed = True
