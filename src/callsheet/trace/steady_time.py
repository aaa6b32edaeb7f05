"""The times of a run's events for durations: they do not go back when the clock of the machine is set back.

In: events in order. Out: seconds since 1970; after such a correction they are ahead of the clock. Pure.
"""

from __future__ import annotations

from callsheet.store.events import Event, EventType

_TOLERANCE = 1.0
"""Seconds by which events may be recorded out of order without a correction of the clock."""


class SteadyTime:
    """Gives the time of each event of one run; the events are given in their order.

    Events of different processes are not compared, nor the edits of a fork, which have the time of the fork
    among the events of its parent.
    """

    def __init__(self) -> None:
        self._last: Event | None = None
        self._ahead = 0.0

    def of(self, event: Event) -> float:
        """The time of the next event."""
        if event.type is not EventType.EDIT:
            last, self._last = self._last, event
            if last is not None and event.epoch == last.epoch and event.ts < last.ts - _TOLERANCE:
                self._ahead += last.ts + max(event.mono - last.mono, 0.0) - event.ts
        return event.ts + self._ahead
