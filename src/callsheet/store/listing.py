"""The runs of a journal with their statuses as people are told them: filtered, sorted, counted.

A run that is not finished, and that no process executes, is interrupted. The index of runs is brought up to
date before it is used.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.lazy import dataclass
from callsheet.machine import Outcome
from callsheet.store.errors import JournalError
from callsheet.store.events import EventType
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_owned, place_of
from callsheet.store.pending import NO_FACTS, RunFacts
from callsheet.store.run_index import RunNames, facts_of_end, facts_of_rest, names_of
from callsheet.store.runs import (
    ALL_RUNS,
    INTERRUPTED,
    RunFilter,
    RunInfo,
    RunOutline,
    Runs,
    RunSort,
    Unlisted,
)
from callsheet.store.start import Start
from callsheet.store.writer import RunStatus

ENGINE = "engine"
"""The key in a run's launch data that describes the engine."""


def engine_of(journal: Journal, run_id: str) -> Mapping[str, Any] | None:
    """The description of the engine that executes a run; None if it is executed here."""
    start = next(iter(journal.events(run_id, lenient=True)), None)
    launch: Mapping[str, Any] = (start.body or {}).get("launch") or {} if start is not None else {}
    return launch.get(ENGINE)


def is_run_by_engine(start: Start) -> bool:
    """Whether an external engine executes a run with this start."""
    return ENGINE in start.launch


def check_here(journal: Journal, run_id: str) -> None:
    """Raise JournalError (TMP007) if an external engine executes the run, which alone can change it."""
    engine = engine_of(journal, run_id)
    if engine is not None:
        name = str(engine.get("name", "")).title()
        raise JournalError(
            "TMP007",
            f"run {run_id} is executed by {name}, which only commands of the shell send requests to; this"
            " journal has a copy of it",
            hint=f"`callsheet pause {run_id}`, or resume, decide, approve, cancel, and rerun for plans with"
            " blocks",
        )


def shown_status(journal: Journal, info: RunInfo | RunOutline) -> str:
    """The status of a run as people are told it."""
    if info.status is not RunStatus.RUNNING or is_owned(place_of(journal.path), info.run_id):
        return str(info.status)
    return INTERRUPTED if engine_of(journal, info.run_id) is None else str(info.status)


def shown_outcome(info: RunInfo | RunOutline, shown: str) -> str:
    """What a run has come to: its `shown` status, unless it is done with failures."""
    return str(Outcome.DONE_WITH_FAILURES) if info.has_failures else shown


Told: TypeAlias = "Callable[[RunInfo | RunOutline], str]"
"""The status of a run as people are told it."""


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs a list shows: at most `limit` of those `wanted`, falling or rising, those after `before`."""

    wanted: RunFilter = ALL_RUNS
    sort: RunSort = RunSort.CREATED
    rises: bool = False
    limit: int | None = None
    before: RunInfo | None = None


def listed_runs(journal: Journal, query: RunQuery, told: Told | None = None) -> list[tuple[RunInfo, str]]:
    """The runs of a query, each with its status as `told`, by default without regard to a host's queue.

    Raises JournalError if the journal cannot be read.
    """
    tell = told or partial(shown_status, journal)
    statuses = dict[str, str]()
    at_once = 500 if query.limit is None else min(500, query.limit + 1)
    with _indexed(journal) as runs:
        outlines = runs.outlines(query.wanted, query.before, query.sort, rises=query.rises, at_once=at_once)
        for run in outlines:
            if query.limit is not None and len(statuses) >= query.limit:
                break
            status = tell(run)
            if query.wanted.fits(status, shown_outcome(run, status), is_found=run.is_found):
                statuses[run.run_id] = status
        names = list(statuses)
        portions = (names[at : at + _AT_ONCE] for at in range(0, len(names), _AT_ONCE))
        return [(info, statuses[info.run_id]) for each in portions for info in runs.infos(each)]


_AT_ONCE = 500


def run_counts(journal: Journal, wanted: RunFilter, told: Told | None = None) -> dict[str, int]:
    """How many of the wanted runs have each outcome, as it is told; the most frequent first.

    Raises JournalError if the journal cannot be read.
    """
    tell = told or partial(shown_status, journal)
    counts = Counter[str]()
    with _indexed(journal) as runs:
        found = runs.counts(wanted)
        for status, has_failures, count in found:
            if status.is_final:
                counts[str(Outcome.DONE_WITH_FAILURES if has_failures else status)] += count
        is_any_open = any(not status.is_final for status, *_ in found)
        for run in runs.outlines(wanted, is_open=True) if is_any_open else ():
            status = tell(run)
            if wanted.fits(status, shown_outcome(run, status), is_found=run.is_found):
                counts[shown_outcome(run, status)] += 1
    return dict(counts.most_common())


def found_runs(journal: Journal, status: str | None, limit: int | None) -> list[tuple[RunInfo, str]]:
    """At most so many runs, the newest first, each with its status; of a `status` only those.

    `done_with_failures` finds only such runs, `done` finds them too.
    """
    return listed_runs(journal, RunQuery(wanted=RunFilter(status=status), limit=limit))


def plan_name(journal: Journal, info: RunInfo) -> str:
    """What a run's plan is called: its title or id, else the file it was read from, else its goal."""
    return run_names(journal, info).name if info.name is None else info.name


def run_names(journal: Journal, run: RunInfo) -> RunNames:
    """The name of a run and the goal of its plan; the hash of the plan stands for what cannot be read."""
    try:
        return journal.names(run)
    except CallsheetError:  # `show` reports the error
        return RunNames(f"plan {run.plan_hash[:12]}", None)


_PORTION = 200


def refresh_index(journal: Journal) -> bool:
    """Make the columns that lists are searched by, for the runs of which they are not up to date.

    Those are runs of an older journal, imported ones, and some forks. Returns False, with some left, if the
    journal cannot be written. Raises JournalError if it cannot be read.
    """
    parts = journal.parts
    runs, can_write = parts.reader.runs, os.access(journal.path, os.W_OK)
    if not runs.has_index() and can_write:
        with suppress(JournalError):
            parts.ledger.maintain(lambda _: None)  # the connection that writes adds it
    if not runs.has_index():
        return False
    for rows in _unlisted_rows(journal, runs):
        if not can_write:
            return False
        try:
            parts.ledger.maintain(partial(_reindex, rows))
        except JournalError:
            return False  # it may be locked, or its disk full: that is no reason to list nothing
    return True


@contextmanager
def _indexed(journal: Journal) -> Generator[Runs]:
    """The runs with their index up to date; of a journal that cannot be written, in a copy in memory.

    The copy is for one list only, so that nobody goes on with what the journal was.
    """
    if refresh_index(journal):
        yield journal.parts.reader.runs
        return
    with closing(journal.parts.reader.copied()) as copy:
        runs = Runs(copy)
        for rows in _unlisted_rows(journal, runs):
            with copy.reading() as connection:
                _reindex(rows, connection.cursor())
        yield runs


def _unlisted_rows(journal: Journal, runs: Runs) -> Iterator[list[tuple[object, ...]]]:
    """In portions, the columns of the runs of which they are not up to date."""
    last = 0
    while stale := runs.unlisted(_PORTION, last):
        last = stale[-1].number
        yield [_row_of(journal, run) for run in stale]


def _reindex(rows: list[tuple[object, ...]], cursor: sqlite3.Cursor) -> None:
    cursor.executemany(_REINDEX, rows)


_REINDEX = """
UPDATE runs SET name = ?, goal = ?, tags = ?, search = ?, ended = ?, failed_step = ?, waits_for = ?, cost = ?,
tokens = ?, indexed = head_seq WHERE number = ? AND head_seq = ? AND status = ?
"""


def _row_of(journal: Journal, run: Unlisted) -> tuple[object, ...]:
    """The columns of a run, from its events; what cannot be read is left out."""
    names, facts = index_of(journal, run)
    return (*names, names.searched(run.run_id), *facts, run.number, run.head_seq, run.word)


_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError)
"""The errors of an event whose body is not as this version writes it, as an import may bring one."""


def index_of(journal: Journal, run: Unlisted) -> tuple[RunNames, RunFacts]:
    """What the index says of a run, as a fold of its events gives it."""
    names, facts = RunNames(run.name or f"plan {run.plan_hash[:12]}", None), NO_FACTS
    with suppress(CallsheetError, *_MALFORMED):
        start = next(iter(journal.events(run.run_id, lenient=True)), None)
        plan = journal.plan_of(run.plan_hash)
        names = names_of(plan, None if start is None else start.body, run.plan_hash)
        if run.status.is_final:
            end = journal.parts.reader.last_of(run.run_id, EventType.END)
            facts = NO_FACTS if end is None else facts_of_end(end.body or {}, end.ts)
        elif run.status in (RunStatus.WAITING, RunStatus.IN_DOUBT, RunStatus.PAUSED):
            from callsheet.store.replay import fold  # noqa: PLC0415 - only for such runs

            facts = facts_of_rest(fold(plan, journal.events(run.run_id), journal.plan_of))
    return names, facts
