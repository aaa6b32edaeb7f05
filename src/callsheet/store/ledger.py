"""The single writer of a process: writes pending events to the database, or first to a tail.

In: the pending events of runs. Out: the same in the journal, or a JournalError for each run that could not be
written. Threads take turns under a mutex; a run that fails does not hold back the others.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from callsheet.store import mailbox
from callsheet.store.blobs import ROW_LIMIT, BlobFiles, link_all
from callsheet.store.connections import FAILURES, WriteConnection
from callsheet.store.errors import (
    Fenced,
    JournalDisplaced,
    JournalError,
    JournalWriteFailed,
    reason_of,
    run_exists,
)
from callsheet.store.inserts import insert_left, insert_portion, last_of, plain_insert, require_ours
from callsheet.store.journal_paths import JournalPaths, place_of, require_room
from callsheet.store.lock import RunLock
from callsheet.store.pending import Pending, Portion, Row
from callsheet.store.schema import Durability
from callsheet.store.tail import OrphanedTail, Tail, TailEntry, left_tails, read_tails

NEAR = 0.05
"""A commit is quick if fewer than this many seconds have passed since the one before."""
ENOUGH = 16
"""From this many quick commits in a row on, a tail is worthwhile."""


class CommitRate:
    """Counts quick commits in a row."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = float("-inf")
        self._quick = 0

    def step(self) -> bool:
        """Count a commit; whether it should go to a synced tail.

        Slower commits are better written straight to the database: each would be moved there from the tail on
        its own, with a second sync.
        """
        now = self._clock()
        self._quick = self._quick + 1 if now - self._last < NEAR else 0
        self._last = now
        return self._quick >= ENOUGH


_T = TypeVar("_T")

_MOST_TAILED = 100
"""The most runs with entries in the tail; `_fold` writes them all in one transaction."""


class _Due(NamedTuple):
    pending: Pending
    portion: Portion


class Ledger:
    """Writes the journal, alone in its process. Connects with the first transaction."""

    def __init__(
        self,
        place: JournalPaths,
        durability: Durability,
        clock: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._clock = clock
        self._mutex = threading.RLock()
        self._connection = WriteConnection(place, durability)
        sync = durability is not Durability.OFF  # the log that names a file may reach the disk before it
        self._files = BlobFiles(place.blobs, sync=sync)
        self._pace = CommitRate(monotonic) if durability is Durability.FULL else None
        """If every commit is synced: tells whether commits come so fast that a synced tail pays."""
        self._has_tail = True
        """Whether a tail may be used; False after writing to a synced one failed."""
        self._tail: Tail | None = None
        self._saved: Path | None = None
        """The copy of the journal that was made because its file lost its place."""
        self._tailed: dict[Pending, None] = {}
        """The runs with entries in the tail, in order of arrival."""
        self._left: dict[Pending, RunLock] = {}
        """The locks of those that have no writer any more."""

    def check_process(self) -> None:
        """Raise WrongProcess in a forked child: its copy of the connection must not be touched."""
        self._connection.check_process()

    def write(self, dues: Sequence[tuple[Pending, int]]) -> list[JournalError | None]:
        """Write each run's events up to a sequence number, all in one transaction.

        Returns for each run None, or why it was not written; its events then stay pending.
        """
        with self._mutex:
            has_status = any(pending.status is not None for pending, _ in dues)
            errors = self._write([_Due(pending, pending.take(upto)) for pending, upto in dues])
            if self._connection.is_displaced(at_once=has_status):
                for at, (pending, _) in enumerate(dues):
                    errors[at] = errors[at] or self._displaced(pending.run_id)
            for (pending, _), error in zip(dues, errors, strict=True):
                self._note(pending, error)
        return errors

    def write_own(self, pending: Pending, lock: RunLock) -> bool:
        """Write all that a run has pending, for the thread that appends to it; raises a JournalError.

        Entries go to the tail if commits need no sync or follow one another quickly; returns whether some are
        there. If the run's `lock` file is gone, the tail does not do: only the database's epoch tells then
        whether the run is still ours.
        """
        with self._mutex:
            # a new status may come with the run's last commit
            if self._connection.is_displaced(at_once=pending.status is not None):
                raise self._written_off_place(pending)
            is_quick = self._pace is None or self._pace.step()
            waits = is_quick and self._has_tail and self._put_into_tail(pending)
            # a process that takes over a run reads all tails after the lock is gone, so check the lock last
            if waits and lock.is_named():
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

    def require_ours(self, pending: Pending) -> None:
        """Raise Fenced if another process has taken over a run, JournalWriteFailed if that cannot be read."""
        with self._mutex:
            try:
                require_ours(self._connection.connected(), pending)
            except FAILURES as error:
                raise self._failed(pending, error) from error

    def _written_off_place(self, pending: Pending) -> JournalError:
        """Write what a run has pending to the file that lost its place; gives the error that says so."""
        (error,) = self._write([_Due(pending, pending.take(pending.last_seq))])
        error = error or self._displaced(pending.run_id)
        self._note(pending, error)
        return error

    def _displaced(self, run_id: str) -> JournalError:
        """Save what the open file has beside the path that it lost; gives the error that says so."""
        path, saved = self._place.database, self._saved
        is_replaced = path.exists()
        if saved is None:
            saved = path.with_name(f"{path.name}.saved-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        try:
            self._write([_Due(pending, pending.take(pending.durable_seq)) for pending in self._tailed])
            self._connection.move_to(saved)
        except FAILURES as error:
            return JournalDisplaced(path, run_id, None, reason_of(error), is_replaced=is_replaced)
        self._saved = saved
        with suppress(OSError):
            link_all(self._place.blobs, place_of(saved).blobs)
        return JournalDisplaced(path, run_id, saved, is_replaced=is_replaced)

    def settle(self) -> None:
        """Move the entries of this process's tail, and of dead processes' tails, into the database.

        What cannot be moved now stays where it is.
        """
        connection = self._connection
        if not connection.is_ours or connection.is_closed:
            return
        with self._mutex:
            if connection.is_in_transaction:
                return
            if self._tailed:
                self._fold()
            with suppress(*FAILURES):
                self._bring_in_left()

    def release(self, pending: Pending, lock: RunLock) -> None:
        """Free a run once the open tail has no entry of it: now, after a later write, or by `close`."""
        with self._mutex:
            if pending.tailed and self._tail is not None:
                self._left[pending] = lock
                self.write([(pending, pending.durable_seq)])
            else:
                lock.close()

    def _put_into_tail(self, pending: Pending) -> bool:
        """Append the pending entries to the tail; False if they must go into the database."""
        rows = pending.for_the_tail()
        if rows is None or len(self._tailed) > _MOST_TAILED:
            return False
        if not rows:
            return True
        try:
            if self._tail is None:
                self.check_process()
                self._tail = Tail(self._place.run_locks, is_synced=self._pace is not None)
            if not self._tail.append(pending.number, rows, pending.lines[-len(rows) :]):
                return False
        except OSError:
            self._has_tail = self._pace is None  # what a failed sync left on the disk is unknown
            return False  # writing to the database will give the error
        pending.put_into_tail()
        self._tailed[pending] = None
        return True

    def _fold(self) -> None:
        """Move this process's tail into the database; failures are recorded in `Pending.blocked`."""
        self.write([(pending, pending.durable_seq) for pending in self._tailed])

    def _note(self, pending: Pending, error: JournalError | None) -> None:
        """Record that a run has been written, or why not; clear the tail once nothing is left in it.

        A run that has no writer any more is free once none of its entries is left there.
        """
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
        if not pending.tailed and (lock := self._left.pop(pending, None)) is not None:
            lock.close()

    def _bring_in_left(self) -> None:
        """Move the tails of dead processes into the database; may raise any of FAILURES."""
        own = "" if self._tail is None else self._tail.path.name
        lefts, done = left_tails(self._place.run_locks, own), set[OrphanedTail]()
        try:
            for tail in lefts:
                if not os.access(self._place.database, os.W_OK):
                    break  # the database is read-only for us; readers read tails by themselves
                entries = list(tail.entries())
                if entries:
                    self._connection.transact(lambda cursor, kept=entries: insert_left(cursor, kept))
                done.add(tail)
        finally:
            for tail in lefts:
                tail.close(is_done=tail in done)

    def _write_plain(self, pending: Pending, rows: list[Row]) -> bool:
        """Insert a few rows by one statement, which checks the epoch and is a transaction of its own.

        False if nothing was written; the caller then takes the general path, which finds out why. Raises
        JournalWriteFailed if the write lock could not be taken.
        """
        connection = self._connection
        cursor, lock = connection.cursor, connection.lock
        if cursor is None or lock is None:
            return False
        statement, values = plain_insert(pending.number, pending.epoch, rows)
        try:
            with lock:
                cursor.execute(statement, values)
        except sqlite3.DatabaseError:
            return False
        except OSError as error:
            pending.blocked = self._failed(pending, error)
            raise pending.blocked from error
        return cursor.rowcount == len(rows)

    def has_run(self, run_id: str) -> bool | None:
        """Whether there is a run with this id; None if this connection cannot tell, so the reader must.

        Asked before a run is begun, which needs the write connection anyway; using it saves the read
        connection from loading the schema.
        """
        with self._mutex:
            try:
                cursor = self._connection.connected()
                if cursor.connection.in_transaction:
                    return None
                return bool(cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchall())
            except FAILURES:
                return None

    def require_room(self, run_id: str) -> None:
        """Raise JournalWriteFailed if the disk is full or nearly full."""
        try:
            require_room(self._place)
        except OSError as error:
            raise JournalWriteFailed(run_id, reason_of(error)) from error

    def claim(self, run_id: str, owner: str, lock: RunLock) -> Pending | None:
        """Own a run, in its next epoch; None if there is no such run.

        Raises JournalWriteFailed, and JournalError (JRN004) if the run's `lock` file is gone: whoever has
        taken over since must not be fenced off.
        """

        def work(cursor: sqlite3.Cursor) -> Pending | None:
            lock.require_name(run_id)
            insert_left(cursor, self._waiting_elsewhere(cursor, run_id))
            cursor.execute("UPDATE runs SET epoch = epoch + 1, owner = ? WHERE run_id = ?", (owner, run_id))
            run = cursor.execute("SELECT number, epoch FROM runs WHERE run_id = ?", (run_id,)).fetchone()
            if run is None:
                return None
            number, epoch = run
            seq, hashed = last_of(cursor, number)
            return Pending(run_id, number=number, epoch=epoch, last_seq=seq, last_hash=hashed)

        with self._mutex:
            try:
                self._bring_in_left()
                return self._connection.transact(work)
            except FAILURES as error:
                raise JournalWriteFailed(run_id, reason_of(error)) from error

    def _waiting_elsewhere(self, cursor: sqlite3.Cursor, run_id: str) -> list[TailEntry]:
        """The entries of a run in tails of living processes, whose lock on the run was removed."""
        row = cursor.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        own = "" if self._tail is None else self._tail.path.name
        return [kept for kept in read_tails(self._place.run_locks, own) if row and kept.number == row[0]]

    def maintain(self, work: Callable[[sqlite3.Cursor], _T]) -> _T:
        """Do `work` in a transaction of its own, with all other writers excluded.

        Raises JournalError (JRN017) if the journal cannot be written; nothing is changed then.
        """
        with self._mutex:
            try:
                return self._connection.transact(work)
            except FAILURES as error:
                raise _not_maintained(error) from error

    def compact(self) -> None:
        """Rewrite the file to return free pages to the file system, with writers excluded.

        Raises JournalError (JRN017) if that fails; the file is unchanged then.
        """
        with self._mutex:
            try:
                self._connection.compact()
            except FAILURES as error:
                raise _not_maintained(error) from error

    def post(self, run_id: str, topic: str, msg_id: str, payload: bytes) -> bool:
        """Put a message to a run into the inbox; False if there already is one with this id.

        Raises JournalWriteFailed.
        """

        def work(cursor: sqlite3.Cursor) -> bool:
            cursor.execute(mailbox.INSERT, (run_id, topic, msg_id, payload, self._clock()))
            return cursor.rowcount == 1

        with self._mutex:
            try:
                return self._connection.transact(work)
            except (sqlite3.DatabaseError, OSError) as error:
                raise JournalWriteFailed(run_id, reason_of(error)) from error

    def close(self) -> None:
        """Close the connection; SQLite checkpoints with it if it is the database's last.

        Entries that cannot be moved stay in the tail, where any process finds them from then on.
        """
        with self._mutex:
            if self._tailed:
                self._fold()
            if self._tail is not None:
                self._tail.close()
                self._tail = None
            for lock in self._left.values():
                lock.close()
            self._left.clear()
            self._connection.close()

    def _write(self, dues: list[_Due]) -> list[JournalError | None]:
        errors: list[JournalError | None] = [None] * len(dues)
        try:
            self._write_files(dues)
            numbers = self._connection.transact(lambda cursor: self._insert_all(cursor, dues, errors))
        except sqlite3.IntegrityError:
            if len(dues) > 1:
                return [error for due in dues for error in self._write([due])]
            (pending, portion), *_ = dues
            return [_taken(pending, portion)]
        except FAILURES as error:
            return [self._failed(due.pending, error) for due in dues]
        for (pending, portion), number, error in zip(dues, numbers, errors, strict=True):
            if error is None:
                pending.written(portion, number)
        return errors

    def _failed(self, pending: Pending, error: Exception) -> JournalWriteFailed:
        failure = JournalWriteFailed(pending.run_id, reason_of(error))
        failure.__cause__ = error
        return failure

    def _write_files(self, dues: list[_Due]) -> None:
        for _, portion in dues:
            for blob in portion.blobs:
                if len(blob.data) > ROW_LIMIT:
                    self._files.write(blob.name, blob.data)

    def _insert_all(
        self, cursor: sqlite3.Cursor, dues: list[_Due], errors: list[JournalError | None]
    ) -> list[int]:
        """Insert what is due; returns the runs' numbers, and sets `errors` for runs that were taken over."""
        numbers: list[int] = []
        for at, (pending, portion) in enumerate(dues):
            errors[at] = None
            try:
                numbers.append(insert_portion(cursor, pending, portion, self._clock, self._files))
            except Fenced as fenced:
                errors[at] = fenced
                numbers.append(pending.number)
        return numbers


def _not_maintained(error: Exception) -> JournalError:
    return JournalError(
        "JRN017",
        f"the journal could not be changed: {reason_of(error)}",
        hint="free space, or wait for the process that is writing; nothing was changed",
    )


def _taken(pending: Pending, portion: Portion) -> JournalError:
    """The error for a row whose key exists already: another process has written this run."""
    if portion.run is not None:
        return run_exists(pending.run_id)
    return Fenced(pending.run_id, pending.epoch, pending.epoch)
