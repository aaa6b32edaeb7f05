"""Shared stores by the address in the environment, and their texts; drivers come with `postgres` and `s3`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.shared.blobs import Blobs
    from callsheet.store.shared.postgres import PostgresDatabase


def open_database(address: str) -> PostgresDatabase:
    """The database at an address, connected when it is first used.

    Raises CallsheetError (CFG231) if the driver is not installed.
    """
    try:
        from callsheet.store.shared.postgres import PostgresDatabase  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise CallsheetError.single(
            "CFG231",
            f"the shared store needs a driver for PostgreSQL: {error}",
            help="pip install 'callsheet[postgres]'",
        ) from error
    return PostgresDatabase(address)


def open_blobs(place: str) -> Blobs:
    """The large values at a place: a folder, `s3://BUCKET/PREFIX`, or `postgresql://…`.

    Raises CallsheetError: CFG230 for an address of another kind, CFG231 if its driver is not installed.
    """
    from callsheet.store.shared.blobs import FolderBlobs, SharedBlobs  # noqa: PLC0415 - only where there is one

    scheme, is_address, _ = place.partition("://")
    if not is_address:
        return FolderBlobs(Path(place))
    match scheme:
        case "postgresql" | "postgres":
            return SharedBlobs(open_database(place))
        case "s3":
            return _objects(place)
        case _:
            raise CallsheetError.single(
                "CFG230",
                f"large values cannot be stored at {shown(place)}",
                help="name a folder, s3://BUCKET/PREFIX, or postgresql://USER@HOST/DATABASE",
            )


def _objects(place: str) -> Blobs:
    try:
        from callsheet.store.shared.objects import ObjectBlobs  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise CallsheetError.single(
            "CFG231", f"an object store needs obstore: {error}", help="pip install 'callsheet[s3]'"
        ) from error
    try:
        return ObjectBlobs(place)
    except OSError as error:
        raise CallsheetError.single(
            "CFG230", error.strerror or str(error), help="write s3://BUCKET/PREFIX"
        ) from error


VARIABLE = "CALLSHEET_STORE"
"""The variable with the address of the shared store."""
_UNREADABLE = "an address that cannot be read"
_SCHEMES = ("postgresql", "postgres")


def shared_address(environ: Mapping[str, str] | None = None) -> str | None:
    """The address of the shared store; None if none is configured.

    Raises CallsheetError (CFG230) for one that is not `postgresql://…`.
    """
    address = (os.environ if environ is None else environ).get(VARIABLE, "").strip()
    if not address:
        return None
    if urlsplit(address).scheme not in _SCHEMES:
        raise CallsheetError.single(
            "CFG230",
            f"${VARIABLE} (or `store` in config.toml) is not the address of a shared store: {shown(address)}",
            help="write postgresql://USER@HOST:PORT/DATABASE; a password belongs in ~/.pgpass or $PGPASSWORD",
        )
    return address


def without_password(address: str) -> str:
    """An address without its password; a path is unchanged."""
    parts = urlsplit(address)
    if not parts.scheme or parts.password is None:
        return address
    who, _, where = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{who.partition(':')[0]}@{where}").geturl()


def shown(address: str) -> str:
    """An address for messages: without password and options.

    >>> shown("postgresql://ada:pw@db.example/x?sslmode=require"), shown("db.example")
    ('postgresql://ada@db.example/x', 'db.example')
    >>> shown("ada:pw@db.example/x")
    'an address that cannot be read'
    """
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _UNREADABLE
    if not parts.netloc:  # then a password could be anywhere
        return _UNREADABLE if set(address) & set("@=:") else address[:80]
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


class SharedFiles:
    """The texts below one name of the store, such as `plans`; changes under the lock are one transaction."""

    def __init__(self, database: PostgresDatabase, below: str) -> None:
        self._database = database
        self._below = below

    @property
    def address(self) -> str:
        """The address of the store, without its password, and the name that the texts are below."""
        return f"{shown(self._database.address)}/{self._below}"

    def place(self, name: str) -> str:
        """The address of a text."""
        return f"{self.address}/{name}"

    def names(self, folder: str = "") -> list[str]:
        """The names of the texts of a folder, in order."""
        rows = self._database.execute("SELECT name FROM text WHERE folder = ?", (self._folder(folder),))
        return sorted(name for (name,) in rows)

    def read(self, name: str) -> bytes:
        """The bytes of a text; raises FileNotFoundError if there is none."""
        row = self._database.execute(
            "SELECT body FROM text WHERE folder = ? AND name = ?", self._split(name)
        ).fetchone()
        if row is None:
            raise FileNotFoundError(2, "there is no such text", self.place(name))
        return bytes(row[0])

    def write(self, name: str, text: str) -> None:
        """Put a text in its place."""
        self._database.execute(
            "INSERT INTO text VALUES (?, ?, ?) ON CONFLICT (folder, name) DO UPDATE SET body = excluded.body",
            (*self._split(name), text.encode("utf-8", "surrogatepass")),
        )

    def remove(self, names: Iterable[str]) -> None:
        """Remove texts."""
        for name in names:
            self._database.execute("DELETE FROM text WHERE folder = ? AND name = ?", self._split(name))

    def remove_folder(self, folder: str) -> None:
        """Remove all texts of a folder."""
        self._database.execute("DELETE FROM text WHERE folder = ?", (self._folder(folder),))

    def move(self, old: str, new: str) -> None:
        """Give a text another name, in place of what has that name."""
        self.remove([new])
        self._database.execute(
            "UPDATE text SET folder = ?, name = ? WHERE folder = ? AND name = ?",
            (*self._split(new), *self._split(old)),
        )

    def move_folder(self, old: str, new: str) -> None:
        """Give all texts of a folder to another one."""
        self._database.execute(
            "UPDATE text SET folder = ? WHERE folder = ?", (self._folder(new), self._folder(old))
        )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other writers out; what is written meanwhile is there for all at once, or not at all."""
        return self._database.changing(f"texts {self._below}")

    def steady(self) -> AbstractContextManager[None]:
        """Texts are read inside as they were at one moment; writers are not kept waiting."""
        return self._database.looking()

    def _folder(self, folder: str) -> str:
        return f"{self._below}/{folder}".rstrip("/")

    def _split(self, name: str) -> tuple[str, str]:
        path = PurePosixPath(name)
        return self._folder("" if len(path.parts) == 1 else path.parent.as_posix()), path.name
