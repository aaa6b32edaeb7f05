"""Connects to the PostgreSQL database of the shared store at first use, and again after a lost connection.

In: an address, statements with `?` for values. Out: rows, or StoreUnreachable.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg
from psycopg import sql

from callsheet.store.database import Answer, storable
from callsheet.store.labels import LEFT_AT
from callsheet.store.labels import TABLES as LABEL_TABLES
from callsheet.store.shared.opening import shown

_T = TypeVar("_T")
_SCHEMA = "callsheet"
_VERSION = 1
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS text ("
    "folder TEXT NOT NULL, name TEXT NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (folder, name))",
    "CREATE TABLE IF NOT EXISTS blob ("
    "digest TEXT PRIMARY KEY, body BYTEA NOT NULL, created TIMESTAMPTZ NOT NULL DEFAULT now())",
    *LABEL_TABLES,
    LEFT_AT,
)
_PATIENCE = 10
"""Seconds to wait for a connection."""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"


class StoreUnreachable(OSError):
    """The shared store cannot be used; the text says why and what can be done."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(0, f"the store at {shown(address)} cannot be used: {why}")


class PostgresDatabase:
    """The tables of the shared store, in a schema of their own. For one thread, and one change at a time."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection: psycopg.Connection | None = None

    def execute(self, statement: str, values: Sequence[object] = ()) -> Answer:
        """Execute one statement; outside a transaction it may be executed twice if the connection is lost."""
        return self._retry(lambda held: self._execute(held, statement, values))

    @contextmanager
    def changing(self, what: str) -> Generator[None]:
        """A transaction that excludes those of other machines with the same `what`."""

        def begun(connection: psycopg.Connection) -> None:
            connection.execute("BEGIN")
            self._execute(connection, _LOCK, (what,))

        with self._within(begun):
            yield

    @contextmanager
    def looking(self) -> Generator[None]:
        """A transaction that reads everything as it was at one moment, and excludes no other."""
        with self._within(lambda held: held.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")):
            yield

    @contextmanager
    def _within(self, begun: Callable[[psycopg.Connection], object]) -> Generator[None]:
        self._retry(begun)
        try:
            yield
        except BaseException:
            with suppress(StoreUnreachable):  # then it is rolled back already
                self._end(b"ROLLBACK")
            raise
        self._end(b"COMMIT")

    def has_tables(self) -> bool:
        """Whether its tables exist; creates none. Raises StoreUnreachable if it cannot be used."""
        try:
            with _reached(self.address) as connection:
                return _has_tables(connection)
        except psycopg.Error as error:
            raise self._wrong(error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, connection: psycopg.Connection, statement: str, values: Sequence[object]) -> Answer:
        return connection.execute(_translated(statement), storable(values))

    def _end(self, how: bytes) -> None:
        connection = self._connection
        try:
            if connection is not None:
                connection.execute(how)
        except psycopg.Error as error:
            raise self._wrong(error) from error

    def _retry(self, work: Callable[[psycopg.Connection], _T]) -> _T:
        """Call `work`, and retry on a new connection if the old one is lost and no transaction is open."""
        connection = self._connected()
        is_open = connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE
        try:
            return work(connection)
        except psycopg.OperationalError as error:
            if is_open or not connection.closed:
                raise self._wrong(error) from error
        except psycopg.Error as error:
            raise self._wrong(error) from error
        connection = self._connected()
        try:
            return work(connection)
        except psycopg.Error as error:
            raise self._wrong(error) from error

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = _connect(self.address)
            except psycopg.Error as error:
                raise self._wrong(error) from error
        return self._connection

    def _wrong(self, error: psycopg.Error) -> StoreUnreachable:
        return StoreUnreachable(
            self.address, str(error).strip().splitlines()[0] if str(error) else repr(error)
        )


def _connect(address: str) -> psycopg.Connection:
    """A connection to the tables, which are made if need be; raises psycopg.Error."""
    connection = _reached(address)
    try:
        if not _has_tables(connection):
            _make(connection)
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(_SCHEMA)))
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _reached(address: str) -> psycopg.Connection:
    return psycopg.connect(
        address, autocommit=True, connect_timeout=_PATIENCE, application_name="callsheet", prepare_threshold=5
    )


def _has_tables(connection: psycopg.Connection) -> bool:
    row = connection.execute("SELECT to_regclass(%s)", (f"{_SCHEMA}.about",)).fetchone()
    return row is not None and row[0] is not None


def _make(connection: psycopg.Connection) -> None:
    """Create the tables, under a lock, as several machines may connect first at the same time."""
    with connection.transaction():
        connection.execute(_translated(_LOCK), ("tables",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(_SCHEMA)))
        connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(sql.Identifier(_SCHEMA)))
        for table in _TABLES:
            connection.execute(table.encode())
        connection.execute("INSERT INTO about SELECT %s WHERE NOT EXISTS (SELECT 1 FROM about)", (_VERSION,))


def _check(connection: psycopg.Connection) -> None:
    row = connection.execute("SELECT max(version) FROM about").fetchone()
    if row is None or row[0] != _VERSION:
        raise psycopg.DatabaseError(
            f"its tables have version {row and row[0]}; this version of callsheet reads version {_VERSION}"
        )


def _translated(statement: str) -> bytes:
    return statement.replace("%", "%%").replace("?", "%s").encode()
