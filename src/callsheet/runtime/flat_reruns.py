"""Reruns of plans of version 1 that keep outcomes by content: of failed items, and of what was undone.

In: a recorded run. Out: the prepared run. It begins where the first loop with failed items began, or the
first call that an undoing has taken back, and is given the outcomes that are left as it asks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from callsheet.ir.operations import CallKind, call_kind
from callsheet.machine import Limits
from callsheet.machine.keys import attempt_key, item_of, visit_of
from callsheet.runtime.edits import ParentHistory
from callsheet.runtime.effects import EffectAhead
from callsheet.runtime.failed_items import FailedItem, failures_of
from callsheet.runtime.forking import Forking, parent_of, rerun, visited_at
from callsheet.store import Journal
from callsheet.store.branch import Visited, visit_at
from callsheet.store.kept_calls import Finished, calls_of, offered, undone_in

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
