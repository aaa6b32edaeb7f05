"""The run that another one branches off from: its events and plans, and what is secret in them.

In: a journal and a run. Out: its events, opened or as they are written; what a new run of it begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.ir import JSON
from callsheet.sealing.known import Known
from callsheet.sealing.masking import mask_value
from callsheet.sealing.opening import is_sealed
from callsheet.store import Journal
from callsheet.store.events import Event
from callsheet.store.fork import hash_at
from callsheet.store.records import Start
from callsheet.store.runs import RunInfo


class Way:
    """The events and plans of the run that another one branches off from."""

    def __init__(self, journal: Journal, parent: RunInfo, known: Known | None = None) -> None:
        self._journal = journal
        self._known = known or Known()
        self.parent = parent
        self.opener = journal.opener(parent.run_id)
        self.plan_of = journal.plan_of
        self.plan, self.text = journal.plan(parent.plan_hash)

    def events(self, upto: int | None = None) -> Iterator[Event]:
        """The events of the parent, opened: what a run does follows from its secrets too."""
        for event in self.opener.events(self._journal.events(self.parent.run_id)):
            if upto is not None and event.seq > upto:
                return
            yield event

    def closed(self) -> Iterator[Event]:
        """The events of the parent, as they are written."""
        return self._journal.events(self.parent.run_id)

    def has_sealed(self) -> bool:
        """Whether something of the parent is sealed."""
        return any(is_sealed(event.body) for event in self.closed())

    def known(self) -> Known:
        """All secrets that are known of the parent, once all of its events have been opened."""
        for _ in self.events():
            pass
        return self.opener.short + self._known + self.opener.declared

    def finds_in(self, value: JSON) -> bool:
        """Whether something in a value is secret, as far as can be seen."""
        finder = self._journal.sealer(self.text).finder.knowing(self.known())
        return mask_value(value, finder) != value

    def first(self) -> Start:
        """What the parent was started with."""
        return Start.from_json(next(self.events()).body or {})

    def start(self, at: int, told: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the new run's start: that of the parent, and where the new one comes from."""
        first = next(self.events())
        parent = self.parent.run_id
        origin = {"run": parent, "event": at, "hash": hash_at(self._journal.parts, parent, at)}
        return {**(first.body or {}), "fork": {**origin, **told}}
