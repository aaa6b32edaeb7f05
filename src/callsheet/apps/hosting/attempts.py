"""How often a run was carried on by itself while its server died: a run that kills its server is given up.

In: a journal's place and a run's id. Out: numbers. They stand beside the locks of the runs, a byte for each
attempt that has not ended yet, so that a process that dies in one has noted it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.store.owned import attempts_of
from callsheet.store.place import Place

MOST = 3
"""So often in a row a server may die that carries a run on by itself."""
PARDON = 600.0
"""Seconds after which it is not the run that a server dies of."""


class Attempts:
    """The attempts to carry runs of one journal on, by servers that found them left."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: set[str] = set()

    def count(self, run_id: str) -> int:
        """How many attempts in a row have not come to an end."""
        with suppress(OSError):
            return self._path(run_id).stat().st_size
        return 0

    def begin(self, run_id: str) -> None:
        """Note an attempt; where it cannot be noted it is not counted."""
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
        """Forget the attempts of a run of which this process has begun one: it has ended, with whatever."""
        if run_id in self._open:
            self._open.remove(run_id)
            self.forget(run_id)

    def forget(self, run_id: str) -> None:
        """Forget the attempts of a run: somebody begins anew."""
        with suppress(OSError):
            self._path(run_id).unlink()

    def pardon(self) -> None:
        """Forget those that this process has begun."""
        for run_id in tuple(self._open):
            self.close(run_id)

    def _path(self, run_id: str) -> Path:
        return attempts_of(self._place, run_id)


def given_up(run_id: str, count: int) -> CallsheetError:
    """Why a run is not carried on by itself (API050)."""
    return CallsheetError.single(
        "API050",
        f"run {run_id} was carried on {count} times, and each time the server died: it is left as it is",
        help=f"find out why, then: callsheet resume {run_id}, or POST /v1/runs/{run_id}/resume",
    )
