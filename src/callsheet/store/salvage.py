"""Salvages the intact parts of the runs in a damaged journal for an export.

In: a journal that SQLite may not be able to read everywhere. Out: for each run, the entries from its start up
to the first that is missing, changed or unreadable. A run that loses its end in this way is unfinished again.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.store.archive import Row, Source, entries_of, lines_of, run_row
from callsheet.store.chain import check, verify
from callsheet.store.errors import JournalError
from callsheet.store.events import GENESIS, EventType
from callsheet.store.journal import Journal, Parts
from callsheet.store.journal_paths import JournalPaths, place_of
from callsheet.store.reader import Reader
from callsheet.store.schema import unusable
from callsheet.store.tail import SUFFIX as TAIL_SUFFIX
from callsheet.store.writer import RunStatus

_HEADER = 100
_ENDS = "the file is damaged, or ends there"


class Salvaged(NamedTuple):
    """The intact part of a run; `lost` says why it ends there, None if the whole run is intact."""

    run_id: str
    events: int
    lost: str | None
    lines: tuple[bytes, ...]
    """Its export; empty if nothing can be saved."""


def run_ids(reader: Reader) -> list[str]:
    """The ids of runs that can be found, oldest first; raises JournalError if not even the first can be."""
    ids: list[str] = []
    number = 0
    while True:
        try:
            rows = reader.select(
                "SELECT number, run_id FROM runs NOT INDEXED WHERE number > ? ORDER BY number LIMIT 1",
                (number,),
            )
        except JournalError:
            try:
                rows = reader.select(
                    "SELECT number, run_id FROM runs NOT INDEXED WHERE number = ?", (number + 1,)
                )
            except JournalError:
                if not ids:
                    raise
                return ids
        if not rows or rows[0][0] <= number:  # a page of zeros gives rows without a number
            return ids
        number = rows[0][0]
        ids.append(str(rows[0][1]))


def lists_all(reader: Reader) -> bool:
    """Whether the complete list of runs can be read, so that `run_ids` misses none."""
    try:
        rows = reader.select("SELECT number, length(run_id) FROM runs NOT INDEXED")
    except JournalError:
        return False
    return all(number > 0 for number, _ in rows)


def salvage(parts: Parts, run_id: str) -> Salvaged:
    """The intact part of a run; raises JournalError (JRN002) for an unknown one."""
    number, run = run_row(parts.reader, run_id)
    intact, lost = _intact_entries(parts.reader, run_id, number)
    events = intact[-1][0] + intact[-1][1][10] - 1 if intact else 0
    if lost is None:
        lost = _lost_beyond(parts.reader, run_id, events)
    if not intact:
        return Salvaged(run_id, 0, lost or "it has no events", ())
    try:
        lines = tuple(lines_of(parts, Source(_unfinished(run, intact), intact)))
    except CallsheetError as error:
        return Salvaged(run_id, 0, error.diagnostics[0].message, ())
    return Salvaged(run_id, events, lost, lines)


def _intact_entries(reader: Reader, run_id: str, number: int) -> tuple[list[tuple[int, Row]], str | None]:
    """The entries before the first bad one, and what is wrong with that; None if there is no bad one."""
    intact: list[tuple[int, Row]] = []
    expected, prev = 1, GENESIS
    try:
        for seq, row in _one_by_one(reader, number):
            if seq < 1:
                return intact, f"event {expected}: {_ENDS}"
            bad = check(reader, run_id, expected, prev, (seq, *row))
            if bad is not None:
                return intact, f"event {bad.seq}: {bad.why}"
            intact.append((seq, row))
            expected, prev = seq + row[10], row[-1]
    except JournalError as error:
        is_told_by_sqlite = isinstance(error.__cause__, sqlite3.DatabaseError)
        why = f"{_ENDS} ({error.__cause__})" if is_told_by_sqlite else error.diagnostics[0].message
        return intact, f"event {expected}: {why}"
    return intact, None


def _lost_beyond(reader: Reader, run_id: str, events: int) -> str | None:
    """What is wrong after the last intact event of a run; None if nothing is."""
    try:
        bad = verify(reader, run_id)
    except JournalError:
        return f"event {events + 1}: {_ENDS}"
    return None if bad is None else f"event {bad.seq}: {bad.why}"


def _one_by_one(reader: Reader, number: int) -> Iterator[tuple[int, Row]]:
    """The entries, read one at a time, so that a bad page loses no entry before it."""
    return entries_of(reader, number, page=1)


def _unfinished(run: dict[str, Any], intact: list[tuple[int, Row]]) -> dict[str, Any]:
    """The row of a run that has only these entries: as running if its end is lost."""
    has_ended = any(row[1] == EventType.END for _, row in intact)
    try:
        is_final = RunStatus(run["status"]).is_final
    except ValueError:
        is_final = False
    if is_final and has_ended:
        return run
    return run | {"status": str(RunStatus.RUNNING), "wake_at": None}


@contextmanager
def opened(path: Path) -> Generator[Journal]:
    """The journal at `path`, for salvaging; if the file was truncated, a temporary copy of it.

    SQLite reads no file that is shorter than its header says. The copy is filled up with zeros, which are not
    valid pages, so everything that can be read was written so. The original is not changed. Raises
    JournalError as `Journal.open_to_read` does.
    """
    try:
        journal = Journal.open_to_read(path)
    except JournalError as error:
        if error.diagnostics[0].code != "JRN012" or not _is_cut_off(path):
            raise
    else:
        with journal:
            yield journal
        return
    with TemporaryDirectory(prefix="callsheet-salvage-") as folder:
        try:
            copy = _filled_up(place_of(path), Path(folder) / path.name)
        except OSError as error:
            raise unusable(path, error) from error
        with _open_copy(copy, path) as journal:
            yield journal


def _open_copy(copy: Path, path: Path) -> Journal:
    journal = None
    try:
        journal = Journal.open_to_read(copy)
        run_ids(journal.parts.reader)
    except JournalError as error:
        if journal is not None:
            journal.close()
        size = path.stat().st_size
        raise JournalError(
            "JRN012",
            f"the journal {path} was cut off after {size} bytes, before its list of runs",
            "nothing can be salvaged: restore it from a copy or an export",
        ) from error
    return journal


def _filled_up(place: JournalPaths, copy: Path) -> Path:
    """A copy of a journal's files with zeros for what is missing at the end of its database."""
    shutil.copyfile(place.database, copy)
    with copy.open("r+b") as file:
        file.truncate(_length_in_header(file.read(_HEADER)))
    log = place.database.with_name(f"{place.database.name}-wal")
    if log.exists():
        shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
    copy_place = place_of(copy)
    if place.blobs.is_dir():
        copy_place.blobs.symlink_to(place.blobs, target_is_directory=True)
    copy_place.run_locks.mkdir()
    for tail in place.run_locks.glob(f"*{TAIL_SUFFIX}"):
        shutil.copyfile(tail, copy_place.run_locks / tail.name)
    return copy


def _is_cut_off(path: Path) -> bool:
    """Whether a database is shorter than its header says."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
        return len(head) == _HEADER and path.stat().st_size < _length_in_header(head)
    except OSError:
        return False


def _length_in_header(head: bytes) -> int:
    """The size of a database in bytes by its header: page size times number of pages."""
    page = int.from_bytes(head[16:18], "big")
    return (65_536 if page == 1 else page) * int.from_bytes(head[28:32], "big")
