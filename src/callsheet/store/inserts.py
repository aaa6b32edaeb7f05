"""The SQL statements that insert pending events into the tables, within an open transaction.

In: a cursor, and a portion of a run's pending events or the entries of a tail. Out: rows. Nothing here begins
or ends a transaction or takes locks; ownership is only checked by the epoch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from callsheet.store import mailbox
from callsheet.store.blobs import ROW_LIMIT, BlobFiles, insert_blob
from callsheet.store.errors import Fenced
from callsheet.store.events import GENESIS
from callsheet.store.pending import PLAIN_ROWS, Pending, Portion, Row, RunRow
from callsheet.store.schema import SEQ_BITS
from callsheet.store.tail import TailEntry, fits

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
    "INSERT INTO runs (run_id, plan_hash, core_version, owner, status, epoch, created, updated, name, goal,"
    " tags, search, indexed) VALUES (?, ?, ?, ?, 'running', 1, ?, ?, ?, ?, ?, ?, 0)"
)
_EPOCH = "SELECT epoch FROM runs WHERE number = ?"

_BLOB = 10
"""The index of the blob in a row."""


def plain_insert(number: int, epoch: int, rows: list[Row]) -> tuple[str, list[object]]:
    """A statement, with its parameters, that inserts a few rows if the run is still in this epoch."""
    base = number << SEQ_BITS
    values: list[object] = []
    for row in rows:
        values += _values(base, row)
    values += (number, epoch)
    return _INSERT_FENCED[len(rows)], values


def insert_portion(
    cursor: sqlite3.Cursor, pending: Pending, portion: Portion, clock: Callable[[], float], files: BlobFiles
) -> int:
    """Insert a portion of a run; returns the run's number. Raises Fenced before anything is changed."""
    number = pending.number
    if number and not _is_ours(cursor, pending, portion, clock):
        raise Fenced(pending.run_id, pending.epoch, _epoch_of(cursor, number))
    for plan in portion.plans:
        if not cursor.execute(_HAS_PLAN, (plan.plan_hash,)).fetchall():
            cursor.execute(_INSERT_PLAN, (*plan, clock()))
    if portion.run is not None:
        number = _insert_run(cursor, pending.run_id, portion.run)
    for blob in portion.blobs:
        if len(blob.data) > ROW_LIMIT and not files.has(blob.name):
            files.write(blob.name, blob.data)  # garbage-collected since, as no row named it yet
        insert_blob(cursor, blob.name, blob.data, clock())
    base = number << SEQ_BITS
    if portion.blobs:
        cursor.executemany(_INSERT_LARGE, [(*_values(base, row), row[_BLOB]) for row in portion.rows])
    else:
        cursor.executemany(_INSERT_EVENT, [_values(base, row) for row in portion.rows])
    if portion.taken:
        cursor.executemany(mailbox.TAKE, [(pending.run_id, message.msg_id) for message in portion.taken])
    if portion.records_head and portion.run is not None:
        _update_run(cursor, number, 1, portion, clock())
    return number


def insert_left(cursor: sqlite3.Cursor, entries: Iterable[TailEntry]) -> None:
    """Insert the entries of a tail that continue the database's runs; the others are dropped.

    After a power failure the database may lack the entries before them, and a run that another process took
    over has continued without them. Some entries may already be in the database, or belong to a deleted run
    whose number another run has.
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


def last_of(cursor: sqlite3.Cursor, number: int) -> tuple[int, bytes]:
    """The number of a run's last event, and the hash of its entry."""
    base = number << SEQ_BITS
    last = cursor.execute(
        "SELECT id + covers - 1, hash FROM events WHERE id > ? AND id < ? ORDER BY id DESC LIMIT 1",
        (base, base + (1 << SEQ_BITS)),
    ).fetchone()
    return (last[0] - base, last[1]) if last else (0, GENESIS)


def _end_of(cursor: sqlite3.Cursor, number: int) -> tuple[str, int, int, bytes] | None:
    """Id and epoch of a run, the number of its last event and its hash; None if there is no such run."""
    run = cursor.execute("SELECT run_id, epoch FROM runs WHERE number = ?", (number,)).fetchone()
    return None if run is None else (*run, *last_of(cursor, number))


def _values(base: int, row: Row) -> tuple[object, ...]:
    """The parameters for a row, without its blob; `base` is added to sequence numbers to give row ids.

    Bytes are bound as bytearrays for speed: for bytes, `sqlite3` searches for an adapter, which takes longer
    than all the rest.
    """
    seq, epoch, kind, key, step, index, attempt, ts, mono, data, _, covers, intents, hashed = row
    body = None if data is None else bytearray(data)
    led_to = None if intents is None else bytearray(intents)
    return (
        base + seq,
        epoch,
        kind,
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


def _is_ours(cursor: sqlite3.Cursor, pending: Pending, portion: Portion, clock: Callable[[], float]) -> bool:
    """Whether the run is still in our epoch; if so, its row is updated from the portion."""
    if portion.records_head:
        return _update_run(cursor, pending.number, pending.epoch, portion, clock())
    return _epoch_of(cursor, pending.number) == pending.epoch


def _epoch_of(cursor: sqlite3.Cursor, number: int) -> int | None:
    """The epoch of a run now; None if it is no longer in the journal."""
    rows = cursor.execute(_EPOCH, (number,)).fetchall()
    return rows[0][0] if rows else None


def require_ours(cursor: sqlite3.Cursor, pending: Pending) -> None:
    """Raise Fenced if a run that is in the journal is in another epoch than ours."""
    epoch = _epoch_of(cursor, pending.number) if pending.number else pending.epoch
    if epoch != pending.epoch:
        raise Fenced(pending.run_id, pending.epoch, epoch)


def _insert_run(cursor: sqlite3.Cursor, run_id: str, run: RunRow) -> int:
    cursor.execute(
        _INSERT_RUN,
        (run_id, *run[:4], *run[3:]),
    )
    number = cursor.lastrowid
    assert number is not None, "an INSERT gives a row id"
    return number


def _update_run(cursor: sqlite3.Cursor, number: int, epoch: int, portion: Portion, now: float) -> bool:
    """Update the row of a run if it is in this epoch; whether it is."""
    # a row that was written without its index stays without it, for the next list to find
    sets = "head_seq = ?, head_hash = ?, updated = ?, indexed = CASE WHEN indexed = head_seq THEN ? END"
    values: list[object] = [portion.upto, bytearray(portion.hash), now, portion.upto]
    if portion.status is not None:
        _, status, wake_at, facts = portion.status
        sets += ", status = ?, wake_at = ?, ended = ?, failed_step = ?, waits_for = ?, cost = ?, tokens = ?"
        values += (status, wake_at, *facts)
    cursor.execute(f"UPDATE runs SET {sets} WHERE number = ? AND epoch = ?", [*values, number, epoch])
    return cursor.rowcount == 1
