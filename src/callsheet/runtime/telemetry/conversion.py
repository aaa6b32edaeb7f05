"""Turns a journaled run into telemetry: all of it at once, or what is new since the last call.

In: a journal and a run. Out: spans, log records and metrics. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callsheet.store.errors import JournalError
from callsheet.store.events import Entry
from callsheet.store.journal import Journal
from callsheet.trace.lineage.record import lineage_of
from callsheet.views.otel.model import Telemetry
from callsheet.views.otel.tracing import Tracer
from callsheet.views.prov import prov_of


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
