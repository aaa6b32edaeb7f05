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
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from callsheet.store.blobs import DROPPED
from callsheet.store.errors import JournalError
from callsheet.store.journal import Parts
from callsheet.store.lock import RunLock
from callsheet.store.ownership import attempts_of, is_owned
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


def prune(parts: Parts, due: Due, *, dry_run: bool = False) -> Pruned:
    """Delete what is due, and large values that nothing refers to; `dry_run` only counts.

    Raises JournalError (JRN017) if the journal cannot be written.
    """
    blobs, size, unnamed = _blobs(parts, due, dry_run=dry_run)
    going = [run for run in due.runs if dry_run or _remove(parts, run)]
    if going and not dry_run:
        _blobs(parts, Due((), ()), dry_run=False)  # values that only those runs referred to
    orphans = unnamed + _orphans(parts, dry_run=dry_run)
    is_compacted = not dry_run and bool(going or blobs) and _compact(parts)
    names = tuple(run.run_id for run in due.values), tuple(run.run_id for run in going)
    return Pruned(*names, blobs, size, orphans, is_compacted)


def _remove(parts: Parts, run: RunInfo) -> bool:
    """Delete a run and its events; False if a process has claimed it meanwhile."""
    try:
        lock = RunLock(parts.place.run_locks, run.run_id, parts.clock())
    except JournalError:
        return False

    def work(cursor: sqlite3.Cursor) -> None:
        row = cursor.execute("SELECT number FROM runs WHERE run_id = ?", (run.run_id,)).fetchone()
        if row is not None:
            base = row[0] << SEQ_BITS
            cursor.execute("DELETE FROM events WHERE id > ? AND id < ?", (base, base + (1 << SEQ_BITS)))
            cursor.execute("DELETE FROM inbox WHERE run_id = ?", (run.run_id,))
            cursor.execute("DELETE FROM runs WHERE number = ?", row)
            _remove_plans(cursor)

    try:
        parts.ledger.maintain(work)
        with suppress(OSError):
            attempts_of(parts.place, run.run_id).unlink()
    finally:
        lock.close()
    return True


def _remove_plans(cursor: sqlite3.Cursor) -> None:
    """Delete the plans that no run refers to."""
    named = {name for (name,) in cursor.execute("SELECT plan_hash FROM runs")}
    for (body,) in cursor.execute("SELECT body FROM events WHERE type = 'plan'"):
        with suppress(ValueError, KeyError, TypeError):
            named.add(json.loads(body)["plan"])
    stored = [name for (name,) in cursor.execute("SELECT plan_hash FROM plans")]
    cursor.executemany("DELETE FROM plans WHERE plan_hash = ?", [(n,) for n in stored if n not in named])


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
    for info in parts.reader.runs.newest(status=RunStatus.RUNNING):
        if is_owned(parts.place, info.run_id):
            return False

    def free(cursor: sqlite3.Cursor) -> bool:
        (pages,) = cursor.execute("PRAGMA page_count").fetchone()
        (unused,) = cursor.execute("PRAGMA freelist_count").fetchone()
        return unused * _FREE_SHARE >= pages

    if not parts.ledger.maintain(free):
        return False
    parts.ledger.compact()
    return True
