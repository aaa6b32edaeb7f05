"""The runs that a host left when its process ended: found, counted, given up if the server dies of them.

In: a journal, and the name that a host records with its runs. Out: run ids, oldest first.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from callsheet.diagnostics import CallsheetError
from callsheet.lazy import deferred
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.inbox import asks_of
from callsheet.store import Journal, RunStatus
from callsheet.store.journal_paths import JournalPaths, attempts_of, is_owned, place_of
from callsheet.store.runs import RunInfo

if TYPE_CHECKING:
    from callsheet.runtime import forking
else:
    forking = deferred("callsheet.runtime.forking")  # brings forecasts

_log = logging.getLogger("callsheet.hosting")


class LeftRuns(NamedTuple):
    """The runs that a host left: to resume at once, those it died of, and those that wait, with questions."""

    interrupted: Sequence[str] = ()
    given_up: Sequence[str] = ()
    waiting: Mapping[str, Sequence[PendingAsk]] = {}


def runs_left_by(name: str, journal: Journal) -> LeftRuns:
    """The runs that hosts of this name left in a journal; none for an empty name."""
    if not name:
        return LeftRuns()
    place = place_of(journal.path)
    interrupted = [
        info.run_id
        for info in journal.runs(status=RunStatus.RUNNING)
        if not is_owned(place, info.run_id) and _is_of(name, journal, info)
    ]
    waiting = {
        info.run_id: _asks(journal, info)
        for info in journal.runs(status=RunStatus.WAITING)
        if _is_of(name, journal, info)
    }
    return LeftRuns(interrupted[::-1], waiting=waiting)


def _is_of(name: str, journal: Journal, info: RunInfo) -> bool:
    try:
        start = next(iter(journal.events(info.run_id, lenient=True)), None)
    except CallsheetError as error:
        _log.warning("run %s cannot be looked at: %s", info.run_id, error)
        return False
    launch: dict[str, object] = {} if start is None or start.body is None else start.body.get("launch") or {}
    return launch.get(forking.HOST) == name


def _asks(journal: Journal, info: RunInfo) -> Sequence[PendingAsk]:
    try:
        return asks_of(journal, info.run_id)
    except CallsheetError as error:
        _log.warning("the inbox of run %s cannot be read: %s", info.run_id, error)
        return ()


MAX_ATTEMPTS = 3
"""How many attempts in a row may end with the death of the server."""
FORGIVEN_AFTER = 600.0
"""Seconds after which a death of the server is no longer attributed to the run."""


class Attempts:
    """The attempts of servers to resume runs of one journal that an earlier server left."""

    def __init__(self, place: JournalPaths) -> None:
        self._place = place
        self._open: set[str] = set()

    def count(self, run_id: str) -> int:
        """How many attempts in a row have not ended."""
        with suppress(OSError):
            return self._path(run_id).stat().st_size
        return 0

    def begin(self, run_id: str) -> None:
        """Record an attempt; if its file cannot be written, it is not counted."""
        self._open.add(run_id)
        with suppress(OSError):
            self._place.run_locks.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open(self._path(run_id), flags, 0o600)
            try:
                os.write(fd, b".")
            finally:
                os.close(fd)

    def close(self, run_id: str) -> None:
        """End an attempt of this process, in whatever way, and reset the count of its run."""
        if run_id in self._open:
            self._open.remove(run_id)
            self.forget(run_id)

    def forget(self, run_id: str) -> None:
        """Reset the count of a run, because a person has asked for it to be resumed."""
        with suppress(OSError):
            self._path(run_id).unlink()

    def forget_open(self) -> None:
        """End all attempts of this process."""
        for run_id in tuple(self._open):
            self.close(run_id)

    def _path(self, run_id: str) -> Path:
        return attempts_of(self._place, run_id)


def given_up(run_id: str, count: int) -> CallsheetError:
    """The error for a run that is no longer resumed automatically (API050)."""
    return CallsheetError.single(
        "API050",
        f"run {run_id} was resumed {count} times and the server died each time: it is not resumed again",
        help=f"find the cause, then: callsheet resume {run_id}, or POST /v1/runs/{run_id}/resume",
    )
