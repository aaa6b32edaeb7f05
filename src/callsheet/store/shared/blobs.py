"""Stores blobs by digest where all machines reach them: in a folder or PostgreSQL; defines the interface.

In: bytes with their SHA-256 digest. Out: the bytes, verified. Blobs never change; putting one again resets
its age, so that unneeded blobs can be removed by age. Beside the blobs are signs: records of its users.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import uuid4

from callsheet.files import sync_folder
from callsheet.store.blobs import BlobMissing

if TYPE_CHECKING:
    from callsheet.store.shared.postgres import PostgresDatabase

YOUNG = 3_600.0
"""Age in seconds from which putting a blob again resets its age."""
DIGEST = re.compile(r"[0-9a-f]{64}")
"""The pattern of the names of blobs."""
SIGNS = "users"
"""The folder or prefix of signs."""
_NEW = ".new-"
"""The prefix of files that are being written."""
_ASIDE = ".old-"
"""The prefix of files that are being removed."""


class Stored(NamedTuple):
    """A stored blob: digest, size in bytes, age in seconds since it was last put (may be slightly more)."""

    digest: str
    size: int
    age: float


class Blobs(Protocol):
    """A store of blobs by digest. Thread-safe."""

    def put(self, digest: str, data: bytes) -> None:
        """Store bytes whose SHA-256 is `digest`; durable when this returns. Raises OSError."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of a blob. Raises BlobMissing if there is none, OSError if the store cannot be used."""
        ...

    def stored(self) -> Iterator[Stored]:
        """All blobs, in any order. Raises OSError."""
        ...

    def remove(self, digest: str, age: float) -> bool:
        """Remove a blob that is older than `age` seconds; returns whether it is gone. Raises OSError."""
        ...

    def tidy(self) -> None:
        """Remove what processes left that died while they put or removed a blob. Raises OSError."""
        ...

    def sign(self, name: str, content: bytes) -> None:
        """Record a user of the store, unless there is a sign with this name. Raises OSError."""
        ...

    def signs(self) -> dict[str, bytes]:
        """The signs by their names. Raises OSError."""
        ...

    def unsign(self, name: str) -> None:
        """Remove a sign, if there is one. Raises OSError."""
        ...


class FolderBlobs:
    """A store in a folder: on one machine, or on a file system that all machines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes) -> None:
        """Store bytes atomically: written to a temporary file, synced and renamed."""
        self._write(self._place(digest), data)

    def _write(self, place: Path, data: bytes) -> None:
        with suppress(FileNotFoundError):
            os.utime(place)
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place.parent, prefix=_NEW, delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        for folder in (place.parent, self._folder, self._folder.parent):
            sync_folder(folder)

    def get(self, digest: str) -> bytes:
        """The bytes of a blob, verified."""
        place = self._place(digest)
        try:
            data = place.read_bytes()
        except FileNotFoundError:
            data = self._aside(place)
        if data is None:
            raise _missing(digest, str(self._folder))
        return checked(digest, data, str(self._folder))

    def _aside(self, place: Path) -> bytes | None:
        """A file that `remove` has renamed in this moment and may rename back."""
        for file in (*place.parent.glob(f"{_ASIDE}{place.name}-*"), place):
            with suppress(FileNotFoundError):
                return file.read_bytes()
        return None

    def stored(self) -> Iterator[Stored]:
        """The blobs in the folders that are named by the first two digits of digests."""
        with suppress(FileNotFoundError):
            for part in sorted(os.listdir(self._folder)):
                if len(part) == 2:
                    yield from self._stored_in(part)

    def _stored_in(self, part: str) -> Iterator[Stored]:
        for place in sorted((self._folder / part).iterdir()):
            if DIGEST.fullmatch(part + place.name):
                with suppress(FileNotFoundError):  # removed by another process
                    status = place.stat()
                    yield Stored(part + place.name, status.st_size, time.time() - status.st_mtime)

    def remove(self, digest: str, age: float) -> bool:
        """Remove a file: renamed first, and renamed back if it was put again just before.

        The new name is unique, so that no process unlinks the file that another has renamed.
        """
        place = self._place(digest)
        aside = place.with_name(f"{_ASIDE}{place.name}-{uuid4().hex}")
        try:
            os.replace(place, aside)
        except FileNotFoundError:
            return True
        if time.time() - aside.stat().st_mtime < age:
            os.replace(aside, place)
            return False
        aside.unlink()
        return True

    def tidy(self) -> None:
        """Remove temporary files, and give blobs back their names that were renamed to be removed."""
        with suppress(FileNotFoundError):
            for part in sorted(self._folder.iterdir()):
                if part.is_dir():
                    for file in sorted(part.glob(".*")):
                        with suppress(FileNotFoundError):
                            _tidy(file)

    def sign(self, name: str, content: bytes) -> None:
        """Record a user, in a file."""
        self._write(self._folder / SIGNS / name, content)

    def signs(self) -> dict[str, bytes]:
        """The contents of the files, without those that another process removes meanwhile."""
        signs: dict[str, bytes] = {}
        with suppress(FileNotFoundError):
            for file in sorted((self._folder / SIGNS).iterdir()):
                if not file.name.startswith("."):
                    with suppress(FileNotFoundError):
                        signs[file.name] = file.read_bytes()
        return signs

    def unsign(self, name: str) -> None:
        """Remove the file."""
        (self._folder / SIGNS / name).unlink(missing_ok=True)

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]


_AGE = "EXTRACT(EPOCH FROM clock_timestamp() - created)"


class SharedBlobs:
    """A table of the shared store."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()

    def put(self, digest: str, data: bytes) -> None:
        """Store bytes in a row, unless a young one has them."""
        with self._lock:
            row = self._database.execute(f"SELECT {_AGE} FROM blob WHERE digest = ?", (digest,)).fetchone()
            if row is None or float(row[0]) >= YOUNG:
                self._database.execute(
                    "INSERT INTO blob (digest, body) VALUES (?, ?)"
                    " ON CONFLICT (digest) DO UPDATE SET created = now()",
                    (digest, data),
                )

    def get(self, digest: str) -> bytes:
        """The bytes of a blob, verified."""
        with self._lock:
            row = self._database.execute("SELECT body FROM blob WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise _missing(digest, "the shared store")
        return checked(digest, bytes(row[0]), "the shared store")

    def stored(self) -> Iterator[Stored]:
        """The rows whose names are digests; the others are signs."""
        with self._lock:
            rows = list(
                self._database.execute(f"SELECT digest, octet_length(body), {_AGE} FROM blob ORDER BY digest")
            )
        return (Stored(row[0], row[1], float(row[2])) for row in rows if DIGEST.fullmatch(row[0]))

    def remove(self, digest: str, age: float) -> bool:
        """Delete the row of a blob, in one statement with the check of its age."""
        with self._lock:
            self._database.execute(f"DELETE FROM blob WHERE digest = ? AND {_AGE} >= ?", (digest, age))
            return self._database.execute("SELECT 1 FROM blob WHERE digest = ?", (digest,)).fetchone() is None

    def tidy(self) -> None:
        """Do nothing: a row is put or removed in one statement."""

    def sign(self, name: str, content: bytes) -> None:
        """Record a user, in a row whose name is no digest."""
        self.put(f"{SIGNS}/{name}", content)

    def signs(self) -> dict[str, bytes]:
        """The contents of the rows of signs."""
        with self._lock:
            rows = list(
                self._database.execute(
                    "SELECT digest, body FROM blob WHERE digest LIKE ? ORDER BY digest", (f"{SIGNS}/%",)
                )
            )
        return {row[0].partition("/")[2]: bytes(row[1]) for row in rows}

    def unsign(self, name: str) -> None:
        """Remove the row."""
        with self._lock:
            self._database.execute("DELETE FROM blob WHERE digest = ?", (f"{SIGNS}/{name}",))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def checked(digest: str, data: bytes, where: str) -> bytes:
    """The bytes, if they match the digest; else raises BlobMissing."""
    if sha256(data).hexdigest() != digest:
        raise BlobMissing(f"blob {digest} in {where} is not what was stored")
    return data


def _tidy(file: Path) -> None:
    """Remove a leftover file, or give it back its name if it is a blob that has no other.

    Files younger than an hour, by the time of their last change or renaming, may still be in use.
    """
    if time.time() - file.stat().st_ctime < YOUNG or not file.name.startswith((_NEW, _ASIDE)):
        return
    if file.name.startswith(_ASIDE):
        name = file.name.removeprefix(_ASIDE).rpartition("-")[0]
        with suppress(FileExistsError):
            os.link(file, file.with_name(name))  # unlike a renaming it replaces no file that was put since
    file.unlink()


def _missing(digest: str, where: str) -> BlobMissing:
    return BlobMissing(f"blob {digest} is not in {where}")


class Swept(NamedTuple):
    """What was removed, or would be: digests and their total bytes; how many are kept as needed or young."""

    removed: tuple[str, ...]
    bytes: int
    needed: int
    young: int


def sweep(blobs: Blobs, needed: Collection[str], age: float, *, dry_run: bool) -> Swept:
    """Remove blobs that are not `needed` and were not put within `age` seconds. Raises OSError.

    What processes left that died while they put or removed a blob goes as well, unless `dry_run`.
    """
    if not dry_run:
        blobs.tidy()
    removed, size, count, young = list[str](), 0, 0, 0
    for blob in blobs.stored():
        if blob.digest in needed:
            count += 1
        elif blob.age >= age and (dry_run or blobs.remove(blob.digest, age)):
            removed.append(blob.digest)
            size += blob.size
        else:
            young += 1
    return Swept(tuple(removed), size, count, young)
