"""Recomputes the decisions of a run with secrets, so that it can be folded without the secrets.

In: the events of a run, and the keys of its secrets if available. Out: the decisions made at each event. The
secrets are unsealed only in here, to fold the run with them; readers fold over placeholders, and follow the
decisions. Without the keys, a fold follows the placeholders, and a warning is given if that takes another
path than the run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from callsheet.ir import Plan
from callsheet.machine.decision_log import DecisionLog, Decisions
from callsheet.store.errors import JournalError
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.records import PlanOf
from callsheet.store.replay import begin_with, fold, fold_on
from callsheet.store.unsealing import Unsealer


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
        self._is_lost, self._folded, self._decisions = True, None, {}
        try:
            closed = fold(self._plan(), self._opener.unguided(self._rows(0)), self._plan_of)
        except JournalError:
            return  # who looks at it will hear of it
        if closed.has_diverged:
            self.warn_diverged(error.diagnostics[0].message)
