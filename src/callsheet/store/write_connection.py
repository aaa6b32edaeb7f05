"""The single connection through which a process writes a journal, with transactions under the write lock.

In: functions to call in a transaction. Out: their results; the changes are committed or rolled back as a
whole, and no other process writes meanwhile. The owner of the connection must serialise threads.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from callsheet.store.errors import WrongProcess
from callsheet.store.journal_paths import JournalPaths
from callsheet.store.lock import WriteLock
from callsheet.store.schema import Durability, LogMark, connect_writing, file_at, log_path, remove_log

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

    def is_displaced(self) -> bool:
        """Whether the path no longer leads to the file that was there at first: it was removed or replaced.

        Checked at most once in a millisecond.
        """
        now = time.monotonic()
        if now > self._looks_at and self._file is not None and not self._is_displaced:
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
