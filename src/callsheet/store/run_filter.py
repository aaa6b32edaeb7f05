"""Which runs of a journal a list shows, and in which order: conditions on the index of runs.

In: what somebody wants. Out: SQL over the columns of `runs`, and what is left to check with the statuses that
people are told, which depend on living processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from callsheet.machine import Outcome
from callsheet.store.pending import sayable
from callsheet.store.runs import recorded
from callsheet.store.schema import PART
from callsheet.store.writer import RunStatus

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


def moment_of(text: str, now: float) -> float:
    """The time that a text means, in seconds since 1970: an age before `now`, or a date, by default in UTC.

    Raises ValueError for another text.

    >>> moment_of("1d", 100_000.0), moment_of("1970-01-02", 0.0), moment_of("1970-01-01T01:00+01:00", 0.0)
    (13600.0, 86400.0, 0.0)
    """
    word = text.strip()
    if re.match(_AGE, word.lower(), re.ASCII):
        return now - min(seconds_of_age(word) or 0.0, _MOST_SECONDS)
    try:
        date = datetime.fromisoformat(word)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        message = f"{text[:60]!r} is not a time; write an age such as 30m, 12h or 2d, or 2026-01-31T15:00"
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
