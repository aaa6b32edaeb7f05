"""Locks between processes: of a run, and for writing the database.

Each is an `flock` on a file of its own, which the kernel releases when the holder dies, so nothing expires. A
run's lock is held as long as the handle that owns the run, the write lock for one transaction. A forked child
holds none of them.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from callsheet.store.errors import JournalError

_WAIT_SECONDS = 10.0
_SPARE = ".spare"
_MOST_SPARES = 4


class Copied(Protocol):
    """An open lock whose descriptor a forked child must close."""

    def close_copy(self) -> None:
        """Close the descriptor of this process, and do nothing else."""
        ...


_open_locks: weakref.WeakSet[Copied] = weakref.WeakSet()


def let_go_in_child(lock: Copied) -> None:
    """Register a lock whose copy a forked child closes; otherwise it would outlive the parent's death."""
    _open_locks.add(lock)


def _let_go_in_child() -> None:
    for lock in list(_open_locks):
        with suppress(OSError):  # one that cannot be closed must not keep the others open
            lock.close_copy()


os.register_at_fork(after_in_child=_let_go_in_child)


class _Spare(NamedTuple):
    path: str
    fd: int
    file: tuple[int, int]
    """Device and inode."""
    second: int = -1
    """The wall-clock second at which its holder was last written into it."""


class Spares:
    """A pool of locked files, each of which gets a run's lock path as a second name while it owns that run.

    Linking a file is ten times cheaper than creating and removing one for each run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free: list[_Spare] = []
        self._has_tidied = False
        self._is_closed = False
        let_go_in_child(self)

    def lend(self, path: str) -> _Spare | None:
        """Link a locked file to this path; None if the path exists or linking is not possible."""
        try:
            spare = self._free.pop()
        except IndexError:
            try:
                spare = self._make()
            except OSError:
                return None
        try:
            os.link(spare.path, path, follow_symlinks=False)
        except FileExistsError:
            self._free.append(spare)
            return None
        except OSError:
            _remove(spare)  # somebody removed it, or the file system has no hard links
            return None
        return spare

    def take_back(self, spare: _Spare) -> None:
        """Return a file, whose second name is gone, to the pool; it is removed if that is full or closed."""
        if len(self._free) < _MOST_SPARES and not self._is_closed:
            self._free.append(spare)
        else:
            _remove(spare)

    def close(self) -> None:
        """Remove the files."""
        self._is_closed = True
        free, self._free = self._free, []
        for spare in free:
            _remove(spare)

    def close_copy(self) -> None:
        """Close the descriptors only; the files stay."""
        free, self._free = self._free, []
        for spare in free:
            os.close(spare.fd)

    def _make(self) -> _Spare:
        try:
            os.mkdir(self._folder, mode=0o700)
        except FileExistsError:
            if not self._has_tidied:
                self._tidy()
        self._has_tidied = True
        path = f"{self._folder}/{os.getpid()}-{os.urandom(4).hex()}{_SPARE}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _Spare(path, fd, _file(os.fstat(fd)))

    def _tidy(self) -> None:
        """Remove the pool files of dead processes; the locks of their runs have names of their own."""
        with os.scandir(self._folder) as listed:
            names = [entry.name for entry in listed if entry.name.endswith(_SPARE)]
        for name in names:
            pid = name.partition("-")[0]
            if pid.isdecimal() and not is_alive(int(pid)):
                is_removed(self._folder / name)


def _file(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _remove(spare: _Spare) -> None:
    is_removed(spare.path)
    os.close(spare.fd)


def is_removed(path: Path | str) -> bool:
    """Remove a file that is not needed any more; False if that failed.

    A file that stays does no harm, and closing must not fail because of it.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def is_alive(pid: int) -> bool:
    """Whether there is a process with this id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class RunLock:
    """The ownership of a run by this process and handle, from construction to `close`.

    Raises JournalError (JRN004) at once if another handle or process owns the run, OSError if the lock file
    cannot be created or written.
    """

    def __init__(self, folder: Path, run_id: str, now: float, spares: Spares | None = None) -> None:
        self._path = f"{folder}/{run_id}.lock"
        self.is_held = True
        """Whether this process still has the lock."""
        self._spares = spares
        self._spare = None if spares is None else spares.lend(self._path)
        self._fd = self._take(run_id) if self._spare is None else self._spare.fd
        let_go_in_child(self)
        second = int(now)
        if self._spare is not None and self._spare.second == second:
            return  # the file already names this process and time
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(second))
        try:
            if self._spare is None:
                os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"process {os.getpid()} since {since}\n".encode(), 0)
        except BaseException:
            self.close()
            raise
        if self._spare is not None:
            self._spare = self._spare._replace(second=second)

    def _take(self, run_id: str) -> int:
        Path(self._path).parent.mkdir(mode=0o700, exist_ok=True)
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
                is_owned = self._is_the_file(fd)
                os.close(fd)
                if not is_owned:
                    continue  # freed between our open and our flock; the file may be another run's by now
                raise _owned_already(run_id, owner) from None
            except BaseException:
                os.close(fd)
                raise
            if self._is_the_file(fd):
                return fd
            os.close(fd)  # its last owner removed the file between our open and our flock

    def _is_the_file(self, fd: int) -> bool:
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return _file(named) == (_file(os.fstat(fd)) if self._spare is None else self._spare.file)

    def is_named(self) -> bool:
        """Whether the lock file still has its name; if not, another process may own the run."""
        return os.fstat(self._fd).st_nlink > (self._spare is not None)

    def require_name(self, run_id: str) -> None:
        """Raise JournalError (JRN004) if the lock file has lost its name."""
        if not self.is_named():
            raise _owned_already(run_id, "")

    def close(self) -> None:
        """Free the run; the lock file is removed first, while nobody else can hold it."""
        if self._fd >= 0:
            is_gone = not self._is_the_file(self._fd) or is_removed(self._path)
            if is_gone and self._spare is not None and self._spares is not None:
                self._spares.take_back(self._spare)
                self._fd = -1
            self.close_copy()

    def close_copy(self) -> None:
        """Close the descriptor only, which frees the lock unless another process has a copy."""
        self.is_held = False
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class WriteLock:
    """Makes processes take turns in writing a database; held for one transaction.

    Raises TimeoutError if it cannot be had within 10 seconds. SQLite's own locks would suffice, if versions
    before 3.51.3 did not have the WAL-reset race.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        let_go_in_child(self)

    def __enter__(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        pause = 0.0002
        while True:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.005)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"another process has been writing for {_WAIT_SECONDS:.0f} s"
                    ) from None
            else:
                return

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the descriptor."""
        self.close_copy()

    def close_copy(self) -> None:
        """Close the descriptor only, which frees nothing that another process holds."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _owned_already(run_id: str, owner: str) -> JournalError:
    message = f"run {run_id} is owned by {owner or 'another process'}"
    if owner.startswith(f"process {os.getpid()} "):
        hint = "wait for the end of that run, or give this one another id"
        return JournalError("JRN004", f"{message}, which is this one: it is already running here", hint)
    return JournalError("JRN004", message, hint="wait for that process, or end it: that releases the run")
