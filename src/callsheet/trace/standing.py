"""The state of a run after one of its events, folded from the last snapshot before it if there is one.

In: a journal, a run, the number of an event. Out: that event, and the run as the events up to it leave it.
"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.machine import Program
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.replay import fold
from callsheet.store.runs import RunInfo
from callsheet.store.snapshots import Unfit
from callsheet.store.stand import stand_from


class _Upto:
    """Events up to a number; `last` is the last one that has been taken."""

    def __init__(self, events: Iterator[Event], seq: int) -> None:
        self._events = events
        self._seq = seq
        self.last: Event | None = None

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            if event.seq > self._seq:
                return
            self.last = event
            yield event


def standing_of(
    journal: Journal, info: RunInfo, seq: int, program: Program | None = None
) -> tuple[Event, Folded]:
    """The event of this number, which the run has, and the run after it.

    The chain is not checked. `program` is that of the run's plan, where it has been made before. Raises
    JournalError where events cannot be read.
    """
    run_id = info.run_id
    plan = journal.plan_of(info.plan_hash) if program is None else program.plan
    snapshot = journal.last_snapshot(run_id, seq)
    if snapshot is not None:
        upto = _Upto(journal.events(run_id, snapshot - 1), seq)
        try:
            folded = stand_from(journal, run_id, plan, iter(upto), program=program, in_part=True)
        except Unfit:
            pass  # all of its events tell the same
        else:
            assert upto.last is not None
            return upto.last, folded
    upto = _Upto(journal.events(run_id), seq)
    folded = fold(plan, upto, journal.plan_of)
    assert upto.last is not None
    return upto.last, folded
