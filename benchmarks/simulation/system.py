"""What stands in place of the system below the store: `os`, `fcntl`, `mmap`, `sqlite3` and folders.

Each call that changes something is a point of the process that makes it, and is told to the disk.
"""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from fcntl import flock
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.simulation.process import Killed

if TYPE_CHECKING:
    from benchmarks.simulation.kernel import Kernel
    from benchmarks.simulation.process import Process


def kind_of(path: Any) -> str:
    """What kind of file a path names: a lock, a tail, a large value and so on."""
    name = Path(path).name
    return f"a {name.rpartition('.')[2]} file" if "." in name else "a folder" if len(name) < 8 else "a value"


class System:
    """`os` for the modules of the store."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(os, name)
        return value

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
            kernel.writing(f"open {kind_of(path)}")
        fd = os.open(path, flags, mode)
        kernel.disk.opened(str(path), fd, is_new=bool(creates), is_cut=bool(flags & os.O_TRUNC))
        return kernel.register(fd, str(path))

    def close(self, number: int) -> None:
        self._kernel.forget(number)

    def pwrite(self, number: int, data: Any, at: int) -> int:
        self._kernel.writing(f"write {self._kernel.kind(number)}")
        fd = self._kernel.real(number)
        self._kernel.disk.wrote(fd, at, bytes(data))
        done = os.pwrite(fd, data, at)
        self._kernel.point(f"written {self._kernel.kind(number)}")
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
        self._kernel.writing(f"sync {self._kernel.kind(number)}")
        self._kernel.disk.synced(self._kernel.real(number))
        self._kernel.point(f"synced {self._kernel.kind(number)}")

    fdatasync = fsync

    def fstat(self, number: int) -> os.stat_result:
        return os.fstat(self._kernel.real(number))

    def fdopen(self, number: int, *_: Any, **__: Any) -> File:
        return File(self._kernel, number, closes=True)

    def unlink(self, path: Any) -> None:
        self._kernel.point(f"remove {kind_of(path)}")
        os.unlink(path)
        self._kernel.disk.removed(str(path))

    def link(self, path: Any, other: Any, **options: Any) -> None:
        self._kernel.writing(f"link {kind_of(other)}")
        os.link(path, other, **options)
        self._kernel.disk.linked(str(path), str(other))

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        self._kernel.writing(f"make {kind_of(path)}")
        os.mkdir(path, mode)
        self._kernel.disk.made(str(path))

    def utime(self, path: Any) -> None:
        self._kernel.point("date")


class Room:
    """`os` for the question whether the disk has room, which it always has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def posix_fallocate(self, fd: int, at: int, size: int) -> None:
        os.ftruncate(fd, at + size)


class Folders:
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
            kernel_.writing(f"rename to {kind_of(other)}")
            done = real["replace"](path, other)
            kernel_.disk.renamed(str(path), str(other))
            kernel_.point("renamed")
            return done

        def unlink(path: Path, missing_ok: bool = False) -> None:
            if is_of_machine(path):
                kernel_.point(f"remove {kind_of(path)}")
            real["unlink"](path, missing_ok)
            kernel_.disk.removed(str(path))

        def mkdir(path: Path, *args: Any, **options: Any) -> None:
            is_new = is_of_machine(path) and not path.exists()
            if is_new:
                kernel_.writing(f"make {kind_of(path)}")
            real["mkdir"](path, *args, **options)
            if is_new:
                kernel_.disk.made(str(path))

        self.replace, self.unlink, self.mkdir = replace, unlink, mkdir


class Locks:
    """`fcntl`."""

    LOCK_EX, LOCK_SH, LOCK_NB, LOCK_UN = 2, 1, 4, 8

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def flock(self, number: int, operation: int) -> None:
        flock(self._kernel.real(number), operation)


class Maps:
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


class File:
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
            self._kernel.writing("write a half")
            fd = self._kernel.real(self._number)
            self._kernel.disk.wrote(fd, at, part)
            os.pwrite(fd, part, at)

    def flush(self) -> None:
        pass


class Sqlite:
    """`sqlite3`, with connections whose statements are points."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(sqlite3, name)
        return value

    def connect(self, path: Any, **options: Any) -> sqlite3.Connection:
        made: Connection = sqlite3.connect(path, factory=Connection, **options)
        made.belong(self._kernel, writes="mode=rw" in str(path))
        return made


class Connection(sqlite3.Connection):
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
        self._changes = of.writes and statement.startswith(_CHANGES)
        if self._changes:
            try:
                of.kernel.writing(f"SQL {statement[:24]}")
            except OSError as error:
                raise sqlite3.OperationalError("database or disk is full") from error

    def _after(self) -> None:
        of: Any = self.connection
        if self._changes and not of.in_transaction:
            of.kernel.disk.committed()
            of.kernel.point("transaction committed")
