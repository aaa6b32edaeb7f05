"""Large bodies, stored once by their SHA-256: up to 256 KiB in the database, above it in files.

A file is complete, and on the disk unless the durability leaves all syncs out, before any event names
it: it is written under another name, synced, renamed, and its folder synced.
"""

from __future__ import annotations

import os
import sqlite3
from hashlib import sha256
from pathlib import Path

from callsheet.store.syncing import sync_file, sync_folder

INLINE_LIMIT = 64 * 1024
"""A body of more bytes than this is a blob."""

ROW_LIMIT = 256 * 1024
"""A blob of more bytes than this is a file: SQLite writes what it keeps twice, to its log and to its file.

Below, one sync of the log is cheaper than those of a file and its folder.
"""

CODEC = "raw"
DROPPED = "dropped"
"""The codec of a blob whose bytes have been let go; its hash and size are kept."""


class BlobMissing(Exception):
    """A blob that an event names is not there, or is not what its hash says."""


class BlobDropped(BlobMissing):
    """A blob that has been let go on purpose; `size` is how many bytes it had."""

    def __init__(self, size: int) -> None:
        super().__init__("its large value was dropped when its time was over")
        self.size = size


def blob_path(folder: Path, name: str) -> Path:
    """The file of a blob, by the hexadecimal digits of its hash."""
    return folder / name[:2] / name[2:]


def write_blob_file(
    folder: Path, name: str, data: bytes, *, sync: bool, synced: set[Path] | None = None
) -> None:
    """Put a large blob into its file, unless a sound one is there. Raises OSError.

    `synced` are the folders that this process has synced before, the names of which need no sync again;
    those that are synced now come to them.
    """
    path = blob_path(folder, name)
    if _is_sound(path, name):
        os.utime(path)  # what nothing names yet is collected only when it is old
        if sync:
            sync_file(path)  # who wrote it may not have
    else:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            _write_all(temporary, data, sync=sync)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    if sync:
        known = set[Path]() if synced is None else synced
        sync_folder(path.parent)
        if path.parent not in known:
            sync_folder(folder)
        if folder not in known:
            sync_folder(folder.parent)
        known.update((path.parent, folder))


class BlobFiles:
    """The files of a journal's large blobs, for one who writes many of them.

    With `sync` a blob is on the disk before its event names it.
    """

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._sync = sync
        self._synced: set[Path] = set()
        """The folders whose names are on the disk."""

    def has(self, name: str) -> bool:
        """Whether there is a file for the blob."""
        return blob_path(self._folder, name).exists()

    def write(self, name: str, data: bytes) -> None:
        """Put a blob into its file, unless a sound one is there. Raises OSError."""
        write_blob_file(self._folder, name, data, sync=self._sync, synced=self._synced)


def _write_all(path: Path, data: bytes, *, sync: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _is_sound(path: Path, name: str) -> bool:
    try:
        return sha256(path.read_bytes()).hexdigest() == name
    except FileNotFoundError:
        return False


def insert_blob(cursor: sqlite3.Cursor, name: str, data: bytes, now: float) -> None:
    """Note a blob in the open transaction, with its bytes unless they are in a file."""
    cursor.execute(
        "INSERT INTO blobs (hash, size, codec, data, created) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (hash) DO UPDATE SET codec = excluded.codec, data = excluded.data"
        f" WHERE codec = '{DROPPED}'",
        (name, len(data), CODEC, data if len(data) <= ROW_LIMIT else None, now),
    )


def read_blob(connection: sqlite3.Connection, folder: Path, name: str) -> bytes:
    """The bytes of a blob; raises BlobMissing if they are gone or not what the hash says.

    That is BlobDropped where they were let go on purpose.
    """
    row = connection.execute("SELECT data, codec, size FROM blobs WHERE hash = ?", (name,)).fetchone()
    if row is None:
        raise BlobMissing("its large value is not in the journal")
    data, codec, size = row
    if codec == DROPPED:
        raise BlobDropped(size)
    if data is None:
        try:
            data = blob_path(folder, name).read_bytes()
        except OSError as error:
            raise BlobMissing(f"the file of its large value cannot be read: {error.strerror}") from error
    if not isinstance(data, bytes) or sha256(data).hexdigest() != name:
        raise BlobMissing("its large value is not what was written")
    return data
