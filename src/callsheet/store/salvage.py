"""What is whole of runs in a damaged journal, on its way into an export.

In: a journal that SQLite may not be able to read everywhere. Out: of each run the entries from
its start up to the first that is missing, changed or unreadable. A run that loses its end that
way is an unfinished one again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.store.archive import Row, Source, entries_of, lines_of, run_row
from callsheet.store.errors import JournalError
from callsheet.store.events import GENESIS, EventType
from callsheet.store.journal import Parts
from callsheet.store.reader import Reader
from callsheet.store.writer import RunStatus


class Salvaged(NamedTuple):
    """What is whole of a run; `lost` says what ended it, None where all of it is whole."""

    run_id: str
    events: int
    lost: str | None
    lines: tuple[bytes, ...]
    """Its export; empty where nothing of it can be saved."""


def run_ids(reader: Reader) -> list[str]:
    """The runs that can be found, the oldest first."""
    found: list[str] = []
    number = 0
    while True:
        try:
            rows = reader.select(
                "SELECT number, run_id FROM runs NOT INDEXED WHERE number > ? ORDER BY number LIMIT 1",
                (number,),
            )
        except JournalError:
            rows = reader.select(
                "SELECT number, run_id FROM runs NOT INDEXED WHERE number = ?", (number + 1,)
            )
        if not rows:
            return found
        number = rows[0][0]
        found.append(str(rows[0][1]))


def salvage(parts: Parts, run_id: str) -> Salvaged:
    """What is whole of a run; raises JournalError (JRN002) for an unknown one."""
    number, run = run_row(parts.reader, run_id)
    whole, lost = _whole(parts.reader, run_id, number)
    events = whole[-1][0] + whole[-1][1][10] - 1 if whole else 0
    if lost is None:
        bad = parts.reader.verify(run_id)
        lost = None if bad is None else f"event {bad.seq}: {bad.why}"
    if not whole:
        return Salvaged(run_id, 0, lost or "it has no events", ())
    try:
        lines = tuple(lines_of(parts, Source(_unfinished(run, whole), whole)))
    except CallsheetError as error:
        return Salvaged(run_id, 0, error.diagnostics[0].message, ())
    return Salvaged(run_id, events, lost, lines)


def _whole(reader: Reader, run_id: str, number: int) -> tuple[list[tuple[int, Row]], str | None]:
    """The entries up to the first bad one, and what is bad about that."""
    whole: list[tuple[int, Row]] = []
    expected, prev = 1, GENESIS
    try:
        for seq, row in _one_by_one(reader, number):
            bad = reader.check(run_id, expected, prev, (seq, *row))
            if bad is not None:
                return whole, f"event {bad.seq}: {bad.why}"
            whole.append((seq, row))
            expected, prev = seq + row[10], row[-1]
    except JournalError as error:
        return whole, f"event {expected}: {error.diagnostics[0].message}"
    return whole, None


def _one_by_one(reader: Reader, number: int) -> Iterator[tuple[int, Row]]:
    """The entries, with no more of them read at once than is needed to come to a bad one."""
    return entries_of(reader, number, page=1)


def _unfinished(run: dict[str, Any], whole: list[tuple[int, Row]]) -> dict[str, Any]:
    """The row of a run that has only these entries."""
    has_ended = any(row[1] == EventType.END for _, row in whole)
    try:
        is_final = RunStatus(run["status"]).is_final
    except ValueError:
        is_final = False
    if is_final and has_ended:
        return run
    return run | {"status": str(RunStatus.RUNNING), "wake_at": None}
