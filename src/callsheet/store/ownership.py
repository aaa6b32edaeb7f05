"""Tells whether a process owns a run, without becoming its owner; and names the file that counts resumes.

In: a journal's place and a run's id. Out: yes or no, as of now; a path.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from callsheet.store.ids import check_run_id
from callsheet.store.journal_paths import JournalPaths


def is_owned(place: JournalPaths, run_id: str) -> bool:
    """Whether a living process holds the run's lock.

    Takes a shared lock for an instant. Raises JournalError (JRN001) for an invalid id.
    """
    path = place.run_locks / f"{check_run_id(run_id)}.lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def attempts_of(place: JournalPaths, run_id: str) -> Path:
    """The file in which servers count how often they resumed the run by themselves; deleted with the run.

    Raises JournalError (JRN001) for an invalid id.
    """
    return place.run_locks / f"{check_run_id(run_id)}.attempts"
