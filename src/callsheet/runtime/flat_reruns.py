"""Reruns of plans of version 1 that keep outcomes by content: of failed items, and of what was undone.

In: a recorded run. Out: the prepared run. It begins where the first loop with failed items began, or the
first call that an undoing has taken back, and is given the outcomes that are left as it asks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from callsheet import lazy
from callsheet.ir.operations import CallKind, call_kind
from callsheet.machine import Limits, Machine
from callsheet.machine.keys import attempt_key, item_of, visit_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.runtime.edits import ParentHistory
from callsheet.runtime.effects import EffectAhead
from callsheet.runtime.forking import Forking, parent_of, rerun, visited_at
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.branch import Visited, visit_at
from callsheet.store.events import Event as Row
from callsheet.store.kept_calls import Finished, calls_of, offered, undone_in
from callsheet.store.replay import begin_with, fold_on
from callsheet.store.runs import RunInfo

_MOST_NAMED = 20


def rerun_from(
    journal: Journal,
    run_id: str,
    place: str,
    by: str = "",
    limits: Callable[[Limits], Limits] | None = None,
) -> Forking:
    """Prepare a run of a plan of version 1 that repeats a step and what follows, as `forking.rerun` does.

    What comes before and was taken back by an undoing is made again; what is left, and asked for with the
    same arguments, is kept. Raises JournalError as `forking.rerun` does.
    """
    made = rerun(journal, run_id, place, by, limits)
    run_id, lost = made.parent.run_id, _undone(journal, made)
    if not lost:
        return made
    kept = _kept_events(made)
    origin: Mapping[str, Any] = {"from": place, "keeps": True, "events": kept}
    again = rerun(journal, run_id, {visited_at(place), *lost}, by, limits, origin)
    preview = _Preview(again, (), offered(calls_of(journal, run_id), run_id, (), kept))
    return replace(again, effects=preview.effects(), kept=(_told(lost), *preview.lines()))


def rerun_items(
    journal: Journal, run_id: str, by: str = "", limits: Callable[[Limits], Limits] | None = None
) -> Forking:
    """Prepare a run of a plan of version 1 that runs the failed items of its loops again.

    It keeps what came before the first of these loops, and was not taken back by an undoing, as it is. Of the
    loop and of what follows, each finished call of the same step, visit and item with the same arguments is
    kept. Raises JournalError as `failures_of` and `forking.rerun` do.
    """
    parent = parent_of(journal, run_id)
    run_id = parent.run_id
    failures = failures_of(journal, parent, ParentHistory(journal, parent))
    first_visits = dict[str, str]()
    for item in failures.items:
        first_visits.setdefault(item.loop.partition("@")[0], item.loop)
    loops = {*map(visited_at, first_visits.values())}
    origin: Mapping[str, Any] = {"keeps": True, "anew": [*failures.anew], "failed_items": True}
    made = rerun(journal, run_id, loops, by, limits, origin)
    lost = _undone(journal, made)
    if lost:
        made = rerun(journal, run_id, {*loops, *lost}, by, limits, origin)
    calls = offered(calls_of(journal, run_id), run_id, failures.anew)
    preview = _Preview(made, failures.items, calls)
    told = [*failures.lines(), *([_told(lost)] if lost else [])]
    return replace(made, effects=preview.effects(), kept=(*told, *preview.lines()))


def _undone(journal: Journal, made: Forking) -> set[Visited]:
    """The visits of which the new run would keep a call that an undoing has taken back."""
    gone = undone_in(journal, made.parent)
    if not gone:
        return set()
    branch = made.branch
    kept = {seq for seq in gone if seq in branch.taken or (seq <= branch.at and seq not in branch.left_out)}
    rows = journal.events(made.parent.run_id) if kept else ()
    return {visit_at(row.key) for row in rows if row.seq in kept and row.key is not None}


def _kept_events(made: Forking) -> list[list[int]]:
    """The events of the parent that the new run begins with: ranges, first to last."""
    branch = made.branch
    seqs = sorted({*range(1, branch.at + 1)} - branch.left_out | branch.taken)
    runs = groupby(enumerate(seqs), key=lambda pair: pair[1] - pair[0])
    ranges = ([*map(itemgetter(1), pairs)] for _, pairs in runs)
    return [[found[0], found[-1]] for found in ranges]


def _told(lost: Collection[Visited]) -> str:
    named = sorted(map(str, lost))
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    return f"made again, because it was taken back: {', '.join(named[:_MOST_NAMED])}{more}"


class _Preview:
    """What a rerun keeps of these calls after the point where it branches off; `items` have failed."""

    def __init__(self, made: Forking, items: Iterable[FailedItem], calls: Iterable[Finished]) -> None:
        self._made, items = made, [*items]
        taken = made.branch.taken
        later = [c for c in calls if c.outcome is not None and c.seq > made.at and c.seq not in taken]
        self._failed = {f"{item.loop}.{item.item}" for item in items}
        self._loops = {item.loop for item in items}
        self._kept = [c for c in later if visit_of(c.key) in self._loops]
        self._rest = [c for c in later if visit_of(c.key) not in self._loops]
        self._finished = {item_of(attempt_key(c.key)) for c in later}

    def effects(self) -> tuple[EffectAhead, ...]:
        """The effects ahead without the calls whose outcome is kept."""
        found = (self._left(each) for each in self._made.effects)
        return tuple(each for each in found if each is not None)

    def _left(self, each: EffectAhead) -> EffectAhead | None:
        ahead = [call for call in each.calls if not self._is_kept(call.key, call.is_same, each.tool)]
        kept = len(each.calls) - len(ahead)
        more = each.more
        if more:
            items = {one for one in self._finished - self._failed if visit_of(f"{one}.1") in self._loops}
            mine = sum(1 for one in items if one.rpartition(".")[0].endswith(each.step))
            more = max(0, more - max(0, mine - kept))
        if not ahead and more == 0 and kept:
            return None
        return replace(each, calls=tuple(ahead), more=more)

    def _is_kept(self, key: str, is_same: bool, tool: str) -> bool:
        if not key or item_of(key) not in self._finished:
            return False
        if is_same:
            return True
        is_agent = call_kind(tool) is CallKind.AGENT  # its own calls are kept, one by one
        return is_agent and visit_of(key) in self._loops and item_of(key) not in self._failed

    def lines(self) -> tuple[str, ...]:
        """What is kept."""
        lines: list[str] = []
        for word, calls in (
            ("kept", self._kept),
            ("kept, if the run asks for it with the same arguments", self._rest),
        ):
            counts = Counter(call.command.step for call in calls)
            named = ", ".join(
                f"{step} ({n})" if n > 1 else step for step, n in [*counts.items()][:_MOST_NAMED]
            )
            if counts:
                total = sum(counts.values())
                lines.append(f"{word}: {total:,} call{'s' if total != 1 else ''}: {named}")
        if not self._kept and (self._loops or not self._rest):
            lines.append("kept: no call")
        return tuple(lines)


_QUESTION = lazy.pattern(r"(?<=[0-9])/t[0-9]+$")


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
