"""Sends a run to a collector while it goes on, from a thread that follows the journal.

In: the journal's file, a run. Out: how much was sent, and what failed. The run never waits for the thread,
which holds nothing that is not in the journal: if the collector is down, everything can be sent afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.telemetry.conversion import Follower
from callsheet.runtime.telemetry.encoding import NOTHING_REJECTED
from callsheet.runtime.telemetry.sending import Sender
from callsheet.runtime.telemetry.target import Signal, Target
from callsheet.store.errors import JournalError
from callsheet.store.journal import Journal
from callsheet.views.otel.model import Telemetry

INTERVAL = 1.0
"""Seconds between polls of the journal."""
PATIENCE = 5.0
"""Seconds that the end of a run may be delayed to send what is left."""
_TIMEOUT = 5.0
_UNKNOWN_RUN = "JRN002"
_LONGEST_PAUSE = 30.0
_MOST_HELD = 20_000
"""Maximum number of spans held for an unreachable collector; the rest can be sent afterwards."""


@dataclass(frozen=True, slots=True)
class Exported:
    """How much of a run has arrived; `failure` says why the rest has not, None if everything has.

    `rejected` is the number of spans that the collector has received and rejected.
    """

    url: str
    spans: int
    failure: str | None = None
    rejected: int = 0


class LiveExport:
    """Sends one run while it goes on, from `start` to `finish`; the run may begin later."""

    def __init__(
        self, journal: Path, run_id: str, target: Target, *, content: bool = False, interval: float = INTERVAL
    ) -> None:
        self._journal = journal
        self._run_id = run_id
        self._target = target
        self._content = content
        self._interval = interval
        self._ends = threading.Event()
        self._backlog = Telemetry()
        self._left_out = False
        self._failure: str | None = None
        self._sent = 0
        self._rejected = 0
        self._thread = threading.Thread(target=self._work, name=f"telemetry of {run_id}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finish(self, patience: float = PATIENCE) -> Exported:
        """Send what is left, and return how much has arrived.

        Waits for at most `patience` seconds. A collector that has not answered is tried once more.
        """
        self._ends.set()
        self._thread.join(patience)
        failure = self._failure
        if self._thread.is_alive():
            failure = failure or f"it has not answered within {patience:g} s"
        elif failure is None and self._left_out:
            failure = "it did not respond for too long, so data was dropped"
        return Exported(self._target.url, self._sent, failure, self._rejected)

    # ------------------------------------------------------------ the thread

    def _work(self) -> None:
        try:
            with (
                Journal.open_to_read(self._journal) as journal,
                Sender(self._target, self._run_id, timeout=_TIMEOUT, tries=1) as sender,
            ):
                follower = Follower(journal, self._run_id, content=self._content)
                pause = self._interval
                while not self._ends.wait(pause):
                    self._collect(follower.new)
                    is_well = self._send(sender)
                    pause = self._interval if is_well else min(pause * 2, _LONGEST_PAUSE)
                self._collect(follower.new)
                self._collect(follower.rest)
                self._send(sender)
        except CallsheetError as error:
            self._failure = error.diagnostics[0].message
        except Exception as error:  # an export failure must not affect the run
            self._failure = f"{type(error).__name__}: {error}"

    def _collect(self, tell: Callable[[], Telemetry]) -> None:
        """Hold what is new; a run that is not in the journal yet has nothing."""
        try:
            telemetry = tell()
        except JournalError as error:
            if error.diagnostics[0].code == _UNKNOWN_RUN:
                return
            raise
        backlog = self._backlog
        if len(backlog.spans) + len(telemetry.spans) > _MOST_HELD:
            backlog, self._left_out = Telemetry(), True
        self._backlog = Telemetry(
            (*backlog.spans, *telemetry.spans),
            (*backlog.logs, *telemetry.logs),
            telemetry.metrics or backlog.metrics,
        )

    def _send(self, sender: Sender) -> bool:
        """Send what is held, and keep it if that fails; return whether all was sent."""
        if not self._backlog:
            return True
        before = sender.sent.rejected.get(Signal.TRACES, NOTHING_REJECTED).items
        try:
            sender.send(self._backlog)
        except CallsheetError as error:
            self._failure = error.diagnostics[0].message
            return False
        rejected = sender.sent.rejected.get(Signal.TRACES, NOTHING_REJECTED).items - before
        self._sent += len(self._backlog.spans) - rejected
        self._rejected += rejected
        self._backlog, self._failure = Telemetry(), None
        return True
