"""Lists the runs of a journal, and finds one by its id, a prefix, or `last`.

In: a read connection; an id, a prefix of one, or `last`. Out: runs, without their events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import did_you_mean
from callsheet.ir import Plan
from callsheet.machine import Outcome
from callsheet.store.errors import JournalError
from callsheet.store.journal_paths import may_begin_run_id
from callsheet.store.pending import sayable
from callsheet.store.read_connection import ReadConnection
from callsheet.store.schema import NAMES, SEQ_BITS, has_names
from callsheet.store.writer import RunStatus

_RUNS = f"""
SELECT run_id, status, runs.plan_hash, plans.id, plans.title, parent_run, owner, runs.epoch, wake_at,
       runs.created, updated, COALESCE(last.id + last.covers - 1 - (number << {SEQ_BITS}), 0), last.hash,
       last.ts, core_version, forked_at, {{names}}
FROM runs JOIN plans USING (plan_hash)
LEFT JOIN events AS last ON last.id = (
    SELECT max(id) FROM events WHERE id > number << {SEQ_BITS} AND id < (number + 1) << {SEQ_BITS}
)
"""
_OUTLINES = "SELECT run_id, status, plan_hash, created, number, {names} FROM runs"
_PAGE = 500
"""How many outlines are read at once."""


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


class RunOutline(NamedTuple):
    """What a run is searched by: its row, without anything of its events. As in `RunInfo`."""

    run_id: str
    status: RunStatus
    plan_hash: str
    created: float
    number: int
    has_failures: bool
    name: str | None
    goal: str | None


class Runs:
    """The runs in the database of a read connection."""

    def __init__(self, connection: ReadConnection) -> None:
        self._connection = connection
        self._names = ""

    def newest(self, limit: int | None = None, status: RunStatus | Outcome | None = None) -> list[RunInfo]:
        """The runs, newest first, at most `limit`, only those of `status` if given.

        Runs that are done with failures are among those of the status `DONE`.
        """
        recorded = () if status is None else _recorded((status,))
        where = f"WHERE status IN ({', '.join('?' * len(recorded))})" if recorded else ""
        return self._infos(
            f"{where} ORDER BY runs.created DESC, number DESC LIMIT ?",
            (*recorded, -1 if limit is None else min(limit, _MOST)),
        )

    def older(self, before: str | None = None) -> Iterator[RunInfo]:
        """The runs, newest first, of those before a run only the ones older than it; read in portions.

        A page costs no more for the runs before it. Raises JournalError (JRN002) for an unknown run.
        """
        last: RunInfo | None = None
        if before is not None and (last := self.get(before)) is None:
            raise self.unknown(before)
        outlines = self.outlines(None, last, at_once=_PORTION)
        while portion := [outline.run_id for outline in islice(outlines, _PORTION)]:
            yield from self.infos(portion)

    def outlines(
        self,
        statuses: Collection[RunStatus | Outcome] | None = None,
        before: RunInfo | None = None,
        *,
        at_once: int = _PAGE,
    ) -> Iterator[RunOutline]:
        """The outlines of runs, newest first: only those of `statuses`, only older ones than `before`.

        Runs that are done with failures are among those of the status `DONE`. `at_once` are read at a time.
        """
        conditions, fixed = list[str](), list[object]()
        if statuses is not None:
            recorded = _recorded(statuses)
            conditions.append(f"status IN ({', '.join('?' * len(recorded))})")
            fixed += recorded
        last: tuple[float, int] | None = None
        if before is not None:
            last = before.created, self.base_of(before.run_id) >> SEQ_BITS
        while True:
            wanted = conditions if last is None else [*conditions, "(created, number) < (?, ?)"]
            where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
            query = (
                f"{_OUTLINES.format(names=self._columns())}{where} ORDER BY created DESC, number DESC LIMIT ?"
            )
            rows = self._connection.select(query, (*fixed, *(last or ()), at_once))
            for run_id, status, plan_hash, created, number, *names in rows:
                has_failures = status == Outcome.DONE_WITH_FAILURES
                yield RunOutline(run_id, _status(status), plan_hash, created, number, has_failures, *names)
            if len(rows) < at_once:
                return
            last = rows[-1][3], rows[-1][4]

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
        query = f"{_RUNS.format(names=self._columns())} {rest}"
        return [_info(row) for row in self._connection.select(query, values)]

    def _columns(self) -> str:
        """The columns of names; NULL for each in a journal that no writer of this version has opened yet."""
        if not self._names:
            with self._connection.reading(settles=False) as connection:
                if not has_names(connection):
                    return ", ".join("NULL" for _ in NAMES)
            self._names = ", ".join(f"runs.{name}" for name in NAMES)
        return self._names


_PORTION = 50
"""How many runs are read at once while someone goes through the list."""


_MOST = 2**63 - 1
"""The largest number that SQLite takes."""


def _info(row: tuple[Any, ...]) -> RunInfo:
    run_id, status, plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated, *last = row
    events, head_hash, last_ts, core_version, forked_at, name, goal = last
    updated = max(updated, last_ts or updated)
    return RunInfo(
        run_id, _status(status), plan_hash, plan_id, title, parent, owner, epoch, wake_at, created, updated,
        events, head_hash, core_version, forked_at, status == Outcome.DONE_WITH_FAILURES, name, goal,
    )  # fmt: skip


def _recorded(statuses: Collection[RunStatus | Outcome]) -> tuple[str, ...]:
    """The words in the column `status` of runs with these statuses."""
    more = (Outcome.DONE_WITH_FAILURES,) if RunStatus.DONE in statuses else ()
    return tuple(map(str, dict.fromkeys((*statuses, *more))))


def _status(text: str) -> RunStatus:
    """The status in a row; one of a newer version is told as corrupt."""
    if text == Outcome.DONE_WITH_FAILURES:
        return RunStatus.DONE
    try:
        return RunStatus(text)
    except ValueError:
        return RunStatus.CORRUPT


_LONGEST_NAME = 200
_LONGEST_GOAL = 1_000
_OF_A_GOAL = 80
_UNNAMED = frozenset({"", "-", "plan", "<plan>", "<stdin>"})
"""The names of texts that come from no file, and that nobody has named."""


class RunNames(NamedTuple):
    """The name of a run, and the goal of its plan."""

    name: str
    goal: str | None


def names_of(plan: Plan, start: Mapping[str, Any] | None, plan_hash: str) -> RunNames:
    """The names of a run with this plan and start: the plan's title or id, else its file, else its goal.

    >>> names_of(Plan((), goal="Pay what is owed"), {"launch": {"plan": "<plan>"}}, "0123456789ab").name
    'Pay what is owed'
    """
    launch = (start or {}).get("launch")
    noted = cast("Mapping[str, Any]", launch).get("plan") if isinstance(launch, Mapping) else None
    file = noted if isinstance(noted, str) and noted not in _UNNAMED else ""
    goal = " ".join((plan.goal or "").split())
    short = goal if len(goal) <= _OF_A_GOAL else f"{goal[: _OF_A_GOAL - 1]}…"
    name = plan.title or plan.id or file or short or f"plan {plan_hash[:12]}"
    return RunNames(sayable(name[:_LONGEST_NAME]) or "", sayable(goal[:_LONGEST_GOAL]) or None)
