"""The failed items of the loops of a recorded run, which a new run repeats.

In: a run that has ended. Out: its failed items, and the agents that are to be asked anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from callsheet import lazy
from callsheet.machine import Machine
from callsheet.machine.keys import attempt_key, item_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.edits import ParentHistory
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.events import Event as Row
from callsheet.store.replay import begin_with, fold_on
from callsheet.store.runs import RunInfo

_QUESTION = lazy.pattern(r"(?<=[0-9])/t[0-9]+$")
_MOST_NAMED = 20


class FailedItem(NamedTuple):
    """An item of a loop that failed: the loop's place as `show` prints it, which item, and of how many."""

    loop: str
    item: int
    items: int


class Failures(NamedTuple):
    """What has failed in a run: items of loops in their order, and agents that are to be asked anew.

    `anew` has the keys of the attempts of agents that failed although their model had answered: with the same
    answers they would fail again. One whose model could not be asked goes on with that question.
    """

    items: tuple[FailedItem, ...]
    anew: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """The failed items, a line for each loop."""
        for loop, found in groupby(self.items, key=lambda item: item.loop):
            items = [*found]
            named = ", ".join(f"[{item.item}]" for item in items[:_MOST_NAMED])
            more = f" and {len(items) - _MOST_NAMED:,} more" if len(items) > _MOST_NAMED else ""
            yield f"failed items of {loop}: {len(items):,} of {items[0].items:,}: {named}{more}"


def failures_of(journal: Journal, info: RunInfo, history: ParentHistory) -> Failures:
    """The failed items of the loops of a run that has ended.

    Raises JournalError: JRN087 for a run that has not ended, or without any.
    """
    run_id = info.run_id
    if not info.status.is_final:
        hint = f"let it go on: callsheet resume {run_id}; or end it: callsheet cancel {run_id}"
        raise JournalError("JRN087", f"run {run_id} has not ended", hint)
    failures = _Listener(history).failures()
    if not failures.items:
        hint = f"run it again from a step: callsheet rerun {run_id} --from STEP"
        raise JournalError("JRN087", f"no item of a loop of run {run_id} has failed", hint)
    return failures


class _Listener:
    """Replays a run and hears which items and agents of it fail."""

    def __init__(self, history: ParentHistory) -> None:
        self._history = history
        self._items: list[FailedItem] = []
        self._failed = set[str]()
        """What the keys of calls begin with whose statement, or item in version 1, has failed."""
        self._asked: dict[str, bool] = {}
        """Whether the model has answered the last question, by the attempt of an agent."""
        self._machine: Machine | None = None

    def failures(self) -> Failures:
        rows = self._history.events()
        folded = begin_with(self._history.plan, next(rows), self._note, prepare=self._begin)
        fold_on(folded, self._heard(rows), self._history.plan_of)
        order = {loop: number for number, loop in enumerate(dict.fromkeys(i.loop for i in self._items))}
        items = sorted(set(self._items), key=lambda item: (order[item.loop], item.item))
        anew = [a for a, answered in self._asked.items() if answered and item_of(a) in self._failed]
        return Failures(tuple(items), tuple(anew))

    def _begin(self, machine: Machine) -> None:
        self._machine = machine
        if machine.tree is not None:
            machine.tree.hears_failed_item = self._hear_item

    def _hear_item(self, loop: str, item: int, items: int) -> None:
        self._items.append(FailedItem(loop, item, items))

    def _heard(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            is_outcome = row.key is not None and row.type in (EventType.OK, EventType.ERR)
            if is_outcome and _QUESTION.search(row.key or ""):
                self._asked[attempt_key(row.key or "")] = row.type is EventType.OK
            yield row

    def _note(self, note: Note) -> None:
        if note.kind is not NoteKind.FAILED:
            return
        machine = self._machine
        assert machine is not None
        if machine.tree is not None:
            self._failed.add(note.step)
        elif note.at is not None and note.at.item:
            code = machine.program.steps[machine.program.number_of[note.step]]
            loop = machine.prefix(code).removesuffix(".")
            self._items.append(FailedItem(loop, note.at.item - 1, note.at.items))
            self._failed.add(f"{loop}.{note.at.item - 1}")
