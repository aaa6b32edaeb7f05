"""Read access to the parent of a fork: its events, its plans and its secrets.

In: a journal and a run. Out: its events, unsealed or as stored; the start of a new run that branches off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from callsheet.ir import JSON
from callsheet.sealing.known import Known
from callsheet.sealing.masking import mask_value
from callsheet.sealing.sealer import is_sealed
from callsheet.store import Journal
from callsheet.store.events import Event
from callsheet.store.fork import hash_at
from callsheet.store.runs import RunInfo
from callsheet.store.start import Start


class ParentHistory:
    """The events and plans of the parent of a fork."""

    def __init__(self, journal: Journal, parent: RunInfo, known: Known | None = None) -> None:
        self._journal = journal
        self._known = known or Known()
        self.parent = parent
        self._places = journal.places(parent.run_id)
        self.opener = journal.opener(parent.run_id)
        self.plan_of = journal.plan_of
        self.plan, self.text = journal.plan(parent.plan_hash)

    def events(self, upto: int | None = None) -> Iterator[Event]:
        """The parent's events, unsealed, since its course depends on its secrets too."""
        for event in self.opener.events(self._journal.events(self.parent.run_id)):
            if upto is not None and event.seq > upto:
                return
            yield event

    def closed(self) -> Iterator[Event]:
        """The parent's events as stored."""
        return self._journal.events(self.parent.run_id)

    def has_sealed(self) -> bool:
        """Whether anything in the parent is sealed."""
        return any(is_sealed(event.body) for event in self.closed())

    def known(self) -> Known:
        """All known secrets of the parent, after unsealing all of its events."""
        for _ in self.events():
            pass
        return self.opener.short + self._known + self.opener.declared

    def finds_in(self, value: JSON) -> bool:
        """Whether a value contains a known secret."""
        finder = self._journal.sealer(self.parent.run_id, self.text).finder.knowing(self.known())
        return mask_value(value, finder) != value

    def first(self) -> Start:
        """What the parent was started with, with its tools at their current places."""
        return Start.from_json(next(self.events()).body or {}).at_places(self._places)

    def start(self, at: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the new run's start event: the parent's, plus the origin of the fork.

        The tools are those at the current places of the parent's.
        """
        first = next(self.events())
        parent = self.parent.run_id
        origin = {"run": parent, "event": at, "hash": hash_at(self._journal.parts, parent, at)}
        body = dict(first.body or {})
        if self._places:
            body["launch"] = self.first().launch
        return {**body, "fork": {**origin, **changes}}
