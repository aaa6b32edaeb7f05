"""The single connection through which the threads of a process read a journal, one at a time.

In: queries. Out: rows, or a JournalError that says whether the disk or the file is at fault. No read
transaction outlives a call, so that readers never delay a checkpoint.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from callsheet.store.errors import closed, damaged
from callsheet.store.journal_paths import JournalPaths
from callsheet.store.schema import connect_reading, is_of_the_disk, unusable


class ReadConnection:
    """A read-only connection that any thread may use.

    `settle` is called before each read; it moves committed entries from tails into the database.
    """

    def __init__(
        self,
        place: JournalPaths,
        connection: sqlite3.Connection | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        self._place = place
        self._settle = settle
        self._mutex = threading.Lock()
        self._connection = connection or connect_reading(place.database)
        self._is_closed = False

    def close(self) -> None:
        """Close the connection."""
        with self._mutex:
            self._is_closed = True
            self._connection.close()

    def select(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; raises JournalError (JRN010, JRN012)."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    def select_many(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """As `select`, but faster per row: damaged texts are decoded leniently only if there are any."""
        with self.reading() as connection:
            lenient = connection.text_factory
            connection.text_factory = str
            try:
                return connection.execute(query, values).fetchall()
            except sqlite3.OperationalError:
                pass
            finally:
                connection.text_factory = lenient
            return connection.execute(query, values).fetchall()

    @contextmanager
    def reading(self, *, settles: bool = True) -> Generator[sqlite3.Connection]:
        """The connection, locked for the caller; raises JournalError (JRN010, JRN012)."""
        if settles:
            self._settle()
        with self._mutex:
            try:
                yield self._connection
            except sqlite3.ProgrammingError:
                if self._is_closed:
                    raise closed(self._place.database) from None
                raise
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # of a table's or column's name
                if is_of_the_disk(error):
                    raise unusable(self._place.database, error) from error
                raise damaged(f"{self._place.database} cannot be read: {error}") from error
