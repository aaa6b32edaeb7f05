"""Bytes by their hash, where all machines reach them: in a folder, in PostgreSQL, in an object store.

In: bytes whose hash is known. Out: that they are durable, and the bytes again, checked. A blob never changes
and may be written twice.
"""

from __future__ import annotations

import os
import threading
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Protocol

from callsheet.store.blobs import BlobMissing

if TYPE_CHECKING:
    from callsheet.store.shared.postgres import PostgresDatabase


class Blobs(Protocol):
    """A store of bytes by their hash. For any number of threads."""

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes whose SHA-256 is `digest`; they are durable when this returns. Raises OSError."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of a digest. Raises BlobMissing where it is not there, OSError where nobody can tell."""
        ...


class FolderBlobs:
    """A store in a folder: on one machine, or on a file system that all machines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes: written beside their place, synced and moved there, so that nobody sees a part."""
        place = self._place(digest)
        if place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place.parent, prefix=".new-", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        for folder in (place.parent, self._folder, self._folder.parent):
            _sync_folder(folder)

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, checked."""
        try:
            data = self._place(digest).read_bytes()
        except FileNotFoundError:
            raise _missing(digest, str(self._folder)) from None
        return checked(digest, data, str(self._folder))

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]


class SharedBlobs:
    """A table of the shared store."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes."""
        with self._lock:
            if self._database.execute("SELECT 1 FROM blob WHERE digest = ?", (digest,)).fetchone() is None:
                self._database.execute(
                    "INSERT INTO blob (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, data)
                )

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, checked."""
        with self._lock:
            row = self._database.execute("SELECT body FROM blob WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise _missing(digest, "the shared store")
        return checked(digest, bytes(row[0]), "the shared store")

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def checked(digest: str, data: bytes, where: str) -> bytes:
    """The bytes, if they are those of the digest; else BlobMissing is raised."""
    if sha256(data).hexdigest() != digest:
        raise BlobMissing(f"blob {digest} in {where} is not what was put there")
    return data


def _missing(digest: str, where: str) -> BlobMissing:
    return BlobMissing(f"blob {digest} is not in {where}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
