"""Attaches guides to the events of runs with secrets; each guide is made at its run's first sealed value.

In: events and entries as they are read. Out: the same, from the first sealed one on with a guide for folding
them. The guides, and the machine that they need, are imported only if something is sealed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from callsheet.ir import Plan
from callsheet.sealing.sealer import SEALED
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry, Event
from callsheet.store.reader import Reader
from callsheet.store.seal_keys import Unsealer

if TYPE_CHECKING:
    from callsheet.machine.decision_log import Decisions
    from callsheet.store.folded import Folded
    from callsheet.store.records import PlanOf

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


class DecisionGuide:
    """The decisions of one run so far; thread-safe.

    `plan` gives the run's plan, `rows` its events after a number, as stored.
    """

    def __init__(
        self,
        run_id: str,
        plan: Callable[[], Plan],
        rows: Callable[[int], Iterator[Event]],
        opener: Unsealer,
        plan_of: PlanOf,
        warn: Callable[[str], None],
    ) -> None:
        from callsheet.machine.decision_log import DecisionLog  # noqa: PLC0415 - only where something is sealed

        self._run_id = run_id
        self._plan = plan
        self._rows = rows
        self._opener = opener
        self._plan_of = plan_of
        self._warn = warn
        self._mutex = threading.Lock()
        self._decisions: dict[int, Decisions] = {}
        self._seq = 0
        self._decision_log = DecisionLog(notes=True)
        self._folded: Folded | None = None
        self._ahead: Iterator[Event] = iter(())
        self._is_lost = False
        self._has_told = False

    def decisions(self, seq: int) -> Decisions | None:
        """The decisions made at an event; None if they cannot be known without the key."""
        with self._mutex:
            if self._seq < seq and not self._is_lost:
                try:
                    self._go_to(seq)
                except JournalError as error:
                    self._lose(error)
            return None if self._is_lost else self._decisions.get(seq, ())

    def warn_diverged(self, why: str = "") -> None:
        """Warn, once, that the fold does not take the path that the run took."""
        if not self._has_told:
            self._has_told = True
            run = self._run_id
            self._warn(
                f"SEC010: secrets decided the path of run {run}, which is not shown here"
                f"{why and f' ({why})'}; its events are complete: callsheet show {run} --events"
            )

    def _go_to(self, seq: int) -> None:
        from callsheet.store.replay import begin_with, fold_on  # noqa: PLC0415 - only where something is sealed

        while self._seq < seq:
            row = next(self._ahead, None)
            if row is None:
                self._ahead = self._opener.events(self._rows(self._seq))
                row = next(self._ahead, None)
            if row is None:
                return
            if self._folded is None:
                self._folded = begin_with(self._plan(), row, decision_log=self._decision_log)
            else:
                fold_on(self._folded, (row,), self._plan_of)
            self._seq, decisions = row.seq, self._decision_log.taken()
            if decisions:
                self._decisions[row.seq] = decisions

    def _lose(self, error: JournalError) -> None:
        from callsheet.store.replay import fold  # noqa: PLC0415 - only where something is sealed

        self._is_lost, self._folded, self._decisions = True, None, {}
        try:
            closed = fold(self._plan(), self._opener.unguided(self._rows(0)), self._plan_of)
        except JournalError:
            return  # who looks at it will hear of it
        if closed.has_diverged:
            self.warn_diverged(error.diagnostics[0].message)
