"""The one writing connection of a process: a transaction for everything that is due, all or nothing.

In: what runs have pending. Out: the same in the journal, or a JournalError for each run that
could not be written. Processes take turns under the write lock, threads under a mutex.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from callsheet.store import inbox
from callsheet.store.blobs import ROW_LIMIT, blob_path, insert_blob, write_blob_file
from callsheet.store.errors import Fenced, JournalError, JournalWriteFailed, WrongProcess
from callsheet.store.events import GENESIS
from callsheet.store.lock import RunLock, WriteLock
from callsheet.store.pending import PLAIN_ROWS, Blob, Pending, Portion, Row, RunRow
from callsheet.store.place import Place, require_room
from callsheet.store.schema import SEQ_BITS, Durability, connect_writing
from callsheet.store.tail import Kept, Left, Tail, fits, left_tails

_T = TypeVar("_T")

_COLUMNS = "id, epoch, type, key, step, idx, attempt, ts, mono, body, covers, intents, hash"
_MARKS = ", ".join("?" * len(_COLUMNS.split(", ")))
_INSERT_EVENT = f"INSERT INTO events ({_COLUMNS}) VALUES ({_MARKS})"
_INSERT_LARGE = f"INSERT INTO events ({_COLUMNS}, blob) VALUES ({_MARKS}, ?)"
_INSERT_FENCED = [
    f"INSERT INTO events ({_COLUMNS}) SELECT * FROM (VALUES "
    + ", ".join([f"({_MARKS})"] * count)
    + ") WHERE (SELECT epoch FROM runs WHERE number = ?) = ?"
    for count in range(PLAIN_ROWS + 1)
]
_HAS_PLAN = "SELECT 1 FROM plans WHERE plan_hash = ?"
_INSERT_PLAN = (
    "INSERT INTO plans (plan_hash, ir_version, id, title, body, source, created) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_RUN = (
    "INSERT INTO runs (run_id, plan_hash, parent_run, core_version, owner, status, epoch, created, updated)"
    " VALUES (?, ?, ?, ?, ?, 'running', 1, ?, ?)"
)


_BLOB = 10
"""The place of the blob in a row."""
_MOST_TAILED = 100
"""So many runs may have entries in the tail; a fold takes them all in one transaction."""
_FAILURES = (sqlite3.DatabaseError, OSError, UnicodeDecodeError)
"""What a disk or a damaged file can bring; the last is the name of a table that is no text."""


class _Due(NamedTuple):
    pending: Pending
    portion: Portion


class Ledger:
    """Writes the journal; nothing else in the process does. Connects with the first transaction."""

    def __init__(self, place: Place, durability: Durability, clock: Callable[[], float]) -> None:
        self._place = place
        self._durability = durability
        self._clock = clock
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._waits = durability is not Durability.FULL
        """Whether entries may wait in a tail: only where no sync is asked for."""
        self._tail: Tail | None = None
        self._tailed: dict[Pending, None] = {}
        """The runs with entries in the tail, in the order in which they came."""
        self._lock: WriteLock | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._synced: set[Path] = set()
        """The folders of large values whose names are on the disk."""
        self._is_closed = False

    def check_process(self) -> None:
        """Raise WrongProcess in a forked child: its copy of the connection must not be touched."""
        if os.getpid() != self._pid:
            raise WrongProcess(self._pid)

    def write(self, dues: Sequence[tuple[Pending, int]]) -> list[JournalError | None]:
        """Write each run's events up to a sequence number, all in one transaction.

        Gives, run by run, None or why it was not written; what was not stays pending.
        """
        with self._mutex:
            errors = self._write([_Due(pending, pending.take(upto)) for pending, upto in dues])
            for (pending, _), error in zip(dues, errors, strict=True):
                self._note(pending, error)
        return errors

    def write_own(self, pending: Pending, lock: RunLock) -> bool:
        """Write all that a run has pending, for the thread that appends to it; raises the JournalError.

        Entries go to the tail where no sync is asked for; gives whether some wait there. One who has lost
        the run's `lock` may not rely on that: the database says whose the run is.
        """
        with self._mutex:
            if self._waits and lock.is_named and self._put_into_tail(pending):
                return pending.tailed > 0
            rows = None if pending.tailed else pending.plain_rows()
            if rows is not None and self._write_plain(pending, rows):
                pending.written_plain()
                return False
            if not pending.is_empty:
                (error,) = self._write([_Due(pending, pending.take(pending.last_seq))])
                self._note(pending, error)
                if error is not None:
                    raise error
        return pending.tailed > 0

    def settle(self) -> None:
        """Bring what waits in tails into the database: in this process's, and in those of dead processes.

        What cannot be brought now stays where it is.
        """
        if os.getpid() != self._pid or self._is_closed:
            return
        with self._mutex:
            if self._cursor is not None and self._cursor.connection.in_transaction:
                return
            if self._tailed:
                self._fold()
            with suppress(*_FAILURES):
                self._bring_in_left()

    def release(self, pending: Pending) -> bool:
        """Whether nothing of a run waits in the tail any more, so that another process may own it."""
        if pending.tailed:
            self.write([(pending, pending.durable_seq)])
        return not pending.tailed

    def _put_into_tail(self, pending: Pending) -> bool:
        """Let the entries that are due wait in the tail; False where they must go into the database."""
        rows = pending.for_the_tail()
        if rows is None or len(self._tailed) > _MOST_TAILED:
            return False
        if not rows:
            return True
        try:
            if self._tail is None:
                self.check_process()
                self._tail = Tail(self._place.run_locks)
            if not self._tail.append(pending.number, rows, pending.lines[-len(rows) :]):
                return False
        except OSError:
            return False  # the database will say what is wrong with the disk
        pending.put_into_tail()
        self._tailed[pending] = None
        return True

    def _fold(self) -> None:
        """Bring this process's tail into the database; what fails is noted with the runs."""
        self.write([(pending, pending.durable_seq) for pending in self._tailed])

    def _note(self, pending: Pending, error: JournalError | None) -> None:
        """Know that a run has been written, or why not; the tail is cleared once nothing waits in it."""
        if error is not None:
            pending.blocked = error
        if not self._tailed:
            return
        if isinstance(pending.blocked, Fenced):
            pending.tailed = 0
        if not pending.tailed:
            self._tailed.pop(pending, None)
        if not self._tailed and self._tail is not None and not self._tail.is_empty:
            self._tail.clear()

    def _bring_in_left(self) -> None:
        """Bring in the tails of dead processes; raises what a disk or a damaged file can bring."""
        own = "" if self._tail is None else self._tail.path.name
        lefts, done = left_tails(self._place.run_locks, own), set[Left]()
        try:
            for left in lefts:
                if not os.access(self._place.database, os.W_OK):
                    break  # who only looks reads a copy
                entries = list(left.entries())
                if entries:
                    self._transact(lambda cursor, kept=entries: insert_left(cursor, kept))
                done.add(left)
        finally:
            for left in lefts:
                left.close(is_done=left in done)

    def _write_plain(self, pending: Pending, rows: list[Row]) -> bool:
        """Insert a few rows by one statement, which checks the epoch and is a transaction of its own.

        Gives False if nothing was written: the long way finds out why. Raises JournalWriteFailed
        if the lock was not to be had.
        """
        cursor, lock = self._cursor, self._lock
        if cursor is None or lock is None:
            return False
        base = pending.number << SEQ_BITS
        values: list[object] = []
        for row in rows:
            values += _values(base, row)
        values += (pending.number, pending.epoch)
        try:
            with lock:
                cursor.execute(_INSERT_FENCED[len(rows)], values)
        except sqlite3.DatabaseError:
            return False
        except OSError as error:
            pending.blocked = self._failed(pending, error)
            raise pending.blocked from error
        return cursor.rowcount == len(rows)

    def has_run(self, run_id: str) -> bool | None:
        """Whether there is a run of this id; None where that has to be asked of who reads.

        It is asked before a run is begun, which needs the connection that writes in any case: another one
        would only have to read the tables' schema as well.
        """
        with self._mutex:
            try:
                cursor = self._cursor or self._connect_in_turn()
                if cursor.connection.in_transaction:
                    return None
                return bool(cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchall())
            except _FAILURES:
                return None

    def require_room(self, run_id: str) -> None:
        """Raise JournalWriteFailed if the disk is full, or nearly."""
        try:
            require_room(self._place)
        except OSError as error:
            raise JournalWriteFailed(run_id, _reason(error)) from error

    def claim(self, run_id: str, owner: str) -> Pending | None:
        """Become the owner of a run, in the next epoch; None if there is no such run."""

        def work(cursor: sqlite3.Cursor) -> Pending | None:
            cursor.execute("UPDATE runs SET epoch = epoch + 1, owner = ? WHERE run_id = ?", (owner, run_id))
            run = cursor.execute("SELECT number, epoch FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if run is None:
                return None
            number, epoch = run
            seq, hashed = _last_of(cursor, number)
            return Pending(run_id, number=number, epoch=epoch, last_seq=seq, last_hash=hashed)

        with self._mutex:
            try:
                self._bring_in_left()
                return self._transact(work)
            except _FAILURES as error:
                raise JournalWriteFailed(run_id, _reason(error)) from error

    def maintain(self, work: Callable[[sqlite3.Cursor], _T]) -> _T:
        """Do something in a transaction of its own, with all other writers kept out.

        Raises JournalError (JRN017) where the journal cannot be written; then nothing was done.
        """
        with self._mutex:
            try:
                return self._transact(work)
            except _FAILURES as error:
                raise _not_maintained(error) from error

    def compact(self) -> None:
        """Give free pages back to the file system: the file is written anew, with writers kept out.

        Raises JournalError (JRN017); then the file is what it was.
        """
        self.maintain(lambda cursor: None)  # connects
        with self._mutex:
            cursor, lock = self._cursor, self._lock
            assert cursor is not None
            assert lock is not None
            try:
                with lock:
                    cursor.execute("VACUUM")
                    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except _FAILURES as error:
                raise _not_maintained(error) from error

    def post(self, run_id: str, topic: str, msg_id: str, payload: bytes) -> bool:
        """Put a letter to a run into the inbox; False if there is one of this id already."""

        def work(cursor: sqlite3.Cursor) -> bool:
            cursor.execute(inbox.INSERT, (run_id, topic, msg_id, payload, self._clock()))
            return cursor.rowcount == 1

        with self._mutex:
            try:
                return self._transact(work)
            except (sqlite3.DatabaseError, OSError) as error:
                raise JournalWriteFailed(run_id, _reason(error)) from error

    def close(self) -> None:
        """Close the connection; SQLite checkpoints with it if it is the database's last."""
        with self._mutex:
            if self._tailed:
                self._fold()
            if self._tail is not None:
                self._tail.close()
                self._tail = None
            self._is_closed = True
            cursor, lock = self._cursor, self._lock
            self._cursor = self._lock = None
            if cursor is not None and lock is not None:
                try:
                    with lock:
                        cursor.connection.close()
                except TimeoutError:
                    cursor.connection.close()  # another process writes: not the last, no checkpoint
            if lock is not None:
                lock.close()

    def _write(self, dues: list[_Due]) -> list[JournalError | None]:
        errors: list[JournalError | None] = [None] * len(dues)
        try:
            self._write_files(dues)
            numbers = self._transact(lambda cursor: self._insert_all(cursor, dues, errors))
        except sqlite3.IntegrityError:
            if len(dues) > 1:
                return [error for due in dues for error in self._write([due])]
            (pending, portion), *_ = dues
            return [_taken(pending, portion)]
        except _FAILURES as error:
            return [self._failed(due.pending, error) for due in dues]
        for (pending, portion), number, error in zip(dues, numbers, errors, strict=True):
            if error is None:
                pending.written(portion, number)
        return errors

    def _failed(self, pending: Pending, error: Exception) -> JournalWriteFailed:
        failure = JournalWriteFailed(pending.run_id, _reason(error))
        failure.__cause__ = error
        return failure

    def _write_files(self, dues: list[_Due]) -> None:
        for _, portion in dues:
            for blob in portion.blobs:
                if len(blob.data) > ROW_LIMIT:
                    self._write_file(blob)

    def _write_file(self, blob: Blob) -> None:
        sync = self._durability is not Durability.OFF  # the log that names it may reach the disk before it
        write_blob_file(self._place.blobs, blob.name, blob.data, sync=sync, synced=self._synced)

    def _transact(self, work: Callable[[sqlite3.Cursor], _T]) -> _T:
        with self._turn():
            cursor = self._cursor or self._connect()
            try:
                cursor.execute("BEGIN IMMEDIATE")
                result = work(cursor)
                cursor.execute("COMMIT")
            except BaseException:
                if cursor.connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise
        return result

    def _turn(self) -> WriteLock:
        """What keeps other writers out; raises WrongProcess, or sqlite3.ProgrammingError once closed."""
        self.check_process()
        if self._is_closed:
            raise sqlite3.ProgrammingError("the journal is closed")
        if self._lock is None:
            self._lock = WriteLock(self._place.write_lock)
        return self._lock

    def _connect_in_turn(self) -> sqlite3.Cursor:
        with self._turn():
            return self._connect()

    def _connect(self) -> sqlite3.Cursor:
        cursor = self._cursor = connect_writing(self._place.database, self._durability).cursor()
        return cursor

    def _insert_all(
        self, cursor: sqlite3.Cursor, dues: list[_Due], errors: list[JournalError | None]
    ) -> list[int]:
        numbers: list[int] = []
        for at, (pending, portion) in enumerate(dues):
            errors[at] = None
            number = pending.number
            if number and not self._is_ours(cursor, pending, portion):
                row = cursor.execute("SELECT epoch FROM runs WHERE number = ?", (number,)).fetchone()
                errors[at] = Fenced(pending.run_id, pending.epoch, row and row[0])
                numbers.append(number)
                continue
            numbers.append(self._insert(cursor, pending.run_id, number, portion))
        return numbers

    def _insert(self, cursor: sqlite3.Cursor, run_id: str, number: int, portion: Portion) -> int:
        for plan in portion.plans:
            if not cursor.execute(_HAS_PLAN, (plan.plan_hash,)).fetchall():
                cursor.execute(_INSERT_PLAN, (*plan, self._clock()))
        if portion.run is not None:
            number = _insert_run(cursor, run_id, portion.run)
        for blob in portion.blobs:
            if len(blob.data) > ROW_LIMIT and not blob_path(self._place.blobs, blob.name).exists():
                self._write_file(blob)  # it was collected since: nothing named it yet
            insert_blob(cursor, blob.name, blob.data, self._clock())
        base = number << SEQ_BITS
        if portion.blobs:
            cursor.executemany(_INSERT_LARGE, [(*_values(base, row), row[_BLOB]) for row in portion.rows])
        else:
            cursor.executemany(_INSERT_EVENT, [_values(base, row) for row in portion.rows])
        if portion.taken:
            cursor.executemany(inbox.TAKE, [(run_id, letter.msg_id) for letter in portion.taken])
        if portion.records_head and portion.run is not None:
            self._update_run(cursor, number, 1, portion)
        return number

    def _is_ours(self, cursor: sqlite3.Cursor, pending: Pending, portion: Portion) -> bool:
        """Whether nobody has taken the run over; its row then says what the portion says of it."""
        if portion.records_head:
            return self._update_run(cursor, pending.number, pending.epoch, portion)
        row = cursor.execute("SELECT epoch FROM runs WHERE number = ?", (pending.number,)).fetchone()
        return row is not None and row[0] == pending.epoch

    def _update_run(self, cursor: sqlite3.Cursor, number: int, epoch: int, portion: Portion) -> bool:
        """Change the row of a run that is of this epoch; False if there is none."""
        sets = "head_seq = ?, head_hash = ?, updated = ?"
        values: list[object] = [portion.upto, bytearray(portion.hash), self._clock()]
        if portion.status is not None:
            status, wake_at = portion.status.status, portion.status.wake_at
            values.append(status)
            if wake_at is None:
                sets += ", status = ?, wake_at = NULL"
            else:
                sets += ", status = ?, wake_at = ?"
                values.append(wake_at)
        cursor.execute(f"UPDATE runs SET {sets} WHERE number = ? AND epoch = ?", [*values, number, epoch])
        return cursor.rowcount == 1


def _values(base: int, row: Row) -> tuple[object, ...]:
    """What is bound for a row of the run whose events have ids above `base`, but for its blob.

    Bytes are bound as bytearrays: for bytes, as for None, the module looks for an adapter, which takes
    it longer than all the rest.
    """
    seq, epoch, what, key, step, index, attempt, ts, mono, data, _, covers, intents, hashed = row
    body = None if data is None else bytearray(data)
    led_to = None if intents is None else bytearray(intents)
    return (
        base + seq,
        epoch,
        what,
        key,
        step,
        index,
        attempt,
        ts,
        mono,
        body,
        covers,
        led_to,
        bytearray(hashed),
    )


def insert_left(cursor: sqlite3.Cursor, entries: Iterable[Kept]) -> None:
    """Insert what a tail kept and the database does not have; what does not follow from it is lost.

    After a loss of power the database may lack what came before, and a run that another process has
    taken over since has gone on without it. Entries that are in the database may stand among them, also
    those of a run that is gone and whose number another one has.
    """
    ends: dict[int, tuple[str, int, int, bytes] | None] = {}
    for number, row in entries:
        if number not in ends:
            ends[number] = _end_of(cursor, number)
        end = ends[number]
        if end is None:
            continue
        run_id, epoch, last, prev = end
        if row[0] <= last:
            continue
        if row[1] != epoch or not fits(run_id, prev, last + 1, row):
            continue
        cursor.execute(_INSERT_EVENT, _values(number << SEQ_BITS, row))
        ends[number] = run_id, epoch, last + row[11], row[13]


def _end_of(cursor: sqlite3.Cursor, number: int) -> tuple[str, int, int, bytes] | None:
    """Id and epoch of a run, its last event and the hash of that; None if there is no such run."""
    run = cursor.execute("SELECT run_id, epoch FROM runs WHERE number = ?", (number,)).fetchone()
    return None if run is None else (*run, *_last_of(cursor, number))


def _last_of(cursor: sqlite3.Cursor, number: int) -> tuple[int, bytes]:
    """The last event of a run and the hash of its entry."""
    base = number << SEQ_BITS
    last = cursor.execute(
        "SELECT id + covers - 1, hash FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1",
        (base, base + (1 << SEQ_BITS)),
    ).fetchone()
    return (last[0] - base, last[1]) if last else (0, GENESIS)


def _insert_run(cursor: sqlite3.Cursor, run_id: str, run: RunRow) -> int:
    cursor.execute(
        _INSERT_RUN,
        (run_id, run.plan_hash, run.parent_run, run.core_version, run.owner, run.created, run.created),
    )
    number = cursor.lastrowid
    assert number is not None, "an INSERT gives a row id"
    return number


def _not_maintained(error: Exception) -> JournalError:
    return JournalError(
        "JRN017",
        f"the journal could not be changed: {_reason(error)}",
        way_out="free space, or wait for the process that is writing; nothing was changed",
    )


def _taken(pending: Pending, portion: Portion) -> JournalError:
    """Why the key of a row was there already: somebody else has written this run."""
    if portion.run is not None:
        return run_exists(pending.run_id)
    return Fenced(pending.run_id, pending.epoch, pending.epoch)


def run_exists(run_id: str) -> JournalError:
    """The refusal of a second run of the same id."""
    return JournalError(
        "JRN003",
        f"there is a run {run_id} already",
        way_out="leave the id out for a fresh one, or resume that run",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    name = getattr(error, "sqlite_errorname", None)
    return f"{error} ({name})" if name else str(error)
