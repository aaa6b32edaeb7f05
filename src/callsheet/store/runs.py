"""Lists the runs of a journal, and finds one by its id, a prefix, or `last`.

In: a read connection; an id, a prefix of one, or `last`. Out: runs, without their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.diagnostics import did_you_mean
from callsheet.machine import Outcome
from callsheet.store.errors import JournalError
from callsheet.store.journal_paths import may_begin_run_id
from callsheet.store.read_connection import ReadConnection
from callsheet.store.schema import LISTED, SEQ_BITS, has_index
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.store.run_filter import RunFilter, RunSort

_RUNS = f"""
SELECT run_id, status, runs.plan_hash, plans.id, plans.title, parent_run, owner, runs.epoch, wake_at,
       runs.created, updated, COALESCE(last.id + last.covers - 1 - (number << {SEQ_BITS}), 0), last.hash,
       last.ts, core_version, forked_at, {{columns}}
FROM runs JOIN plans USING (plan_hash)
LEFT JOIN events AS last ON last.id = (
    SELECT max(id) FROM events WHERE id > number << {SEQ_BITS} AND id < (number + 1) << {SEQ_BITS}
)
"""
_SHOWN = tuple(name for name in LISTED if name not in ("search", "indexed"))
_OUTLINES = """
WITH page AS (SELECT number, {found} AS is_found, {key} AS place FROM runs {where} ORDER BY {order} LIMIT ?)
SELECT run_id, status, plan_hash, created, number, is_found, place FROM page JOIN runs USING (number)
ORDER BY place {by}, number {by}
"""
"""The page is found in an index, without a look at the rows; then these are read."""
_NOT_FINAL = ", ".join(f"'{status}'" for status in RunStatus if not status.is_final)
_PAGE = 500
"""How many outlines are read at once."""
_UNLISTED = """
SELECT number, run_id, status, plan_hash, head_seq, name FROM runs
WHERE indexed IS NOT head_seq AND number > ? ORDER BY number LIMIT ?
"""


class RunInfo(NamedTuple):
    """Summary of a run.

    `events` is the number of its events, `head_hash` the hash of the last one; `created`, `updated` and
    `wake_at` are seconds since 1970; `plan_id` and `title` are those of its plan.
    """

    run_id: str
    status: RunStatus
    plan_hash: str
    plan_id: str | None
    title: str | None
    parent_run: str | None
    owner: str | None
    epoch: int
    wake_at: float | None
    created: float
    updated: float
    events: int
    head_hash: bytes | None
    core_version: str
    forked_at: int | None = None
    """For a fork: the last event of its parent that it has a copy of."""
    has_failures: bool = False
    """Whether the run is done with failures; runs that ended before this was recorded do not tell."""
    name: str | None = None
    """What it is called; None in a journal of a version that did not store it."""
    goal: str | None = None
    """The goal of its plan, which a list may be searched by."""
    ended: float | None = None
    """When it ended, in seconds since 1970; None in older journals, as all below (`refresh_index`)."""
    failed_step: str | None = None
    """The first step that failed."""
    waits_for: str | None = None
    cost: float | None = None
    tokens: int | None = None
    tags: str | None = None
    """The lines `name=value`, each between line breaks."""


class RunOutline(NamedTuple):
    """What a run is searched by: its row, without anything of its events. As in `RunInfo`.

    `is_found` is whether it has the text that was searched for, other than in its status.
    """

    run_id: str
    status: RunStatus
    plan_hash: str
    created: float
    number: int
    has_failures: bool
    is_found: bool = True


class Unlisted(NamedTuple):
    """A run whose columns for lists are not those of its last event."""

    number: int
    run_id: str
    word: str
    """Its status, as it is stored."""
    plan_hash: str
    head_seq: int
    name: str | None

    @property
    def status(self) -> RunStatus:
        """Its status."""
        return _status(self.word)


class RunCount(NamedTuple):
    """How many runs have a status."""

    status: RunStatus
    has_failures: bool
    runs: int


class Runs:
    """The runs in the database of a read connection."""

    def __init__(self, connection: ReadConnection) -> None:
        self._connection = connection
        self._has_index = False

    def newest(self, limit: int | None = None, status: RunStatus | Outcome | None = None) -> list[RunInfo]:
        """The runs, newest first, at most `limit`, only those of `status` if given.

        Runs that are done with failures are among those of the status `DONE`.
        """
        wanted = () if status is None else recorded(status)
        where = f"WHERE status IN ({', '.join('?' * len(wanted))})" if wanted else ""
        return self._infos(
            f"{where} ORDER BY runs.created DESC, number DESC LIMIT ?",
            (*wanted, -1 if limit is None else min(limit, _MOST)),
        )

    def older(self, before: str | None = None) -> Iterator[RunInfo]:
        """The runs, newest first, of those before a run only the ones older than it; read in portions.

        A page costs no more for the runs before it. Raises JournalError (JRN002) for an unknown run.
        """
        last: RunInfo | None = None
        if before is not None and (last := self.get(before)) is None:
            raise self.unknown(before)
        outlines = self.outlines(before=last, at_once=_PORTION)
        while portion := [outline.run_id for outline in islice(outlines, _PORTION)]:
            yield from self.infos(portion)

    def outlines(
        self,
        wanted: RunFilter | None = None,
        before: RunInfo | None = None,
        sort: RunSort | None = None,
        *,
        rises: bool = False,
        is_open: bool = False,
        at_once: int = _PAGE,
    ) -> Iterator[RunOutline]:
        """The outlines of the runs that the conditions of `wanted` hold for, by falling or rising `sort`.

        All are, and the time of their start, if these are None.
        With `before` only those that come after this run; with `is_open` only those that have not ended.
        `at_once` are read at a time.
        """
        conditions, fixed = _where(wanted)
        if is_open:
            conditions.append(f"status IN ({_NOT_FINAL})")
        key = "created" if sort is None else sort.key
        last: tuple[object, int] | None = None
        if before is not None:
            number = self.base_of(before.run_id) >> SEQ_BITS
            ((place,),) = self._connection.select(f"SELECT {key} FROM runs WHERE number = ?", (number,))
            last = place, number
        words = "" if wanted is None else wanted.words
        found, found_by = ("instr(search, ?) > 0", (words,)) if words else ("1", ())
        by, then = ("ASC", ">") if rises else ("DESC", "<")
        while True:
            all_of = conditions if last is None else [*conditions, f"({key}, number) {then} (?, ?)"]
            where, order = _all_of(all_of), f"{key} {by}, number {by}"
            query = _OUTLINES.format(found=found, key=key, where=where, order=order, by=by)
            rows = self._connection.select(query, (*found_by, *fixed, *(last or ()), at_once))
            for run_id, status, plan_hash, created, number, is_found, _ in rows:
                has_failures = status == Outcome.DONE_WITH_FAILURES
                row = run_id, _status(status), plan_hash, created, number, has_failures, bool(is_found)
                yield RunOutline(*row)
            if len(rows) < at_once:
                return
            last = rows[-1][-1], rows[-1][4]

    def counts(self, wanted: RunFilter | None = None) -> list[RunCount]:
        """How many runs that the conditions of `wanted` hold for have each status."""
        conditions, fixed = _where(wanted)
        by = "+status" if conditions else "status"  # with conditions, the index with all columns is better
        query = f"SELECT status, count(*) FROM runs {_all_of(conditions)} GROUP BY {by}"
        rows = self._connection.select(query, fixed)
        return [RunCount(_status(word), word == Outcome.DONE_WITH_FAILURES, number) for word, number in rows]

    def has_index(self) -> bool:
        """Whether the runs have the columns that lists are searched by; an older journal may lack them."""
        if not self._has_index:
            with self._connection.reading(settles=False) as connection:
                self._has_index = has_index(connection)
        return self._has_index

    def unlisted(self, most: int, after: int = 0) -> list[Unlisted]:
        """Runs whose columns for lists have to be made from their events: at most so many, after a number."""
        return [Unlisted(*row) for row in self._connection.select(_UNLISTED, (after, most))]

    def infos(self, run_ids: Sequence[str]) -> list[RunInfo]:
        """The runs with these ids, in this order, without those that do not exist."""
        marks = ", ".join("?" * len(run_ids))
        found = {info.run_id: info for info in self._infos(f"WHERE run_id IN ({marks})", tuple(run_ids))}
        return [found[run_id] for run_id in run_ids if run_id in found]

    def get(self, run_id: str) -> RunInfo | None:
        """The run with exactly this id, or None."""
        return next(iter(self._infos("WHERE run_id = ?", (run_id,))), None)

    def has(self, run_id: str) -> bool:
        """Whether there is a run with this id; tails are not read, as they belong to runs in the database."""
        with self._connection.reading(settles=False) as connection:
            row = connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return row is not None

    def children_of(self, run_id: str) -> list[RunInfo]:
        """The runs that were forked from a run, oldest first."""
        return self._infos(
            "WHERE parent_run = ? AND forked_at IS NOT NULL ORDER BY runs.created, number", (run_id,)
        )

    def find(self, text: str) -> RunInfo:
        """The run with this id or unambiguous prefix of an id; for `last`, the newest run.

        Raises JournalError (JRN002) if there is none or more than one.
        """
        if not may_begin_run_id(text):
            raise self.unknown(text)
        run_info = self.get(text)
        if run_info is None and text == "last":
            run_info = next(iter(self.newest(limit=1)), None)
        if run_info is not None:
            return run_info
        near = self._infos("WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT 4", (text, text + "\x7f"))
        if len(near) == 1:
            return near[0]
        if not near:
            raise self.unknown(text)
        shown = ", ".join(info.run_id for info in near[:3]) + (", …" if len(near) > 3 else "")
        raise JournalError(
            "JRN002", f"more than one run starts with {text}: {shown}", "give more characters of the id"
        )

    def unknown(self, text: str) -> JournalError:
        """The error that there is no such run, with the nearest ids."""
        suggestions = did_you_mean(text, (info.run_id for info in self.newest(limit=500)))
        hint = (
            f"did you mean {' or '.join(suggestions)}?"
            if suggestions
            else "`callsheet runs` lists them; for another journal: --journal PATH"
        )
        return JournalError("JRN002", f"there is no run {text[:80]!a} in this journal", hint)

    def base_of(self, run_id: str) -> int:
        """The number below the row ids of a run's events; raises JournalError (JRN002) for an unknown run."""
        if may_begin_run_id(run_id):
            rows = self._connection.select("SELECT number FROM runs WHERE run_id = ?", (run_id,))
            if rows:
                return rows[0][0] << SEQ_BITS
        raise self.unknown(run_id)

    def _infos(self, rest: str, values: tuple[object, ...]) -> list[RunInfo]:
        known = self.has_index()
        columns = ", ".join(f"runs.{name}" if known else "NULL" for name in _SHOWN)
        query = f"{_RUNS.format(columns=columns)} {rest}"
        return [_info(row) for row in self._connection.select(query, values)]


_PORTION = 50
"""How many runs are read at once while someone goes through the list."""


_MOST = 2**63 - 1
"""The largest number that SQLite takes."""


def _info(row: tuple[Any, ...]) -> RunInfo:
    run_id, status, plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated, *last = row
    events, head_hash, last_ts, core_version, forked_at, *listed = last
    updated = max(updated, last_ts or updated)
    return RunInfo(
        run_id, _status(status), plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated,
        events, head_hash, core_version, forked_at, status == Outcome.DONE_WITH_FAILURES, *listed,
    )  # fmt: skip


def _all_of(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _where(wanted: RunFilter | None) -> tuple[list[str], tuple[object, ...]]:
    """The conditions of a filter, and their parameters."""
    found = [] if wanted is None else wanted.conditions()
    return [condition for condition, _ in found], tuple(value for _, values in found for value in values)


def recorded(status: str) -> tuple[str, ...]:
    """The words in the column `status` of runs with this status: those that are done may have failures."""
    return (status, str(Outcome.DONE_WITH_FAILURES)) if status == RunStatus.DONE else (status,)


def _status(text: str) -> RunStatus:
    """The status in a row; one of a newer version is told as corrupt."""
    if text == Outcome.DONE_WITH_FAILURES:
        return RunStatus.DONE
    try:
        return RunStatus(text)
    except ValueError:
        return RunStatus.CORRUPT
