"""Attaches guides to the events of runs with secrets; each guide is made at its run's first sealed value.

In: events and entries as they are read. Out: the same, from the first sealed one on with a guide for folding
them. The guides, and the machine that they need, are imported only if something is sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from callsheet.sealing.sealer import SEALED
from callsheet.store.events import Entry, Event
from callsheet.store.reader import Reader
from callsheet.store.unsealing import Unsealer

if TYPE_CHECKING:
    from callsheet.store.recorded_decisions import DecisionGuide

_MOST = 8
"""The most guides that are kept."""


class DecisionGuides:
    """The guides of the runs that a reader reads; `opener` gives the Opener of a run by its id."""

    def __init__(
        self, reader: Reader, opener: Callable[[str], Unsealer], warn: Callable[[str], None]
    ) -> None:
        self._reader = reader
        self._opener = opener
        self._warn = warn
        self._guides: dict[str, DecisionGuide] = {}

    def events(self, run_id: str, events: Iterable[Event]) -> Iterator[Event]:
        """The events of a run, guided."""
        guide = self._guides.get(run_id)
        for event in events:
            if guide is None and event.body is not None and SEALED in event.body:
                guide = self._guide(run_id)
            yield event if guide is None else replace(event, guide=guide)

    def entries(self, run_id: str, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The entries of a run, guided."""
        guide = self._guides.get(run_id)
        for entry in entries:
            if guide is None and entry.body is not None and SEALED in entry.body:
                guide = self._guide(run_id)
            yield entry if guide is None else entry._replace(guide=guide)

    def _guide(self, run_id: str) -> DecisionGuide:
        guide = self._guides.get(run_id)
        if guide is None:
            from callsheet.store.recorded_decisions import DecisionGuide  # noqa: PLC0415 - brings the machine

            reader = self._reader
            guide = DecisionGuide(
                run_id,
                lambda: reader.plan_of(reader.runs.find(run_id).plan_hash),
                partial(reader.events, run_id),
                self._opener(run_id),
                reader.plan_of,
                self._warn,
            )
            if len(self._guides) >= _MOST:
                self._guides.pop(next(iter(self._guides)))
            self._guides[run_id] = guide
        return guide
