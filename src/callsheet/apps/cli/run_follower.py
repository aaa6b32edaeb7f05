"""Follows the events of a run through its journal, in any process, until it ends or stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.operations.runs import INTERRUPTED, shown_outcome, shown_status
from callsheet.machine import Outcome
from callsheet.store.events import Event
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import is_owned, place_of

_PAUSE = 0.1
_MESSAGES = {
    INTERRUPTED: "interrupted, its process is gone; continue it with: callsheet resume {run}{hint}",
    "waiting": "waiting for people; list the requests with: callsheet inbox{hint}",
    "in_doubt": "waiting for a decision: callsheet decide {run} CALL …{hint}",
}
_EXITS = {
    "done": Exit.OK,
    "done_with_failures": Exit.OK,
    "refused": Exit.REFUSED,
    "waiting": Exit.UNDECIDED,
    "in_doubt": Exit.UNDECIDED,
}


class RunFollower:
    """Iterates over the events of a run as they are recorded; `status` is set at the end, to its outcome."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self.status = ""

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events after a number; blocks until further events are recorded."""
        location = place_of(self._journal.path)
        while True:
            # checked before reading: all events of a process that has ended are then visible
            was_owned = is_owned(location, self._run_id)
            for event in self._journal.events(self._run_id, after, lenient=True):
                after = event.seq
                yield event
            info = self._journal.find_run(self._run_id)
            if after >= info.events and (info.status.is_final or not was_owned):
                self.status = shown_outcome(info, shown_status(self._journal, info))
                return
            time.sleep(_PAUSE)


def needs_action(status: str) -> bool:
    """Whether a run with this status has not ended, and needs an action of a person to continue."""
    return status in _MESSAGES


def status_message(status: str, run_id: str, journal: Path | None) -> str:
    """A message about the status of a followed run, with the command that continues it."""
    text = _MESSAGES.get(status, f"ended: {status.replace('_', ' ')}")
    return f"run {run_id}: {text.format(run=run_id, hint=journals.journal_hint(journal))}"


def exit_for_status(status: str, *, is_strict: bool) -> Exit:
    """The exit status for a run with this status; with `is_strict` failures on the way count."""
    if is_strict and status == Outcome.DONE_WITH_FAILURES:
        return Exit.FAILED
    return _EXITS.get(status, Exit.FAILED)
