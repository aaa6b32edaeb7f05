"""The interface of the SQL database behind the stores beside the journal, and its SQLite implementation.

In: statements in the SQL that SQLite and PostgreSQL share, with `?` for values. Out: rows. Failures are
exceptions of `UNAVAILABLE`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from callsheet import lazy

UNAVAILABLE = (sqlite3.Error, OSError)
"""What is raised if a database cannot be used."""
_UNSTORABLE = lazy.pattern("[\x00\ud800-\udfff]")


class Answer(Protocol):
    """The result of a statement: its rows, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last."""
        ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Database(Protocol):
    """A connection to a database, for use by one thread."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Answer:
        """Execute one statement; outside a transaction it is durable when this returns."""
        ...

    def changing(self, what: str) -> AbstractContextManager[object]:
        """A transaction that excludes other transactions with the same `what` until its end."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SqliteDatabase:
    """A database in one SQLite file or in memory; the connection must be in autocommit mode."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Answer:
        """Execute one statement."""
        return self._connection.execute(statement, storable(values))

    @contextmanager
    def changing(self, what: str) -> Generator[None]:
        """A transaction that excludes all other writers of the file."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def storable(values: Sequence[object]) -> list[object]:
    """Values that every database can store: NUL and lone surrogates in texts are escaped as `\\uXXXX`."""
    return [
        _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if isinstance(value, str) else value
        for value in values
    ]
