"""Counts how often a server died while resuming a run by itself, to give up on runs that kill it.

In: a journal's place and a run's id. Out: counts. They are kept in files beside the run locks, one byte for
each attempt that has not ended, so that an attempt in which the process dies is counted.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.store.journal_paths import JournalPaths, attempts_of

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
