"""Opens shared stores by the address in the environment; drivers come with the extras `postgres` and `s3`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from callsheet.diagnostics import CallsheetError
from callsheet.store.shared.blobs import Blobs, FolderBlobs, SharedBlobs

if TYPE_CHECKING:
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
