"""When the visits of a run's steps began, and when their own calls were done.

In: the events of a run in order, and the machine's notes on them. Out: times in seconds since 1970. A visit
ends with the last outcome of its own calls, not when its group or its turn lets the plan go on. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(slots=True)
class OpenVisit:
    """A visit that has begun; `answered` is the time of the last outcome of its calls, None without one."""

    begun: float
    epoch: int
    """The process in which it began."""
    has_left: bool = False
    """Whether a call of it has left."""
    answered: float | None = None


class VisitTimes:
    """The open visits of a run by step; `now` is the time of the current event, `epoch` its process."""

    def __init__(self) -> None:
        self.now = 0.0
        self.epoch = 0
        self._time = SteadyTime()
        self._open: dict[str, OpenVisit] = {}

    def sees(self, event: Event) -> None:
        """Take the next event, before the machine does."""
        self.now, self.epoch = self._time.of(event), event.epoch
        visit = self._open.get(event.step or "")
        if visit is None:
            return
        if event.type is EventType.INTENT:
            if not visit.has_left and event.epoch > visit.epoch:
                visit.begun = self.now  # no process carried it on in between
            visit.has_left = True
        elif event.type.answers:
            visit.answered = self.now

    def begin(self, step: str) -> float:
        """A visit begins, or the turn of one that began early comes; returns when it began."""
        visit = self._open.get(step)
        if visit is None:
            visit = self._open[step] = OpenVisit(self.now, self.epoch)
        return visit.begun

    def begun(self, step: str) -> float | None:
        """When the open visit of a step began, None if there is none."""
        visit = self._open.get(step)
        return None if visit is None else visit.begun

    def ended(self, step: str) -> float:
        """When the calls of a step's open visit were done: now, if it made none."""
        visit = self._open.get(step)
        return self.now if visit is None or visit.answered is None else visit.answered

    def close(self, step: str) -> None:
        """The visit of a step is over."""
        self._open.pop(step, None)
