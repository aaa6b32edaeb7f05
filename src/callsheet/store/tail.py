"""The tail: entries that a process has put into a plain file and not yet into the database.

The file has its whole length from the start. Where no sync is asked for, it is mapped into memory: to
append is to copy a few bytes, a hundredth of a transaction, and what stands in such memory is the kernel's
and outlives the process, though no loss of power. A synced tail is a file of zeros that is on the disk: to
append is to write over some of them and to wait for the disk, which has no length and no page of a table to
keep besides. So entries wait in a tail, and many go into the database together. A tail belongs to the process
that made it, which holds an `flock` on it; one whose lock is free was left by a process that died, and
whoever finds it may bring it in.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from callsheet.store.events import NO_BODY, decode_intents, identify, link
from callsheet.store.lock import is_removed, let_go_in_child
from callsheet.store.pending import Row
from callsheet.store.syncing import sync_folder

SUFFIX = ".tail"

_HEAD = struct.Struct(">IqqqddIIii")
"""Length of all that follows it; run number, seq, epoch; ts, mono; covers; lengths of line, body, intents."""
_LENGTH = struct.Struct(">I")
_HASH_BYTES = 32
_PACK = _HEAD.pack
_REST = _HEAD.size - _LENGTH.size + _HASH_BYTES
"""The length of what follows an entry's length, where its texts are empty."""
TAIL_BYTES = 256 * 1024
"""The length of the file of a living process."""
SYNCED_BYTES = 64 * 1024
"""The length of a synced one: all of it is written when it is made."""
_END = bytes(_LENGTH.size)
"""What stands behind the last entry: a length of nothing."""


class Kept(NamedTuple):
    """An entry as a tail keeps it: the number of its run, and its row."""

    number: int
    row: Row


class Tail:
    """The tail of this process for one journal, from construction to `close`; raises OSError.

    What is appended to one that `is_synced` survives a loss of power; of the other, the end of the process.
    """

    def __init__(self, folder: Path, *, is_synced: bool = False) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path, self._fd = _make(folder)
        self._size = 0
        self._room = SYNCED_BYTES if is_synced else TAIL_BYTES
        try:
            self._memory = _zeroed(folder, self._fd) if is_synced else _mapped(self._fd)
        except BaseException:
            is_removed(self.path)
            os.close(self._fd)
            raise
        let_go_in_child(self)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits in it."""
        return not self._size

    def append(self, number: int, rows: list[Row], lines: list[bytes]) -> bool:
        """Add entries of a run, with the lines that identify them, all or none; False without room."""
        if len(rows) == 1:
            data = _packed(number, rows[0], lines[0])
        else:
            data = b"".join([_packed(number, *entry) for entry in zip(rows, lines, strict=True)])
        start = self._size
        end = start + len(data)
        behind = end + _LENGTH.size
        if behind > self._room:
            return False
        if self._memory is not None:
            self._memory[start:behind] = data + _END
        else:
            _write(self._fd, data + _END, start)
            os.fdatasync(self._fd)
        self._size = end
        return True

    def clear(self) -> None:
        """Forget all entries: they are in the database, so it does no harm if the disk does not take that."""
        self._size = 0
        if self._memory is not None:
            self._memory[: len(_END)] = _END
            return
        with suppress(OSError):
            _write(self._fd, _END, 0)

    def close(self) -> None:
        """Close it; the file is removed if nothing waits in it, else left to whoever finds it."""
        if self._fd >= 0:
            if self.is_empty:
                is_removed(self.path)
            self.close_copy()

    def close_copy(self) -> None:
        """Let go of the file and of the memory alone."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._memory is not None:
                self._memory.close()
            os.close(fd)


class Left(NamedTuple):
    """The tail of a dead process, kept by its lock from others until `close`."""

    path: Path
    fd: int

    def entries(self) -> Iterator[Kept]:
        """What it holds, up to the first entry that is not whole."""
        with open(self.fd, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()
        return _unpacked(data)

    def close(self, *, is_done: bool) -> None:
        """Let go of it, and remove it if all of it is in the database."""
        if is_done:
            is_removed(self.path)  # one that stays is brought in again, which changes nothing
        os.close(self.fd)


def left_tails(folder: Path, own: str = "") -> list[Left]:
    """The tails in a folder whose processes are dead; of those that cannot be read, none.

    `own` is the name of this process's, which is not looked at.
    """
    try:
        with os.scandir(folder) as listed:
            names = [entry.name for entry in listed if entry.name.endswith(SUFFIX) and entry.name != own]
    except OSError:
        return []
    paths = [folder / name for name in names]
    return [left for path in sorted(paths) if (left := _taken(path)) is not None]


def read_tails(folder: Path, own: str = "") -> Iterator[Kept]:
    """What stands in all tails of a folder, also in those of processes that live; `own` is not looked at.

    An entry that is just being written is none yet.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name != own:
            with suppress(OSError):
                yield from _unpacked(path.read_bytes())


def fits(run_id: str, prev: bytes, expected: int, row: Row) -> bool:
    """Whether an entry is whole and follows the entry with the hash `prev` as event `expected`."""
    data, covers, intents, hashed = row[9], row[11], row[12], row[13]
    digest = NO_BODY if data is None else sha256(data).digest()
    head = row[:9]
    if row[0] != expected or link(prev, head, digest, identify(run_id, head), intents) != hashed:
        return False
    return covers == 1 + (0 if intents is None else len(decode_intents(intents)))


def _make(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return path, fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # another process took it for a dead one's between our open and our lock


def _mapped(fd: int) -> mmap.mmap:
    """The memory of a new file, which has room on the disk: a disk that is full says so here, not later."""
    os.posix_fallocate(fd, 0, TAIL_BYTES)
    try:
        return mmap.mmap(fd, TAIL_BYTES)
    except ValueError as error:
        raise OSError(errno.ENOMEM, str(error)) from error


def _zeroed(folder: Path, fd: int) -> None:
    """Have zeros in all of a new file, and them, its name and that of its folder on the disk."""
    _write(fd, bytes(SYNCED_BYTES), 0)
    os.fsync(fd)
    for named in (folder, folder.parent):
        sync_folder(named)


def _write(fd: int, data: bytes, start: int) -> None:
    if os.pwrite(fd, data, start) != len(data):
        raise OSError(errno.EIO, "the disk took a part of what was written")


def _taken(path: Path) -> Left | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return Left(path, fd)
    except OSError:
        pass  # its process lives, or another brings it in now
    os.close(fd)
    return None


def _packed(number: int, row: Row, line: bytes) -> bytes:
    seq, epoch, _, _, _, _, _, ts, mono, data, _, covers, intents, hashed = row
    line_size, size = len(line), -1 if data is None else len(data)
    intents_size = -1 if intents is None else len(intents)
    rest = _REST + line_size + max(size, 0) + max(intents_size, 0)
    head = _PACK(rest, number, seq, epoch, ts, mono, covers, line_size, size, intents_size)
    return b"".join((head, line, data or b"", intents or b"", hashed))


def _unpacked(data: bytes) -> Iterator[Kept]:
    at = 0
    while at + _HEAD.size <= len(data):
        length, number, seq, epoch, ts, mono, covers, line_size, *sizes = _HEAD.unpack_from(data, at)
        end, place = at + _LENGTH.size + length, at + _HEAD.size + line_size
        line = data[at + _HEAD.size : place]
        parts: list[bytes | None] = []
        for size in sizes:
            parts.append(None if size < 0 else data[place : place + size])
            place += max(size, 0)
        if end > len(data) or place + _HASH_BYTES != end:
            return
        try:
            kind, item, attempt, key, step = _identified(line)
        except ValueError:
            return
        body, intents = parts
        hashed = data[place:end]
        row = (seq, epoch, kind, key, step, item, attempt, ts, mono, body, None, covers, intents, hashed)
        yield Kept(number, row)
        at = end


def _identified(line: bytes) -> tuple[str, int | None, int | None, str | None, str | None]:
    """Type, item, attempt, key and step of the line that `identify` made; raises ValueError."""
    _, kind, item, attempt, key_size, step_size, texts = line.decode().split(" ", 6)
    key, step = int(key_size), int(step_size)
    return (
        kind,
        None if item == "None" else int(item),
        None if attempt == "None" else int(attempt),
        None if key < 0 else texts[:key],
        None if step < 0 else texts[key if key >= 0 else len("None") :],
    )
