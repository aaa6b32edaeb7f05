"""Retention: deletes runs, and first their large values, after a time.

In: a journal, and how long to keep runs of each status. Out: after that time the large values of a run are
dropped, keeping hashes and sizes so that its chain still verifies; after twice that time the run is deleted.
A run that has not ended is never touched. The parent of another run is not deleted, except if that is a fork,
which has copies of all events.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.ir.strict_json import read_json
from callsheet.store.blobs import DROPPED, BlobMissing, blob_path, read_blob
from callsheet.store.errors import JournalError
from callsheet.store.events import decode_body
from callsheet.store.journal import Parts
from callsheet.store.journal_paths import attempts_of, is_owned, progress_of
from callsheet.store.lock import RunLock
from callsheet.store.reader import Reader
from callsheet.store.runs import RunInfo
from callsheet.store.schema import SEQ_BITS
from callsheet.store.writer import RunStatus

DAY = 86_400.0
KEPT: Mapping[RunStatus, float | None] = {
    RunStatus.DONE: 30 * DAY,
    RunStatus.FAILED: 90 * DAY,
    RunStatus.REFUSED: 90 * DAY,
    RunStatus.CANCELLED: 90 * DAY,
}
"""Seconds after their last event for which the large values of runs are kept; None means for ever."""
_ORPHAN_SECONDS = 3_600.0
"""Age in seconds below which an unreferenced file may belong to a transaction in progress."""
_FREE_SHARE = 4
_NOT_ENDED = frozenset(str(status) for status in RunStatus if not status.is_final)
_AT_ONCE = 100
"""The most runs that are deleted in one transaction; other processes write between two."""
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS runs_by_parent ON runs (parent_run) WHERE parent_run IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS events_with_plans ON events (id) WHERE type = 'plan'",
    "CREATE INDEX IF NOT EXISTS events_with_blobs ON events (blob) WHERE blob IS NOT NULL",
)
_NO_RUN_HAS = "NOT EXISTS (SELECT 1 FROM runs WHERE runs.plan_hash = plans.plan_hash)"
_RUN_OF_PLAN = "SELECT 1 FROM runs WHERE plan_hash = ? LIMIT 1"
_EVENT_OF_BLOB = "SELECT 1 FROM events WHERE blob = ? LIMIT 1"
_HEX = frozenset("0123456789abcdef")


class Due(NamedTuple):
    """What has expired."""

    values: tuple[RunInfo, ...]
    """Runs whose large values are dropped."""
    runs: tuple[RunInfo, ...]
    """Runs that are deleted."""


class Pruned(NamedTuple):
    """What was deleted, or would be in a dry run."""

    values: tuple[str, ...]
    runs: tuple[str, ...]
    blobs: int
    """The number of large values dropped, including those of deleted runs."""
    bytes: int
    orphans: int
    """The number of unreferenced files and values."""
    compacted: bool = False
    """Whether the file was rewritten without its free pages."""


def due_now(
    parts: Parts, retention: Mapping[RunStatus, float | None] = KEPT, *, values_only: bool = False
) -> Due:
    """The runs that have expired; with `values_only` none is deleted."""
    now, values, runs = parts.clock(), list[RunInfo](), list[RunInfo]()
    infos = parts.reader.runs.newest()
    parents = {info.parent_run for info in infos if info.forked_at is None}  # a fork has events of its own
    for info in infos:
        seconds = retention.get(info.status)
        if not info.status.is_final or seconds is None or is_owned(parts.place, info.run_id):
            continue
        age = now - info.updated
        if age >= 2 * seconds and not values_only and info.run_id not in parents:
            runs.append(info)
        elif age >= seconds:
            values.append(info)
    return Due(tuple(values), tuple(runs))


def used_bytes(parts: Parts) -> int:
    """The size of a journal: its database without free pages, and the files of its large values."""
    ((pages,),) = parts.reader.select("PRAGMA page_count")
    ((unused,),) = parts.reader.select("PRAGMA freelist_count")
    ((size,),) = parts.reader.select("PRAGMA page_size")
    values = "SELECT COALESCE(sum(size), 0) FROM blobs WHERE data IS NULL AND codec != ?"
    ((beside,),) = parts.reader.select(values, (DROPPED,))
    return (pages - unused) * size + beside


def ended_runs(parts: Parts) -> tuple[RunInfo, ...]:
    """The runs that have ended, oldest first, without those that other runs or a process need."""
    infos = parts.reader.runs.newest()
    parents = {info.parent_run for info in infos if info.forked_at is None}
    found = (info for info in reversed(infos) if info.status.is_final and info.run_id not in parents)
    return tuple(info for info in found if not is_owned(parts.place, info.run_id))


def prune(parts: Parts, due: Due, *, dry_run: bool = False) -> Pruned:
    """Delete what is due, and plans and large values that nothing refers to; `dry_run` only counts.

    Raises JournalError (JRN017) if the journal cannot be written.
    """
    blobs, size, unnamed = _blobs(parts, due, dry_run=dry_run)
    going = list(due.runs)
    if not dry_run:
        parts.ledger.maintain(_index)
        going = [
            run
            for at in range(0, len(due.runs), _AT_ONCE)
            for run in _remove(parts, due.runs[at : at + _AT_ONCE])
        ]
        parts.ledger.maintain(lambda cursor: _remove_plans(cursor, parts))
        if going:
            _blobs(parts, Due((), ()), dry_run=False)  # values that only those runs referred to
    orphans = unnamed + _orphans(parts, dry_run=dry_run)
    is_compacted = not dry_run and bool(going or blobs) and _compact(parts)
    names = tuple(run.run_id for run in due.values), tuple(run.run_id for run in going)
    return Pruned(*names, blobs, size, orphans, is_compacted)


def delete(parts: Parts, run: RunInfo) -> bool:
    """Delete one run, with the plans and large values that only it refers to; False if a process claimed it.

    Of other runs only the new plans are read. Raises JournalError (JRN017) if the journal cannot be written.
    """
    parts.ledger.maintain(_index)
    files: list[str] = []

    def also(cursor: sqlite3.Cursor, named: _Named) -> None:
        _remove_plans(cursor, parts, named.plans)
        files.extend(_remove_values(cursor, named.values))

    if not _remove(parts, (run,), also):
        return False
    parts.ledger.maintain(lambda cursor: _remove_files(cursor, parts, files))
    _compact(parts)
    return True


class _Named(NamedTuple):
    """The plans and the large values that runs refer to, by their hashes."""

    plans: set[str]
    values: set[str]


def _index(cursor: sqlite3.Cursor) -> None:
    """Create the indexes by which references are found.

    They are made with the first deletion, and are partial, so that runs do not pay for them.
    """
    for index in _INDEXES:
        cursor.execute(index)


def _remove(
    parts: Parts, runs: Sequence[RunInfo], also: Callable[[sqlite3.Cursor, _Named], None] | None = None
) -> list[RunInfo]:
    """Delete runs and their events in one transaction; returns them, without those resumed meanwhile.

    `also` gets, in the same transaction, what the runs referred to.
    """
    with ExitStack() as locks:
        going = list[RunInfo]()
        for run in runs:
            with suppress(JournalError):
                lock = RunLock(parts.place.run_locks, run.run_id, parts.clock())
                locks.callback(lock.close)
                going.append(run)

        def work(cursor: sqlite3.Cursor) -> list[RunInfo]:
            named = _Named(set(), set())
            gone = [run for run in going if _remove_rows(cursor, parts, run.run_id, named)]
            if also is not None:
                also(cursor, named)
            return gone

        gone = parts.ledger.maintain(work)
        for run in gone:
            for file in (
                attempts_of(parts.place, run.run_id),
                progress_of(parts.place.database, run.run_id),
            ):
                with suppress(OSError):
                    file.unlink()
    return gone


def _remove_rows(cursor: sqlite3.Cursor, parts: Parts, run_id: str, named: _Named) -> bool:
    """Delete the rows of a run, and add what they refer to; False for one that has not ended."""
    row = cursor.execute("SELECT number, plan_hash, status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        return True
    number, plan, status = row
    if status in _NOT_ENDED:
        return False
    own = number << SEQ_BITS, (number + 1) << SEQ_BITS
    named.plans.add(plan)
    named.plans.update(_plans_in(cursor, parts, " AND id > ? AND id < ?", own))
    values = cursor.execute("SELECT blob FROM events WHERE id > ? AND id < ? AND blob IS NOT NULL", own)
    named.values.update(name for (name,) in values)
    cursor.execute("DELETE FROM events WHERE id > ? AND id < ?", own)
    cursor.execute("DELETE FROM inbox WHERE run_id = ?", (run_id,))
    cursor.execute("DELETE FROM runs WHERE number = ?", (number,))
    return True


def _plans_in(
    cursor: sqlite3.Cursor, parts: Parts, which: str = "", values: tuple[int, ...] = ()
) -> Iterator[str]:
    """The plans named by the events of type `plan` of all runs, or of the events `which`."""
    query = f"SELECT body, blob FROM events WHERE type = 'plan'{which}"
    for body, blob in cursor.execute(query, values).fetchall():
        with suppress(BlobMissing, ValueError, KeyError, TypeError):
            data = body if blob is None else read_blob(cursor.connection, parts.place.blobs, blob)
            yield decode_body(data)["plan"]


def _remove_plans(cursor: sqlite3.Cursor, parts: Parts, suspects: Collection[str] | None = None) -> None:
    """Delete the plans that no run refers to; only those of `suspects`, if given."""
    if suspects is None:
        loose = {name for (name,) in cursor.execute(f"SELECT plan_hash FROM plans WHERE {_NO_RUN_HAS}")}
    else:
        loose = {name for name in suspects if not cursor.execute(_RUN_OF_PLAN, (name,)).fetchall()}
    if loose:
        loose.difference_update(_plans_in(cursor, parts))
    cursor.executemany("DELETE FROM plans WHERE plan_hash = ?", [(name,) for name in loose])


def _remove_values(cursor: sqlite3.Cursor, suspects: Iterable[str]) -> list[str]:
    """Delete the rows of those of these large values that no event refers to; returns their names."""
    loose = [name for name in suspects if not cursor.execute(_EVENT_OF_BLOB, (name,)).fetchall()]
    cursor.executemany("DELETE FROM blobs WHERE hash = ?", [(name,) for name in loose])
    return loose


def _remove_files(cursor: sqlite3.Cursor, parts: Parts, names: Iterable[str]) -> None:
    """Delete the files of these large values, except those that a run has begun to refer to."""
    for name in names:
        if not cursor.execute("SELECT 1 FROM blobs WHERE hash = ?", (name,)).fetchall():
            blob_path(parts.place.blobs, name).unlink(missing_ok=True)


def _blobs(parts: Parts, due: Due, *, dry_run: bool) -> tuple[int, int, int]:
    """Drop the large values that only due runs refer to, and delete the rows of those that no run refers to.

    Returns how many were dropped, their bytes, and how many rows were deleted.
    """

    def work(cursor: sqlite3.Cursor) -> tuple[int, int, int]:
        numbers = dict[str, int](cursor.execute("SELECT run_id, number FROM runs").fetchall())
        loose = {numbers[run.run_id] for run in (*due.values, *due.runs) if run.run_id in numbers}
        needed, going = set[str](), set[str]()
        for number, name in cursor.execute(
            f"SELECT DISTINCT id >> {SEQ_BITS}, blob FROM events WHERE blob IS NOT NULL"
        ):
            (going if number in loose else needed).add(name)
        sizes: dict[str, int] = {}
        orphans: list[str] = []
        for name, size, codec in cursor.execute("SELECT hash, size, codec FROM blobs"):
            if name not in needed and name not in going:
                orphans.append(name)
            elif name not in needed and codec != DROPPED:
                sizes[name] = size
        if not dry_run:
            cursor.executemany("DELETE FROM blobs WHERE hash = ?", [(name,) for name in orphans])
            cursor.executemany(
                "UPDATE blobs SET data = NULL, codec = ? WHERE hash = ?", [(DROPPED, name) for name in sizes]
            )
        return len(sizes), sum(sizes.values()), len(orphans)

    return parts.ledger.maintain(work)


def _orphans(parts: Parts, *, dry_run: bool) -> int:
    """Delete blob files without references that are too old to be in a transaction; returns how many."""
    now = parts.clock()

    def work(cursor: sqlite3.Cursor) -> int:
        orphans = 0
        for path in _files(parts.place.blobs):
            name = path.parent.name + path.name
            with suppress(FileNotFoundError):
                is_named = cursor.execute(
                    "SELECT 1 FROM blobs WHERE hash = ? AND codec != ?", (name, DROPPED)
                ).fetchone()
                was_named = cursor.execute("SELECT 1 FROM blobs WHERE hash = ?", (name,)).fetchone()
                if is_named or (not was_named and now - path.stat().st_mtime < _ORPHAN_SECONDS):
                    continue
                orphans += was_named is None
                if not dry_run:
                    path.unlink()
        return orphans

    return parts.ledger.maintain(work)  # the write lock keeps others from referring to a file meanwhile


def _files(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError):
        for entry in sorted(os.listdir(folder)):
            if len(entry) == 2 and _HEX.issuperset(entry):
                yield from sorted((folder / entry).iterdir())


def _compact(parts: Parts) -> bool:
    """Rewrite the file if at least a quarter of it is free and no process executes a run."""

    def free(cursor: sqlite3.Cursor) -> bool:
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        (unused,) = cursor.execute("PRAGMA freelist_count").fetchone()
        return unused * _FREE_SHARE >= pages

    if not parts.ledger.maintain(free):
        return False
    for info in parts.reader.runs.newest(status=RunStatus.RUNNING):
        if is_owned(parts.place, info.run_id):
            return False
    parts.ledger.compact()
    return True


class Anchor(NamedTuple):
    """The hash of a run at one of its events; `time` is in seconds since 1970."""

    run_id: str
    seq: int
    head: str
    time: float


def anchors_of(runs: Iterable[RunInfo], now: float) -> list[Anchor]:
    """The current head hashes of runs, without runs that have no events; `now` is in seconds since 1970."""
    return [
        Anchor(run.run_id, run.events, run.head_hash.hex(), now) for run in runs if run.head_hash is not None
    ]


def append_anchors(path: Path, anchors: Iterable[Anchor]) -> None:
    """Append anchors to a file, which is created if it does not exist; raises JournalError (JRN018)."""
    text = "".join(json.dumps(_anchor_json(anchor)) + "\n" for anchor in anchors)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unusable(path, str(error.strerror)) from error


def read_anchors(path: Path) -> list[Anchor]:
    """The anchors in a file; raises JournalError (JRN018) if it cannot be read or has none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, getattr(error, "strerror", None) or "it is not UTF-8 text") from error
    anchors: list[Anchor] = []
    for number, line in enumerate(lines, 1):
        try:
            data: Any = read_json(line)
            anchors.append(Anchor(str(data["run"]), int(data["seq"]), str(data["head"]), float(data["time"])))
        except (ValueError, KeyError, TypeError) as error:
            raise _unusable(path, f"line {number} is not an anchor") from error
    if not anchors:
        raise _unusable(path, "it contains no anchor")
    return anchors


def broken_anchor(reader: Reader, anchor: Anchor) -> str | None:
    """Why the journal does not match an anchor; None if it does.

    Only the anchored event is compared; the caller verifies the chain.
    """
    if reader.runs.get(anchor.run_id) is None:
        return "the run is no longer in this journal"
    recorded = reader.hash_at(anchor.run_id, anchor.seq)
    if recorded is None:
        return f"its event {anchor.seq} is missing, or is not the end of an entry"
    if recorded.hex() != anchor.head:
        return f"its event {anchor.seq} does not have the anchored hash"
    return None


def _anchor_json(anchor: Anchor) -> dict[str, Any]:
    return {"run": anchor.run_id, "seq": anchor.seq, "head": anchor.head, "time": anchor.time}


def _unusable(path: Path, reason: str) -> JournalError:
    return JournalError(
        "JRN018",
        f"the anchor file {path} cannot be used: {reason}",
        hint="name a file written by `callsheet runs heads --anchor FILE`",
    )
