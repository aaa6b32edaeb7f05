"""Replays a run event by event: each event with the notes that the machine emits for it.

In: a plan and the events of its journal. Out: moments, in order. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from callsheet.ir import Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.store.events import Event, EventType
from callsheet.store.records import PlanOf
from callsheet.store.replay import fold
from callsheet.trace.steady_time import SteadyTime


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
    clock = _Clock()

    def one_by_one() -> Iterator[Event]:
        for event in events:
            clock.sees(event)
            yield event  # the fold asks for the next event after the machine has taken this one
            if not show(Moment(event, clock.taken())):
                return

    fold(plan, one_by_one(), plan_of, clock.note)


class _Clock:
    """Collects the machine's notes and times steps by the times of the events."""

    def __init__(self) -> None:
        self.now = 0.0
        self._time = SteadyTime()
        self._epoch = 0
        self._since: dict[str, float] = {}
        self._waits: dict[str, int] = {}
        """The process in which each step began, for steps of which no call has left."""
        self._notes: list[PlayedNote] = []

    def sees(self, event: Event) -> None:
        """Take the next event; a step whose first call leaves in a later process counts as begun then."""
        self.now, self._epoch = self._time.of(event), event.epoch
        if event.type is not EventType.INTENT or event.step not in self._waits:
            return
        if event.epoch > self._waits.pop(event.step):
            self._since[event.step] = self.now

    def note(self, note: Note) -> None:
        took: float | None = None
        if note.kind is NoteKind.EARLY or note.kind is NoteKind.STARTED:
            if note.step not in self._since:
                self._since[note.step], self._waits[note.step] = self.now, self._epoch
        elif note.kind is NoteKind.FAILED and note.step in self._since:
            took = self.now - self._since[note.step]
        elif note.kind in (NoteKind.FINISHED, NoteKind.SKIPPED):
            since = self._since.pop(note.step, None)
            took = None if since is None or note.kind is NoteKind.SKIPPED else max(0.0, self.now - since)
        self._notes.append(PlayedNote(note, took))

    def taken(self) -> tuple[PlayedNote, ...]:
        notes, self._notes = tuple(self._notes), []
        return notes
