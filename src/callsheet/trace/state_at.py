"""Computes the state of a run after one of its events, from the last snapshot before it if there is one.

In: a journal, a run, the number of an event. Out: that event, and the state after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.machine import Program
from callsheet.store.current_state import state_from_snapshot
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.replay import fold
from callsheet.store.runs import RunInfo
from callsheet.store.snapshots import UnusableSnapshot


class _Prefix:
    """Events up to the number `seq`; `last` is the last one taken."""

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


def state_at_event(
    journal: Journal, info: RunInfo, seq: int, program: Program | None = None
) -> tuple[Event, Folded]:
    """The event number `seq`, which the run must have, and the state of the run after it.

    The hash chain is not checked. `program` is the run's compiled plan, if it is at hand. Raises JournalError
    if events cannot be read.
    """
    run_id = info.run_id
    plan = journal.plan_of(info.plan_hash) if program is None else program.plan
    snapshot = journal.last_snapshot(run_id, seq)
    if snapshot is not None:
        upto = _Prefix(journal.events(run_id, snapshot - 1), seq)
        try:
            folded = state_from_snapshot(journal, run_id, plan, iter(upto), program=program, in_part=True)
        except UnusableSnapshot:
            pass  # unusable snapshot: fold all events instead
        else:
            assert upto.last is not None
            return upto.last, folded
    upto = _Prefix(journal.events(run_id), seq)
    folded = fold(plan, upto, journal.plan_of)
    assert upto.last is not None
    return upto.last, folded
