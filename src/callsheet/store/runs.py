"""The runs of a journal: lists with their conditions and order, and one by its id, a prefix, or `last`.

In: a read connection, and what somebody wants. Out: runs, without their events. Conditions are SQL over the
columns of `runs`; what is left is checked with the statuses that people are told, which depend on living
processes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from callsheet.diagnostics import meant
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine import Outcome
from callsheet.store.connections import ReadConnection
from callsheet.store.errors import JournalError
from callsheet.store.journal_paths import may_begin_run_id
from callsheet.store.pending import sayable
from callsheet.store.schema import LISTED, PART, SEQ_BITS, has_index
from callsheet.store.writer import RunStatus

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
WITH page AS (
    SELECT number, is_found, place
    FROM (SELECT number, {found} AS is_found, {key} AS place FROM runs {where} {first})
    ORDER BY place {by}, number {by} LIMIT ?
)
SELECT run_id, status, plan_hash, created, number, is_found, place FROM page JOIN runs USING (number)
ORDER BY place {by}, number {by}
"""
"""The page is found in an index, without a look at the rows; then these are read."""
_NEWEST_FIRST = "ORDER BY created DESC LIMIT -1"
"""A falling order finds its first early so: ends follow starts, and of equals the newest is first."""
_NOT_FINAL = ", ".join(f"'{status}'" for status in RunStatus if not status.is_final)
_PAGE = 500
"""How many outlines are read at once."""
_LARGEST = 20_000
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
    """The step that it failed at, else the first that failed and that it went past."""
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
        `at_once` are read at a time, and more of later ones where a portion costs as much as the whole list.
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
        first = "" if rises or key == "created" else _NEWEST_FIRST
        while True:
            all_of = conditions if last is None else [*conditions, f"({key}, number) {then} (?, ?)"]
            query = _OUTLINES.format(found=found, key=key, where=_all_of(all_of), first=first, by=by)
            rows = self._connection.select(query, (*found_by, *fixed, *(last or ()), at_once))
            for run_id, status, plan_hash, created, number, is_found, _ in rows:
                has_failures = status == Outcome.DONE_WITH_FAILURES
                row = run_id, _status(status), plan_hash, created, number, has_failures, bool(is_found)
                yield RunOutline(*row)
            if len(rows) < at_once:
                return
            last = rows[-1][-1], rows[-1][4]
            if key != "created":  # without an index, each portion looks at all runs
                at_once = min(2 * at_once, _LARGEST)

    def counts(self, wanted: RunFilter | None = None) -> list[RunCount]:
        """How many runs that the conditions of `wanted` hold for have each status."""
        conditions, fixed = _where(wanted)
        if conditions:  # SQLite would sort the statuses of all runs that are found
            query = f"SELECT group_concat(+status) FROM runs {_all_of(conditions)}"
            words: str | None = self._connection.select(query, fixed)[0][0]
            rows = sorted(Counter(words.split(",")).items()) if words else []
        else:
            rows = self._connection.select("SELECT status, count(*) FROM runs GROUP BY status", ())
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

    def of_plan(self, limit: int, *, plan_hash: str = "", plan_id: str = "") -> list[RunInfo]:
        """The newest runs of the plan with this hash, or of all versions of the one with this id."""
        of_id = "runs.plan_hash IN (SELECT plan_hash FROM plans WHERE id = ?)"  # by the index of runs
        which, value = ("runs.plan_hash = ?", plan_hash) if plan_hash else (of_id, plan_id)
        return self._infos(f"WHERE {which} ORDER BY runs.created DESC, number DESC LIMIT ?", (value, limit))

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
        hint = meant(
            text,
            (info.run_id for info in self.newest(limit=500)),
            "`callsheet runs` lists them; for another journal: --journal PATH",
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


INTERRUPTED = "interrupted"
"""The status shown for a run that is not finished and that no process executes."""
_OPEN = frozenset({"queued", INTERRUPTED, *(status for status in RunStatus if not status.is_final)})
_WORDS = tuple(dict.fromkeys((*map(str, RunStatus), INTERRUPTED, "queued", str(Outcome.DONE_WITH_FAILURES))))
_STATUS = "+status"
"""Not looked up in the index by status, which has none of the other columns."""


class RunSort(StrEnum):
    """What a list of runs is sorted by."""

    CREATED = "created"
    ENDED = "ended"
    DURATION = "duration"
    COST = "cost"
    TOKENS = "tokens"

    @property
    def key(self) -> str:
        """The SQL expression of the key; what is not known comes before all else."""
        return _KEYS[self]


_KEYS: Mapping[RunSort, str] = {
    RunSort.CREATED: "created",
    RunSort.ENDED: "COALESCE(ended, -1.0)",
    RunSort.DURATION: "COALESCE(ended - created, -1.0)",
    RunSort.COST: "COALESCE(cost, -1.0)",
    RunSort.TOKENS: "COALESCE(tokens, -1)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Conditions on runs, all of which have to hold; one that is not set always does.

    `status` is one as people are told it, or the outcome `done_with_failures`. `text` is a part of the run's
    id, the name and goal of its plan, its tags or status; `plan` and `goal` are parts of those of the plan,
    `waits_for` of what it waits for; upper and lower case are the same. `plan_hash` begins the hash of the
    plan. `tags` are names, or `name=value`. Times are in seconds since 1970, and a run that has not ended has
    no time of its end.
    """

    status: str | None = None
    text: str = ""
    plan: str = ""
    goal: str = ""
    plan_hash: str = ""
    failed_step: str = ""
    waits_for: str = ""
    tags: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    ended_since: float | None = None
    ended_until: float | None = None
    least_cost: float | None = None
    most_cost: float | None = None
    least_tokens: int | None = None
    most_tokens: int | None = None

    @property
    def words(self) -> str:
        """The text to search for, as the index has it."""
        return sayable(self.text.strip().lower()) or ""

    def conditions(self) -> list[tuple[str, tuple[object, ...]]]:
        """The conditions in SQL, with their parameters, which all have to hold."""
        found = list[tuple[str, tuple[object, ...]]]()
        statuses = None if self.status is None else stored_statuses(self.status)
        if statuses is not None:
            found.append(_one_of(_STATUS, statuses))
        if self.words:
            by_word, values = _one_of(_STATUS, _stored_by_word(self.words))
            found.append((f"(instr(search, ?) > 0 OR {by_word})", (self.words, *values)))
        if name := " ".join(self.plan.split()).lower():
            found.append(("instr(search, ?) BETWEEN 1 AND instr(search, char(10)) - 1", (name,)))
        if goal := " ".join(self.goal.split()).lower():
            found.append((f"instr(search, ?) > 0 AND {PART}(goal, ?)", (goal, goal)))
        for tag in self.tags:
            line = f"\n{tag}\n" if "=" in tag else f"\n{tag}="
            found.append(("instr(search, ?) > 0", (line.lower(),)))
            found.append(("instr(tags, ?) > 0", (line,)))
        if self.plan_hash:
            found.append(("plan_hash >= ? AND plan_hash < ?", (self.plan_hash, f"{self.plan_hash}g")))
        if self.failed_step:
            found.append(("failed_step = ?", (self.failed_step,)))
        if self.waits_for.strip():
            waits = f"waits_for IS NOT NULL AND {PART}(waits_for, ?)"
            found.append((waits, (self.waits_for.strip().lower(),)))
        for condition, bound in (
            ("created >= ?", self.since),
            ("created < ?", self.until),
            ("ended >= ?", self.ended_since),
            ("ended < ?", self.ended_until),
            ("cost >= ?", self.least_cost),
            ("cost <= ?", self.most_cost),
            ("tokens >= ?", self.least_tokens),
            ("tokens <= ?", self.most_tokens),
        ):
            if bound is not None:
                found.append((condition, (bound,)))
        return [(condition, tuple(map(_storable, values))) for condition, values in found]

    def fits(self, told: str, outcome: str, *, is_found: bool) -> bool:
        """Whether a run that the conditions hold for is wanted, with this status and outcome as told.

        `is_found` says that it has the text in its id, name, goal or tags.
        """
        if self.status is not None and self.status not in (told, outcome):
            return False
        return is_found or not self.words or self.words in outcome or self.words in outcome.replace("_", " ")


def _storable(value: object) -> object:
    """A parameter as SQLite takes it: texts as the index has them, and no number above its largest one."""
    if isinstance(value, str):
        return sayable(value)
    return min(value, _MOST_NUMBER) if isinstance(value, int) else value


_MOST_NUMBER = 2**63 - 1
ALL_RUNS = RunFilter()
_AGE = r"(\d+)\s*([mhdwy]?)\Z"
_SECONDS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "": 86_400.0, "w": 604_800.0, "y": 31_557_600.0}
_MOST_SECONDS = 100 * _SECONDS["y"]


def seconds_of_age(text: str) -> float | None:
    """The seconds of an age such as 30d or 12h, None for `never`; raises ValueError for another text.

    >>> seconds_of_age("2h"), seconds_of_age("never")
    (7200.0, None)
    """
    word = text.strip().lower()
    if word == "never":
        return None
    match = re.match(_AGE, word, re.ASCII)
    if match is None or len(match[1]) > 9:
        raise ValueError(f"{text[:60]!r} is not an age; write 30d, 12h, 8w, 1y or never")
    return float(match[1]) * _SECONDS[match[2]]


_DAY = 86_400.0
_DAYS = {"today": 0, "yesterday": 1}


def moment_of(text: str, now: float) -> float:
    """The time that a text means, in seconds since 1970: an age before `now`, a date, or when a day began.

    Dates and days are by default in UTC. Raises ValueError for another text.

    >>> moment_of("1d", 100_000.0), moment_of("1970-01-02", 0.0), moment_of("1970-01-01T01:00+01:00", 0.0)
    (13600.0, 86400.0, 0.0)
    >>> moment_of("today", 200_000.0), moment_of("yesterday", 200_000.0)
    (172800.0, 86400.0)
    """
    word = text.strip()
    if word.lower() in _DAYS:
        return (now // _DAY - _DAYS[word.lower()]) * _DAY
    if re.match(_AGE, word.lower(), re.ASCII):
        return now - min(seconds_of_age(word) or 0.0, _MOST_SECONDS)
    try:
        date = datetime.fromisoformat(word)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        message = f"{text[:60]!r} is not a time; write an age as 2d, 2026-01-31T15:00, today or yesterday"
        raise ValueError(message) from None


def stored_statuses(status: str) -> tuple[str, ...] | None:
    """The statuses in the journal of runs with this one, as people are told it; None for any."""
    if status == Outcome.DONE_WITH_FAILURES:
        return (status,)
    if status in _OPEN and status != RunStatus.CORRUPT:  # an unknown status is told as corrupt
        return tuple(str(each) for each in RunStatus if not each.is_final)
    if any(each == status and each.is_final for each in RunStatus):
        return recorded(status)
    return None


def _stored_by_word(text: str) -> tuple[str, ...]:
    """The words in the column `status` of runs of which the status, as told, may contain a text."""
    told = [word for word in _WORDS if text in word or text in word.replace("_", " ")]
    found = [
        stored for word in told for stored in ((word,) if word not in _OPEN else stored_statuses(word) or ())
    ]
    return tuple(dict.fromkeys(found))


def _one_of(column: str, values: tuple[str, ...]) -> tuple[str, tuple[object, ...]]:
    return f"{column} IN ({', '.join('?' * len(values))})", values
