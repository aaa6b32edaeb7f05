"""Follows a run through its journal, in any process, until it ends or stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from callsheet.apps.cli import journals
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.runs import INTERRUPTED, shown_status
from callsheet.store.events import Event
from callsheet.store.journal import Journal
from callsheet.store.journal_paths import place_of
from callsheet.store.ownership import is_owned

_PAUSE = 0.1
_SAID = {
    INTERRUPTED: "its process is gone: interrupted; callsheet resume {run}{hint} carries it on",
    "waiting": "it waits for people: callsheet inbox{hint}",
    "in_doubt": "it waits for a decision: callsheet decide {run} CALL …{hint}",
}
_EXITS = {
    "done": Exit.OK,
    "refused": Exit.REFUSED,
    "waiting": Exit.UNDECIDED,
    "in_doubt": Exit.UNDECIDED,
}


class RunFollower:
    """The events of a run as they come; `status` is how the run stands once there are no more."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self.status = ""

    def events(self, after: int = 0) -> Iterator[Event]:
        """The events after a number; waits for those that are still to come."""
        location = place_of(self._journal.path)
        while True:
            # asked before the events: what a process wrote until its end is there afterwards
            was_owned = is_owned(location, self._run_id)
            for event in self._journal.events(self._run_id, after, lenient=True):
                after = event.seq
                yield event
            info = self._journal.find_run(self._run_id)
            if after >= info.events and (info.status.is_final or not was_owned):
                self.status = shown_status(self._journal, info)
                return
            time.sleep(_PAUSE)


def needs_action(status: str) -> bool:
    """Whether a run that was followed has not ended, and somebody has to do something."""
    return status in _SAID


def status_message(status: str, run_id: str, journal: Path | None) -> str:
    """How a run stands that was followed, and what carries it on."""
    text = _SAID.get(status, f"it has ended: {status}")
    return f"run {run_id}: {text.format(run=run_id, hint=journals.journal_hint(journal))}"


def exit_for_status(status: str) -> Exit:
    """The exit status for it."""
    return _EXITS.get(status, Exit.FAILED)
