"""Opens the shared store, which the extra `postgres` brings the driver for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.shared.postgres import PostgresDatabase


def open_database(address: str) -> PostgresDatabase:
    """The database at an address, connected when it is first used.

    Raises CallsheetError (CFG231) where the driver is not installed.
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
