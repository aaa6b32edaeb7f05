"""The simulated machine: processes, their clock, and the system calls under the store.

The modules that write a journal's files reach the system through their names `os`, `fcntl`, `mmap` and
`sqlite3`; a `Kernel` puts itself in their place while a simulation runs. Each call that changes something is
a *point*, at which the simulation may end the process, stop it for a while, or turn the power off. Files lie
in memory (`/dev/shm`), with a record of what was synced.
"""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import sys
import threading
import time
from asyncio import base_events, events
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import flock
from pathlib import Path
from random import Random
from typing import Any, Self

from benchmarks.simulation.disk import Disk

from callsheet import files
from callsheet.store import blobs, lock, schema, tail, writer
from callsheet.store.writer import GroupWriter

_EPOCH = 1_790_000_000.0
_TICK = 2e-6
"""Seconds that pass when a clock is read."""
_SHORTEST_WAIT = 1e-6


class Killed(KeyboardInterrupt):
    """Ends what a dead process was doing; nothing in callsheet catches it."""


class Process:
    """A process of the simulated machine: an event loop of its own, open files, and a count of its points."""

    def __init__(self, kernel: Kernel, name: str, number: int) -> None:
        self.kernel = kernel
        self.name = name
        self.number = number
        self.is_dead = False
        self.frozen_until = 0.0
        self.epoch = 1
        """The epoch in which it owns its run."""
        self.is_stale = False
        """Whether another process has taken over its run."""
        self.points = 0
        self.faults: dict[int, Callable[[], None]] = {}
        """What happens at its points, by their numbers."""
        self.loop = _Loop(kernel)
        self.main: asyncio.Task[Any] | None = None
        self.files: dict[int, int] = {}
        """The descriptors of its open files, by the numbers that it knows them by."""
        self.connections: list[_Connection] = []

    def start(self, work: Any) -> None:
        """Begin its only task."""
        self.main = self.loop.create_task(work)

    @property
    def is_done(self) -> bool:
        """Whether its task has ended by itself."""
        return not self.is_dead and self.main is not None and self.main.done()

    def due(self) -> float | None:
        """When its next turn is; None if it waits for nothing."""
        if self.is_dead or self.main is None or self.main.done():
            return None
        at = self.loop.next_at()
        return None if at is None else max(at, self.frozen_until)

    def turn(self) -> None:
        """Run its loop once."""
        with self.kernel.running(self), outside_loops(), suppress(Killed):
            events._set_running_loop(self.loop)
            self.kernel.point("turn")
            self.loop.turn()

    def end(self) -> None:
        """End it as a kill does: its locks are free, nothing of it happens any more, its files stay."""
        if self.is_dead:
            return
        self.is_dead = True
        for connection in self.connections:
            with suppress(sqlite3.Error):
                connection.abandon()
        for fd in self.files.values():
            os.close(fd)
        self.files.clear()

    def bury(self) -> None:
        """Drop its tasks, once none of its calls is on the stack."""
        if self.loop.is_closed():
            return
        if self.main is not None and self.main.done() and not self.main.cancelled():
            self.main.exception()
        self.main = None
        with self.kernel.running(self):
            for task in asyncio.all_tasks(self.loop):
                setattr(task, "_log_destroy_pending", False)  # noqa: B010 - it is not in its type
                with suppress(BaseException):
                    task.get_coro().close()
        self.loop.drop()
        for connection in self.connections:
            with suppress(sqlite3.Error):
                sqlite3.Connection.close(connection)


@contextmanager
def outside_loops() -> Generator[None]:
    """While inside, other event loops than the running one may have their turns."""
    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(running)


class _NoFiles:
    def select(self, timeout: float | None) -> list[Any]:
        return []


class _Loop(base_events.BaseEventLoop):
    """An event loop in virtual time, which never waits."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        super().__init__()
        self._selector = _NoFiles()
        self._clock_resolution = 1e-9
        self._thread_id = threading.get_ident()
        self.set_exception_handler(kernel.unhandled)

    def time(self) -> float:
        return self._kernel.now

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def turn(self) -> None:
        """Call what is due."""
        self._inner._run_once()

    def drop(self) -> None:
        """Drop all that it would do, and close it."""
        self._inner._ready.clear()
        self._inner._scheduled.clear()
        self._thread_id = None
        self.close()

    def next_at(self) -> float | None:
        """When it has something to do; None if never."""
        if self._inner._ready:
            return self._kernel.now
        return min((one._when for one in self._inner._scheduled if not one._cancelled), default=None)

    @property
    def _inner(self) -> Any:
        return self


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

    def run_until(self, moment: float, without: Process | None = None) -> bool:
        """Give processes their turns until a moment; False if none has anything left to do."""
        while True:
            due = [
                (at, self.chance.random(), process)
                for process in self.processes
                if process is not without and (at := process.due()) is not None and at <= moment
            ]
            if not due:
                return self.now >= moment
            at, _, process = min(due, key=lambda one: one[:2])
            self.now = max(self.now, at)
            process.turn()
            if self.now >= moment:
                return True

    def unhandled(self, loop: Any, context: Mapping[str, Any]) -> None:
        """An event loop reports what nobody caught."""
        error = context.get("exception")
        if not isinstance(error, Killed):
            self.errors.append(f"{context.get('message')}: {error!r}")

    def point(self, where: str) -> None:
        """A point of the current process; raises Killed if that is dead, or dies here."""
        process = self.current
        if process is None:
            return
        if process.is_dead:
            raise Killed
        process.points += 1
        fault = process.faults.get(process.points)
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

    def register(self, fd: int) -> int:
        """The number by which the current process knows a descriptor; it is never used again."""
        self._next_file += 1
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
        system, folders = _System(self), _Folders(self)
        changes: list[tuple[Any, str, Any]] = [
            *((module, "os", system) for module in (tail, blobs, lock, files)),
            *((module, "fcntl", _Locks(self)) for module in (tail, lock)),
            (tail, "mmap", _Maps(self)),
            (tail, "open", lambda number, *_, **__: _File(self, number, closes=False)),
            (schema, "sqlite3", _Sqlite(self)),
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


class _System:
    """`os` for the modules of the store."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def getpid(self) -> int:
        current = self._kernel.current
        return 1 if current is None else current.number

    def kill(self, pid: int, signal: int) -> None:
        if all(process.is_dead or process.number != pid for process in self._kernel.processes):
            raise ProcessLookupError

    def urandom(self, count: int) -> bytes:
        return self._kernel.chance.randbytes(count)

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        kernel = self._kernel
        creates = flags & os.O_CREAT and not os.path.lexists(path)
        if creates or flags & os.O_TRUNC:
            kernel.writing(f"open {Path(path).name}")
        fd = os.open(path, flags, mode)
        kernel.disk.opened(str(path), fd, is_new=bool(creates), is_cut=bool(flags & os.O_TRUNC))
        return kernel.register(fd)

    def close(self, number: int) -> None:
        self._kernel.forget(number)

    def pwrite(self, number: int, data: Any, at: int) -> int:
        self._kernel.writing("write")
        fd = self._kernel.real(number)
        self._kernel.disk.wrote(fd, at, bytes(data))
        done = os.pwrite(fd, data, at)
        self._kernel.point("written")
        return done

    def pread(self, number: int, count: int, at: int) -> bytes:
        return os.pread(self._kernel.real(number), count, at)

    def ftruncate(self, number: int, size: int) -> None:
        self._kernel.writing("truncate")
        fd = self._kernel.real(number)
        self._kernel.disk.cut(fd, size)
        os.ftruncate(fd, size)

    def posix_fallocate(self, number: int, at: int, size: int) -> None:
        self._kernel.writing("allocate")
        fd = self._kernel.real(number)
        if os.fstat(fd).st_size < at + size:
            self._kernel.disk.cut(fd, at + size)
            os.ftruncate(fd, at + size)

    def fsync(self, number: int) -> None:
        self._kernel.writing("sync")
        self._kernel.disk.synced(self._kernel.real(number))
        self._kernel.point("synced")

    fdatasync = fsync

    def fstat(self, number: int) -> os.stat_result:
        return os.fstat(self._kernel.real(number))

    def fdopen(self, number: int, *_: Any, **__: Any) -> _File:
        return _File(self._kernel, number, closes=True)

    def unlink(self, path: Any) -> None:
        self._kernel.point(f"remove {Path(path).name}")
        os.unlink(path)
        self._kernel.disk.removed(str(path))

    def link(self, path: Any, other: Any, **options: Any) -> None:
        self._kernel.writing(f"link {Path(other).name}")
        os.link(path, other, **options)
        self._kernel.disk.linked(str(path), str(other))

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._kernel.writing(f"make {Path(path).name}")
        os.mkdir(path, mode)
        self._kernel.disk.made(str(path))

    def utime(self, path: Any) -> None:
        self._kernel.point("date")


class _Folders:
    """What `pathlib` does in folders."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._real = {name: Path.__dict__[name] for name in ("replace", "unlink", "mkdir")}
        kernel_, real = kernel, self._real

        def is_of_machine(path: Path) -> bool:
            return kernel_.current is not None and kernel_.folder in path.parents

        def replace(path: Path, other: Any) -> Any:
            if not is_of_machine(path):
                return real["replace"](path, other)
            kernel_.writing(f"rename to {Path(other).name}")
            done = real["replace"](path, other)
            kernel_.disk.renamed(str(path), str(other))
            kernel_.point("renamed")
            return done

        def unlink(path: Path, missing_ok: bool = False) -> None:
            if is_of_machine(path):
                kernel_.point(f"remove {path.name}")
            real["unlink"](path, missing_ok)
            kernel_.disk.removed(str(path))

        def mkdir(path: Path, *args: Any, **options: Any) -> None:
            is_new = is_of_machine(path) and not path.exists()
            if is_new:
                kernel_.writing(f"make {path.name}")
            real["mkdir"](path, *args, **options)
            if is_new:
                kernel_.disk.made(str(path))

        self.replace, self.unlink, self.mkdir = replace, unlink, mkdir


class _Locks:
    """`fcntl`."""

    LOCK_EX, LOCK_SH, LOCK_NB, LOCK_UN = 2, 1, 4, 8

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def flock(self, number: int, operation: int) -> None:
        flock(self._kernel.real(number), operation)


class _Maps:
    """`mmap`: what is copied into memory is in the file at once, but synced only if the system does so."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def mmap(self, number: int, size: int) -> _Map:
        return _Map(self._kernel, number)


class _Map:
    def __init__(self, kernel: Kernel, number: int) -> None:
        self._kernel = kernel
        self._number = number

    def __setitem__(self, place: slice, data: bytes) -> None:
        kernel, at = self._kernel, place.start or 0
        fd = kernel.real(self._number)
        copy = os.dup(fd)
        try:
            kernel.point("copy to memory")
        except Killed:
            os.pwrite(copy, data[: kernel.chance.randrange(len(data) + 1)], at)  # a kill within the copying
            raise
        finally:
            os.close(copy)
        kernel.disk.wrote(fd, at, data)
        os.pwrite(fd, data, at)
        kernel.point("copied to memory")

    def close(self) -> None:
        pass


class _File:
    """An open file, as `open` and `os.fdopen` give one."""

    def __init__(self, kernel: Kernel, number: int, *, closes: bool) -> None:
        self._kernel = kernel
        self._number = number
        self._closes = closes
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._closes:
            self._kernel.forget(self._number)

    def fileno(self) -> int:
        return self._number

    def seek(self, at: int) -> None:
        self._at = at

    def read(self) -> bytes:
        fd = self._kernel.real(self._number)
        return os.pread(fd, os.fstat(fd).st_size, self._at)

    def write(self, data: bytes) -> None:
        half = len(data) // 2
        for at, part in ((0, data[:half]), (half, data[half:])):
            self._kernel.writing("write a part")
            fd = self._kernel.real(self._number)
            self._kernel.disk.wrote(fd, at, part)
            os.pwrite(fd, part, at)

    def flush(self) -> None:
        pass


class _Sqlite:
    """`sqlite3`, with connections whose statements are points."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, path: Any, **options: Any) -> sqlite3.Connection:
        made: _Connection = sqlite3.connect(path, factory=_Connection, **options)
        made.belong(self._kernel, writes="mode=rw" in str(path))
        return made


class _Connection(sqlite3.Connection):
    process: Process | None = None
    writes = False
    kernel: Kernel | None = None

    def belong(self, kernel: Kernel, *, writes: bool) -> None:
        self.kernel, self.process, self.writes = kernel, kernel.current, writes
        if self.process is not None:
            self.process.connections.append(self)

    def cursor(self, factory: Any = None) -> sqlite3.Cursor:
        return super().cursor(_Cursor)

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        return self.cursor().execute(statement, values)

    def abandon(self) -> None:
        if self.in_transaction:
            super().rollback()

    def close(self) -> None:
        process = self.process
        if process is not None and process.is_dead:
            raise Killed
        super().close()
        if process is not None:
            process.connections.remove(self)


_CHANGES = ("BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT")


class _Cursor(sqlite3.Cursor):
    def execute(self, statement: str, values: Any = ()) -> Self:
        self._before(statement)
        super().execute(statement, values)
        self._after()
        return self

    def executemany(self, statement: str, values: Sequence[Any]) -> Self:  # pyright: ignore
        self._before(statement)
        super().executemany(statement, values)
        self._after()
        return self

    def _before(self, statement: str) -> None:
        of: Any = self.connection
        if of.process is not None and of.process.is_dead:
            raise Killed
        if of.writes and statement.startswith(_CHANGES):
            try:
                of.kernel.writing(f"SQL {statement[:24]}")
            except OSError as error:
                raise sqlite3.OperationalError("database or disk is full") from error
        self._changes = of.writes and statement.startswith(_CHANGES)

    def _after(self) -> None:
        of: Any = self.connection
        if self._changes and not of.in_transaction:
            of.kernel.disk.committed()
            of.kernel.point("transaction committed")
