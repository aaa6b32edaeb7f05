"""Notifies an observer of events of a Temporal run while it goes on.

In: the events of a history, repeatedly. Out: the notes of a machine that is fed with them, each once.
"""

from __future__ import annotations

from callsheet.machine import Machine, Started
from callsheet.machine.machine import Observer
from callsheet.runtime.engines.temporal.happenings import event_in
from callsheet.runtime.engines.temporal.history import Told
from callsheet.store.replay import begin


class Watching:
    """The observer of one run, and how far it has been notified."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._machine: Machine | None = None
        self._seen = 0

    def tell(self, told: Told) -> None:
        """Notify of the events since the last call."""
        if self._machine is None:
            start = told.order.start
            self._machine = begin(told.order.plan, start, self._observer).machine
            self._machine.feed(Started(start.inputs))
        for row in told.happened[self._seen :]:
            event = event_in(row)
            if event is not None:
                self._machine.feed(event)
        self._seen = len(told.happened)
