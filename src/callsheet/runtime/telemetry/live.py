"""Sends a run to a collector while it goes on, from a thread that follows the journal.

In: the journal's file, a run. Out: how much was sent, and what failed. The run never waits for the thread,
which holds nothing that is not in the journal: if the collector is down, everything can be sent afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callsheet.diagnostics import CallsheetError
from callsheet.runtime.telemetry.sending import NOTHING_REJECTED, Sender
from callsheet.runtime.telemetry.target import Signal, Target
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry
from callsheet.store.journal import Journal
from callsheet.trace.lineage.record import lineage_of
from callsheet.views.lineage import prov_of
from callsheet.views.otel.model import Telemetry
from callsheet.views.otel.tracing import Tracer


class Follower:
    """Follows one run of a journal from its start, for one thread.

    Raises JournalError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read.
    """

    def __init__(self, journal: Journal, run_id: str, *, content: bool = False) -> None:
        self._journal = journal
        self._run_id = run_id
        self._content = content
        self._tracer: Tracer | None = None

    def new(self) -> Telemetry:
        """What is new since the last call; empty if the run has no events yet."""
        tracer = self._tracer
        rest = self._journal.entries(self._run_id, 0 if tracer is None else tracer.seq)
        if tracer is None:
            first = next(rest, None)
            if first is None:
                return Telemetry()
            info = self._journal.find_run(self._run_id)
            plan = self._journal.plan_of(info.plan_hash)
            tracer = self._tracer = Tracer(
                info.run_id, plan, info.plan_hash, info.parent_run, first, content=self._content
            )
        for entry in rest:
            tracer.take(entry, self._journal.plan_of)
        return tracer.drain()

    def rest(self) -> Telemetry:
        """What is still under way, closed now; for a run that no process executes."""
        if self._tracer is None:
            return Telemetry()
        self._tracer.close()
        return self._tracer.drain()

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._tracer is not None and self._tracer.is_over

    @property
    def under_way(self) -> int:
        """The number of steps under way."""
        return 0 if self._tracer is None else self._tracer.under_way


def telemetry_of(journal: Journal, run_id: str, *, content: bool = False, goes_on: bool = False) -> Telemetry:
    """All telemetry of a run.

    With `content`, arguments, results and error texts are included. `goes_on` means that a process currently
    carries the run on; what is under way is then left out. Raises as `Follower` does, and JournalError
    (JRN020) for a run without events.
    """
    follower = Follower(journal, run_id, content=content)
    telemetry = follower.new()
    if (
        not telemetry
        and not follower.under_way
        and not follower.is_over
        and next(journal.entries(run_id), None) is None
    ):
        raise JournalError("JRN020", "the run has no events", hint="it was never started")
    if goes_on:
        return telemetry
    rest = follower.rest()
    return Telemetry(
        (*telemetry.spans, *rest.spans), (*telemetry.logs, *rest.logs), rest.metrics or telemetry.metrics
    )


def provenance_of(journal: Journal, run_id: str, *, content: bool = False) -> dict[str, Any]:
    """The provenance of a run's values as PROV-JSON data; with `content`, including the values.

    Raises as `Follower` does.
    """
    info = journal.find_run(run_id)
    plan = journal.plan_of(info.plan_hash)
    times: dict[int, float] = {}

    def timed() -> Iterator[Entry]:
        for entry in journal.entries(info.run_id):
            times[entry.seq] = entry.ts
            yield entry

    lineage = lineage_of(plan, timed(), journal.plan_of)
    return prov_of(info.run_id, info.plan_hash, lineage, times, content=content)


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
