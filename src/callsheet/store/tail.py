"""The tail: a write-ahead file of one process, for committed entries that are not in the database yet.

Appending to it is far cheaper than a transaction, and many entries go into the database together later. The
file has its full length from the start. If commits need no sync, it is mapped into memory: appending copies a
few bytes at a hundredth of a transaction's cost, and the kernel keeps them when the process dies, though not
over a power failure. A synced tail is a file of zeros already on the disk: appending overwrites some and
syncs, without any metadata to update. The process that made a tail holds an `flock` on it; a tail whose lock
is free was left by a dead process, and any process may move its entries into the database.
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

from callsheet.files import sync_folder
from callsheet.lazy import NamedTuple
from callsheet.store.events import NO_BODY, decode_intents, identify, link
from callsheet.store.lock import is_removed, let_go_in_child
from callsheet.store.pending import Row

SUFFIX = ".tail"

_HEAD = struct.Struct(">IqqqddIIii")
"""Length of the rest; run number, seq, epoch; ts, mono; covers; lengths of line, body and intents."""
_LENGTH = struct.Struct(">I")
_HASH_BYTES = 32
_PACK = _HEAD.pack
_REST = _HEAD.size - _LENGTH.size + _HASH_BYTES
"""The size of an entry without its length field, line, body and intents."""
TAIL_BYTES = 256 * 1024
"""The size of a mapped tail."""
SYNCED_BYTES = 64 * 1024
"""The size of a synced tail; smaller, as all of it is written when it is made."""
_END = bytes(_LENGTH.size)
"""Marks the end of the entries: a length of zero."""


class TailEntry(NamedTuple):
    """An entry in a tail: the number of its run, and its row."""

    number: int
    row: Row


class Tail:
    """The tail of this process for one journal, from construction to `close`; raises OSError.

    With `is_synced` what is appended survives a power failure; otherwise only the death of the process.
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
        """Whether it has no entries."""
        return not self._size

    def append(self, number: int, rows: list[Row], lines: list[bytes]) -> bool:
        """Append entries of a run, with the lines that identify them; False, with none appended, if full."""
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
        """Remove all entries; they are in the database, so a failure to do so does no harm."""
        self._size = 0
        if self._memory is not None:
            self._memory[: len(_END)] = _END
            return
        with suppress(OSError):
            _write(self._fd, _END, 0)

    def close(self) -> None:
        """Close it; the file is removed if it has no entries, otherwise left for other processes."""
        if self._fd >= 0:
            if self.is_empty:
                is_removed(self.path)
            self.close_copy()

    def close_copy(self) -> None:
        """Close the descriptor and the mapping only; the file stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            if self._memory is not None:
                self._memory.close()
            os.close(fd)


class OrphanedTail(NamedTuple):
    """The tail of a dead process, locked by this process until `close`."""

    path: Path
    fd: int

    def entries(self) -> Iterator[TailEntry]:
        """Its entries, up to the first incomplete one."""
        with open(self.fd, "rb", closefd=False) as file:
            file.seek(0)
            data = file.read()
        return _unpacked(data)

    def close(self, *, is_done: bool) -> None:
        """Release it, and remove the file if all entries are in the database."""
        if is_done:
            is_removed(self.path)  # if it stays, its entries are inserted again, which changes nothing
        os.close(self.fd)


def left_tails(folder: Path, own: str = "") -> list[OrphanedTail]:
    """The tails of dead processes in a folder, locked; those that cannot be read are left out.

    `own` is the name of this process's tail, which is ignored.
    """
    try:
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX) and name != own]
    except OSError:
        return []
    paths = [folder / name for name in names]
    return [left for path in sorted(paths) if (left := _taken(path)) is not None]


def read_tails(folder: Path, own: str = "") -> Iterator[TailEntry]:
    """The entries in all tails of a folder, including those of living processes, except `own`.

    Entries that are just being written are left out.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if path.name != own:
            with suppress(OSError):
                yield from _unpacked(path.read_bytes())


def fits(run_id: str, prev: bytes, expected: int, row: Row) -> bool:
    """Whether an entry is intact and follows the entry with the hash `prev` as event `expected`."""
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
        os.close(fd)  # another process took it for a dead one's between our open and our flock


def _mapped(fd: int) -> mmap.mmap:
    """Map a new file, with its disk space allocated, so that a full disk fails here and not later."""
    os.posix_fallocate(fd, 0, TAIL_BYTES)
    try:
        return mmap.mmap(fd, TAIL_BYTES)
    except ValueError as error:
        raise OSError(errno.ENOMEM, str(error)) from error


def _zeroed(folder: Path, fd: int) -> None:
    """Fill a new file with zeros and sync it, with its name and that of its folder."""
    _write(fd, bytes(SYNCED_BYTES), 0)
    os.fsync(fd)
    for named in (folder, folder.parent):
        sync_folder(named)


def _write(fd: int, data: bytes, start: int) -> None:
    if os.pwrite(fd, data, start) != len(data):
        raise OSError(errno.EIO, "the disk stored only a part of the data")


def _taken(path: Path) -> OrphanedTail | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink:
            return OrphanedTail(path, fd)
    except OSError:
        pass  # its process lives, or another process is moving its entries now
    os.close(fd)
    return None


def _packed(number: int, row: Row, line: bytes) -> bytes:
    seq, epoch, _, _, _, _, _, ts, mono, data, _, covers, intents, hashed = row
    line_size, size = len(line), -1 if data is None else len(data)
    intents_size = -1 if intents is None else len(intents)
    rest = _REST + line_size + max(size, 0) + max(intents_size, 0)
    head = _PACK(rest, number, seq, epoch, ts, mono, covers, line_size, size, intents_size)
    return b"".join((head, line, data or b"", intents or b"", hashed))


def _unpacked(data: bytes) -> Iterator[TailEntry]:
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
        yield TailEntry(number, row)
        at = end


def _identified(line: bytes) -> tuple[str, int | None, int | None, str | None, str | None]:
    """Type, item, attempt, key and step from a line made by `identify`; raises ValueError."""
    _, kind, item, attempt, key_size, step_size, texts = line.decode().split(" ", 6)
    key, step = int(key_size), int(step_size)
    return (
        kind,
        None if item == "None" else int(item),
        None if attempt == "None" else int(attempt),
        None if key < 0 else texts[:key],
        None if step < 0 else texts[key if key >= 0 else len("None") :],
    )
