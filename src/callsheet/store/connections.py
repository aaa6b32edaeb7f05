"""A process's connections to a journal: one that its threads read through, one that writes under the lock.

In: queries, and functions to call in a transaction. Out: rows and results, or a JournalError that says
whether the disk or the file is at fault. No read transaction outlives a call, so that readers never delay a
checkpoint. Changes are committed or rolled back as a whole, and no other process writes meanwhile; the owner
of the writing connection must serialise threads.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from callsheet.store.errors import JournalError, WrongProcess, closed, damaged
from callsheet.store.inserts import insert_left
from callsheet.store.journal_paths import JournalPaths, refuse_special
from callsheet.store.lock import WriteLock
from callsheet.store.schema import (
    APPLICATION_ID,
    PART,
    SCHEMA_VERSION,
    Durability,
    LogMark,
    add_index,
    connect_reading,
    connect_writing,
    file_at,
    is_marked,
    is_of_the_disk,
    log_path,
    other_format,
    remove_log,
    set_aside_foreign_log,
    unusable,
)
from callsheet.store.tail import left_tails


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
        self._connection.create_function(PART, 2, _has_part, deterministic=True)
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

    def copied(self) -> ReadConnection:
        """A copy in memory as of now, with the index of runs; its `reading` connection can be changed."""
        with self.reading() as connection:
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            copy.text_factory = connection.text_factory
            connection.backup(copy)
            add_index(copy)
        return ReadConnection(self._place, copy)

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
            except (sqlite3.DatabaseError, UnicodeError) as error:  # of a name in the schema, or a value
                if is_of_the_disk(error):
                    raise unusable(self._place.database, error) from error
                raise damaged(f"{self._place.database} cannot be read: {error}") from error


def _has_part(text: str | None, part: str) -> bool:
    return text is not None and part in text.lower()


def connect_to_look(place: JournalPaths) -> sqlite3.Connection:
    """A connection that reads a journal, which this process need not be able to write.

    If the file cannot be written and a dead process left a tail beside it, the connection is to a copy in
    memory that includes the entries of the tail.

    Raises JournalError: JRN008 for another program's file, JRN009 for another format, JRN010 if there is no
    file or it cannot be read, JRN012 if it is damaged.
    """
    path = place.database
    try:
        refuse_special(path)
        with path.open("rb"):
            pass
        set_aside_foreign_log(place)
        connection, application, version = _looked_at(path)
    except (OSError, sqlite3.OperationalError) as error:
        raise _unreadable(path, error) from error
    except sqlite3.DatabaseError as error:
        if is_marked(path):
            raise damaged(f"{path} cannot be read: {error}") from error
        connection, application, version = None, 0, 0
    if connection is not None and (application, version) == (APPLICATION_ID, SCHEMA_VERSION):
        return connection if os.access(path, os.W_OK) else _with_left(connection, place)
    if connection is not None:
        connection.close()
    if application != APPLICATION_ID:
        raise JournalError("JRN008", f"{path} is not a journal of callsheet", "name another file")
    raise other_format(path, version)


def _with_left(connection: sqlite3.Connection, place: JournalPaths) -> sqlite3.Connection:
    """The connection, or one to a copy in memory that includes the tails of dead processes."""
    lefts = left_tails(place.run_locks)
    if not lefts:
        return connection
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    copy.text_factory = connection.text_factory
    try:
        connection.backup(copy)
        for tail in lefts:
            insert_left(copy.cursor(), tail.entries())
    except BaseException:
        copy.close()
        raise
    finally:
        connection.close()
        for tail in lefts:
            tail.close(is_done=False)
    return copy


def _looked_at(path: Path) -> tuple[sqlite3.Connection, int, int]:
    """A connection, and the application id and format version of its file."""
    connection = connect_reading(path)
    try:
        return connection, *_format_of(connection)
    except sqlite3.OperationalError:
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size > 0:
            raise
    except BaseException:
        connection.close()
        raise
    # SQLite cannot create its WAL files here. Without a WAL the file is complete, and nobody writes it.
    lenient = connection.text_factory
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = lenient
    try:
        return connection, *_format_of(connection)
    except BaseException:
        connection.close()
        raise


def _format_of(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _unreadable(path: Path, error: Exception) -> JournalError:
    if isinstance(error, FileNotFoundError):
        return JournalError(
            "JRN010", f"there is no journal {path}", "name the journal with the runs: --journal PATH"
        )
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return JournalError(
        "JRN010", f"the journal {path} cannot be read: {reason}", "name a journal that you can read"
    )


_T = TypeVar("_T")

FAILURES = (sqlite3.DatabaseError, OSError, UnicodeDecodeError)
"""What a failing disk or a damaged file can raise; the last is for a table name that is not UTF-8."""
_BETWEEN_LOOKS = 0.001


class WriteConnection:
    """Connects at the first transaction; can be used only by the process that created it.

    `cursor` and `lock` are None until then.
    """

    def __init__(self, place: JournalPaths, durability: Durability) -> None:
        self._place = place
        self._durability = durability
        self._pid = os.getpid()
        self._file = file_at(place.database)
        self._looks_at = 0.0
        self._is_displaced = False
        self._log: tuple[int, int] | None = None
        """The log of the connection, as `_file`."""
        self._mark = LogMark(place)
        self.cursor: sqlite3.Cursor | None = None
        self.lock: WriteLock | None = None
        self.is_closed = False

    @property
    def is_ours(self) -> bool:
        """Whether this process created it, and is not a forked child."""
        return os.getpid() == self._pid

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.cursor is not None and self.cursor.connection.in_transaction

    def check_process(self) -> None:
        """Raise WrongProcess in a forked child: its copy of the connection must not be touched."""
        if not self.is_ours:
            raise WrongProcess(self._pid)

    def is_displaced(self, *, at_once: bool = False) -> bool:
        """Whether the path no longer leads to the file that was there at first: it was removed or replaced.

        Checked at most once in a millisecond, unless `at_once`.
        """
        now = time.monotonic()
        if (at_once or now > self._looks_at) and self._file is not None and not self._is_displaced:
            self._looks_at = now + _BETWEEN_LOOKS
            self._is_displaced = file_at(self._place.database) != self._file
        return self._is_displaced

    def move_to(self, path: Path) -> None:
        """Copy all that this connection sees to a database at `path`; raises as `transact` does.

        The log of this connection is removed, beside the lost place or where it was set aside: SQLite would
        apply it to whatever database is there next.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        cursor = self.connected()
        with self._turn(), closing(sqlite3.connect(path)) as copy:
            cursor.connection.backup(copy)
        if self._log is not None:
            remove_log(self._place, self._log)

    def transact(self, work: Callable[[sqlite3.Cursor], _T]) -> _T:
        """Call `work` in a transaction of its own, and give its result.

        Raises what `work` raises, WrongProcess, or one of FAILURES; then nothing was changed.
        """
        with self._turn():
            cursor = self.cursor or self._connect()
            try:
                cursor.execute("BEGIN IMMEDIATE")
                result = work(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if cursor.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise
        return result

    def connected(self) -> sqlite3.Cursor:
        """The cursor; connects if that was not done before. Raises as `transact` does."""
        if self.cursor is not None:
            return self.cursor
        with self._turn():
            return self._connect()

    def compact(self) -> None:
        """Rewrite the file without its free pages, and truncate the WAL; raises as `transact` does."""
        cursor = self.connected()
        with self._turn():
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close the connection; if it is the last one to the database, SQLite checkpoints the WAL."""
        self.is_closed = True
        cursor, lock = self.cursor, self.lock
        self.cursor = self.lock = None
        if cursor is not None and lock is not None:
            try:
                with lock:
                    cursor.connection.close()
            except TimeoutError:
                cursor.connection.close()  # another process writes: not the last, no checkpoint
        if lock is not None:
            lock.close()
        self._mark.remove()

    def _turn(self) -> WriteLock:
        """The write lock; raises WrongProcess, or sqlite3.ProgrammingError once closed."""
        self.check_process()
        if self.is_closed:
            raise sqlite3.ProgrammingError("the journal is closed")
        if self.lock is None:
            self.lock = WriteLock(self._place.write_lock)
        return self.lock

    def _connect(self) -> sqlite3.Cursor:
        """Connect, and mark the log before the write lock is released: until then nobody can misjudge it."""
        cursor = self.cursor = connect_writing(self._place.database, self._durability).cursor()
        self._log = file_at(log_path(self._place))
        if self._log is not None and self._file is not None and not self.is_displaced():
            self._mark.write(self._file, self._log)
        return cursor
