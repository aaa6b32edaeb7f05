"""Notifies an observer of events of a Temporal run while it goes on.

In: the events of a history, repeatedly. Out: the notes of a machine that is fed with them, each once.
"""

from __future__ import annotations

from callsheet.machine import Machine, Started
from callsheet.machine.machine import Observer
from callsheet.runtime.engines.temporal.event_rows import event_in
from callsheet.runtime.engines.temporal.history import RunHistory
from callsheet.store.replay import begin


class Watching:
    """The observer of one run, and how far it has been notified."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._machine: Machine | None = None
        self._seen = 0

    def notify(self, history: RunHistory) -> None:
        """Notify of the events since the last call."""
        if self._machine is None:
            start = history.order.start
            self._machine = begin(history.order.plan, start, self._observer).machine
            self._machine.feed(Started(start.inputs))
        for row in history.happened[self._seen :]:
            event = event_in(row)
            if event is not None:
                self._machine.feed(event)
        self._seen = len(history.happened)
