"""Notes which database a write-ahead log belongs to, and sets aside a log that belongs to another one.

SQLite finds a log, and its index in shared memory, by the name of the database alone. If a journal is removed
or replaced while a process writes it, the next process that opens the place would take the log that is still
there for that of the new file: it would see and write a mixture of both. So each process that writes leaves a
mark beside the journal: the inodes of the database and of its log. Files that were copied have no such mark,
and files that were moved together still the same pair.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from callsheet.store.journal_paths import JournalPaths
from callsheet.store.lock import WriteLock, is_alive, is_removed

FileId = tuple[int, int]
"""Device and inode."""
_MARK = ".log-of"
_ASIDE = ".displaced-"


class _Mark(NamedTuple):
    path: Path
    process: int
    database: FileId
    log: FileId


class LogMark:
    """The mark of one writing connection; `write` it under the write lock, `remove` it when it is closed."""

    def __init__(self, place: JournalPaths) -> None:
        self._place = place
        self._path = place.run_locks / f"{os.getpid()}-{os.urandom(4).hex()}{_MARK}"
        self._is_written = False

    def write(self, database: FileId, log: FileId) -> None:
        """Note the pair, and remove the marks of dead processes; if that fails, the log is not recognised."""
        for mark in _marks(self._place):
            if not is_alive(mark.process):
                is_removed(mark.path)
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path, flags, 0o600)
            try:
                os.write(fd, f"{database[0]} {database[1]} {log[0]} {log[1]}\n".encode())
            finally:
                os.close(fd)
            self._is_written = True

    def remove(self) -> None:
        """Remove it."""
        if self._is_written:
            is_removed(self._path)
            self._is_written = False


def file_at(path: Path) -> FileId | None:
    """The identity of the file at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def log_path(place: JournalPaths) -> Path:
    """Where SQLite has the log of the journal."""
    return place.database.with_name(f"{place.database.name}-wal")


def set_aside_foreign_log(place: JournalPaths) -> None:
    """Rename a log, with its index, if a mark says that it belongs to another database than the present one.

    A process that still writes it has it open, and saves its events when it notices that its journal is gone.
    Raises OSError, or TimeoutError if the write lock cannot be had.
    """
    if not _is_foreign(place):
        return
    lock = WriteLock(place.write_lock)
    try:
        with lock:
            if _is_foreign(place):
                suffix = f"{_ASIDE}{os.urandom(4).hex()}"
                for file in (log_path(place), _index_path(place)):
                    if file.exists():
                        file.rename(file.with_name(file.name + suffix))
    finally:
        lock.close()


def remove_log(place: JournalPaths, log: FileId) -> None:
    """Remove a log and its index, wherever they are, after all that they have was saved."""
    current = log_path(place)
    if file_at(current) == log:
        current.unlink(missing_ok=True)
    for aside in place.database.parent.glob(f"{glob.escape(current.name)}{_ASIDE}*"):
        if file_at(aside) == log:
            aside.unlink(missing_ok=True)
            suffix = aside.name.removeprefix(current.name)
            aside.with_name(_index_path(place).name + suffix).unlink(missing_ok=True)


def _index_path(place: JournalPaths) -> Path:
    return place.database.with_name(f"{place.database.name}-shm")


def _is_foreign(place: JournalPaths) -> bool:
    """Whether the log is marked as that of another database.

    An empty one, as a reader leaves it, holds nothing; its inode may be that of a log that is gone.
    """
    try:
        found = log_path(place).stat()
    except OSError:
        return False
    if not found.st_size:
        return False
    log = found.st_dev, found.st_ino
    database = file_at(place.database)
    owners = {mark.database for mark in _marks(place) if mark.log == log}
    return bool(owners) and database not in owners


def _marks(place: JournalPaths) -> Iterator[_Mark]:
    try:
        names = [name for name in os.listdir(place.run_locks) if name.endswith(_MARK)]
    except OSError:
        return
    for name in names:
        path = place.run_locks / name
        with suppress(OSError, ValueError):
            device, inode, log_device, log_inode = map(int, path.read_text(encoding="ascii").split())
            process = int(name.partition("-")[0])
            yield _Mark(path, process, (device, inode), (log_device, log_inode))
