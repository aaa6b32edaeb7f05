"""Locks between processes, freed by the kernel when their holder dies: no time-outs, no clock.

Each is an `flock` on a file of its own. A run's lock lives as long as the handle that owns
the run; the write lock as long as one transaction. A forked process holds none of them.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from pathlib import Path
from typing import Protocol

from callsheet.store.errors import JournalError

_WAIT_SECONDS = 10.0


class Copied(Protocol):
    """What a forked child has a copy of, and must let go."""

    def close_copy(self) -> None:
        """Close the child's descriptor, and do nothing else."""
        ...


_open_locks: weakref.WeakSet[Copied] = weakref.WeakSet()


def let_go_in_child(lock: Copied) -> None:
    """Have a forked child close its copy: it would keep the parent's lock alive after its death."""
    _open_locks.add(lock)


def _let_go_in_child() -> None:
    for lock in list(_open_locks):
        lock.close_copy()


os.register_at_fork(after_in_child=_let_go_in_child)


class RunLock:
    """The ownership of a run, by this process and handle, from construction to `close`.

    Raises JournalError (JRN004) at once if another handle or process owns the run.
    """

    def __init__(self, folder: Path, run_id: str, now: float) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder / f"{run_id}.lock"
        self._fd = self._take(run_id)
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"process {os.getpid()} since {since}\n".encode(), 0)
        let_go_in_child(self)

    def _take(self, run_id: str) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
                os.close(fd)
                raise JournalError(
                    "JRN004",
                    f"run {run_id} is owned by {owner or 'another process'}",
                    way_out="wait for that process or end it; its death frees the run",
                ) from None
            except BaseException:
                os.close(fd)
                raise
            if self._is_the_file(fd):
                return fd
            os.close(fd)  # its last owner removed the file between our open and our lock

    def _is_the_file(self, fd: int) -> bool:
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(fd))

    @property
    def is_held(self) -> bool:
        """Whether this process still has the lock."""
        return self._fd >= 0

    @property
    def is_named(self) -> bool:
        """Whether the lock still has its file: else somebody took it away, and another may have the run."""
        return os.fstat(self._fd).st_nlink > 0

    def close(self) -> None:
        """Free the run; the lock file goes first, while nobody else can have it."""
        if self._fd >= 0:
            if self._is_the_file(self._fd):
                self._path.unlink(missing_ok=True)
            self.close_copy()

    def close_copy(self) -> None:
        """Close the descriptor alone, which frees the lock only if no other process has a copy."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class WriteLock:
    """What makes processes take turns in writing a database: held for one transaction.

    SQLite's own locks would do, but for the WAL-reset race of the versions before 3.51.3.
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
        """Close the descriptor alone, which frees nothing that another process holds."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
