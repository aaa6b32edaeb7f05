"""Replays a run event by event: each event with the notes that the machine emits for it.

In: a plan and the events of its journal. Out: moments, in order. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from callsheet.ir import Plan
from callsheet.machine import Program
from callsheet.machine.notes import Note
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.journal import Journal
from callsheet.store.records import PlanOf
from callsheet.store.replay import fold, state_from_snapshot
from callsheet.store.runs import RunInfo
from callsheet.store.snapshots import UnusableSnapshot
from callsheet.trace.visits import Visits, veil_of

if TYPE_CHECKING:
    from callsheet.trace.lineage.withheld import NameVeil


class PlayedNote(NamedTuple):
    """A note, and the duration in seconds if it ends a step."""

    note: Note
    took: float | None


class Moment(NamedTuple):
    """An event and the notes that it led to."""

    event: Event
    notes: tuple[PlayedNote, ...]


def play(plan: Plan, events: Iterable[Event], plan_of: PlanOf, show: Callable[[Moment], bool]) -> None:
    """Pass each moment of a run to `show` as soon as its event arrives, until `show` returns False.

    Raises JournalError (JRN020) if the events cannot be read, and whatever iterating over them raises.
    """
    visits = Visits()
    notes: list[PlayedNote] = []
    veil: NameVeil | None = None

    def note(note: Note) -> None:
        took = visits.timed(note)
        notes.append(PlayedNote(note if veil is None else veil.over(note), took))

    def one_by_one() -> Iterator[Event]:
        nonlocal veil
        for event in visits.watched(events):
            veil = veil or veil_of(plan, event)
            yield event  # the fold asks for the next event after the machine has taken this one
            moment = Moment(event, tuple(notes))
            notes.clear()
            if not show(moment):
                return

    fold(plan, one_by_one(), plan_of, note)


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
