"""Opens the SQLite file of facts and working memory, and creates its tables."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.ports.calls import ToolFailed

if TYPE_CHECKING:
    import sqlite3

_TABLES = """
CREATE TABLE IF NOT EXISTS fact (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    importance REAL NOT NULL,
    stored_at REAL NOT NULL,
    UNIQUE (namespace, content)
);
CREATE TABLE IF NOT EXISTS delivery (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    fact INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS fact_text
    USING fts5 (content, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE IF NOT EXISTS working (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (namespace, run, key)
) WITHOUT ROWID;
"""


_PATIENCE = 10.0
"""Seconds that a connection waits for a lock."""


@contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """A connection in a transaction that is committed at the end; raises ToolFailed if that fails."""
    import sqlite3  # noqa: PLC0415 - only runs that remember something need it

    connection: sqlite3.Connection | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        _prepare(connection)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise ToolFailed(f"memory cannot be used: {error}") from None
    except OSError as error:
        raise ToolFailed(f"memory cannot be used: {error.strerror or error}") from None
    finally:
        if connection is not None:
            connection.close()


def _into_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode, retrying while it is locked: SQLite's busy timeout does not cover this."""
    import sqlite3  # noqa: PLC0415 - as above

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _prepare(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'working'").fetchone():
        return
    if not connection.execute("SELECT sqlite_compileoption_used('ENABLE_FTS5')").fetchone()[0]:
        raise ToolFailed("memory needs SQLite with FTS5, which this Python's SQLite lacks")
    _into_wal(connection)
    connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
