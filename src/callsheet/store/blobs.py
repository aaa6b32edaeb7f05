"""Stores large event bodies once each, by SHA-256 digest: up to 256 KiB in the database, above in files.

A file is complete, and synced unless the durability omits syncs, before any event refers to it: it is written
under a temporary name, synced and renamed, and its folder is synced.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from hashlib import sha256
from pathlib import Path

from callsheet.files import sync_file, sync_folder

INLINE_LIMIT = 64 * 1024
"""Bodies of more bytes are stored as blobs."""

ROW_LIMIT = 256 * 1024
"""Blobs of more bytes are files: SQLite writes its content twice, to the WAL and to the database.

For smaller blobs one sync of the WAL is cheaper than syncs of a file and its folder.
"""

CODEC = "raw"
DROPPED = "dropped"
"""The codec of a blob whose bytes were dropped; its hash and size are kept."""


class BlobMissing(Exception):
    """A blob that an event refers to is missing or does not match its hash."""


class BlobDropped(BlobMissing):
    """A blob that was dropped by retention; `size` is its former size in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__("its large value was pruned because of its age")
        self.size = size


def blob_path(folder: Path, name: str) -> Path:
    """The file of a blob; `name` is its hash in hexadecimal."""
    return folder / name[:2] / name[2:]


def write_blob_file(
    folder: Path, name: str, data: bytes, *, sync: bool, synced: set[Path] | None = None
) -> None:
    """Write a blob to its file unless an intact one exists. Raises OSError.

    `synced` are folders whose directory entries this process has synced before and need not sync again; newly
    synced ones are added.
    """
    path = blob_path(folder, name)
    if _is_sound(path, name):
        os.utime(path)  # retention deletes unreferenced files only when they are old
        if sync:
            sync_file(path)  # its writer may have omitted the sync
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


def link_all(folder: Path, other: Path) -> None:
    """Give the files of all blobs in a folder a second name in another, if there are any. Raises OSError."""
    if folder.is_dir():
        shutil.copytree(folder, other, copy_function=os.link, dirs_exist_ok=True)


class BlobFiles:
    """Writes the files of a journal's large blobs, and remembers which folders are synced.

    With `sync` a blob is durable before an event refers to it.
    """

    def __init__(self, folder: Path, *, sync: bool) -> None:
        self._folder = folder
        self._sync = sync
        self._synced: set[Path] = set()
        """The folders whose directory entries are durable."""

    def has(self, name: str) -> bool:
        """Whether there is a file for the blob."""
        return blob_path(self._folder, name).exists()

    def write(self, name: str, data: bytes) -> None:
        """Write a blob to its file unless an intact one exists. Raises OSError."""
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
    """Insert a blob in the open transaction, with its bytes unless they are in a file.

    A dropped blob gets its bytes back; `now` is in seconds since 1970.
    """
    cursor.execute(
        "INSERT INTO blobs (hash, size, codec, data, created) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (hash) DO UPDATE SET codec = excluded.codec, data = excluded.data"
        f" WHERE codec = '{DROPPED}'",
        (name, len(data), CODEC, data if len(data) <= ROW_LIMIT else None, now),
    )


def read_blob(connection: sqlite3.Connection, folder: Path, name: str) -> bytes:
    """The bytes of a blob.

    Raises BlobDropped if retention dropped them, else BlobMissing if they are missing or do not match.
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
