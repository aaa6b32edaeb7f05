"""A database with tables of rows, as the stores beside the journal need one: SQLite's by default.

In: statements in the SQL that SQLite and PostgreSQL share, with `?` for values. Out: rows. What fails is one
of `UNAVAILABLE`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

UNAVAILABLE = (sqlite3.Error, OSError)
"""What is raised where a database cannot be used."""
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Answer(Protocol):
    """What a statement gives: its rows, and how many it has changed."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        ...

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Database(Protocol):
    """Tables of rows. For one thread."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Answer:
        """Carry one statement out; outside of a change it is durable when this returns."""
        ...

    def changing(self, what: str) -> AbstractContextManager[object]:
        """A transaction that holds off others that change the same, until its end."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class SqliteDatabase:
    """The tables of one SQLite file, or of memory; the connection leaves transactions to this."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> Answer:
        """Carry one statement out."""
        return self._connection.execute(statement, storable(values))

    @contextmanager
    def changing(self, what: str) -> Generator[None]:
        """A transaction that holds off all other writers of the file."""
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
    """Values as every database can have them: in texts NUL, and halves of characters, are written out."""
    return [
        _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if isinstance(value, str) else value
        for value in values
    ]
