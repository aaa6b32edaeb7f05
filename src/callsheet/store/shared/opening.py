"""Opens shared stores; their drivers come with the extras `postgres` and `s3`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.diagnostics import CallsheetError
from callsheet.store.shared.address import shown
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
