"""Two runs of a journal side by side, without going through what they have done alike.

In: a journal and two runs. Out: what differs, with the lineages that tell of it. The machine does the same
wherever it is told the same: runs of one plan that were started alike are alike as long as their journals
are, and again from where they stand alike and have only the same to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.ir.collecting import collector_rests
from callsheet.machine.snapshots import state_to_json
from callsheet.store.events import Entry, EventType
from callsheet.store.journal import Journal
from callsheet.store.reader import RunInfo, Told
from callsheet.store.records import PlanOf
from callsheet.trace.aligned import RunDiff, diff_visits
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.record import Recorder, recorder_of
from callsheet.trace.lineage.windows import recorder_at
from callsheet.trace.standing import standing_of

_FIRST_PART = 200
_GROWTH = 8
"""Of parts that are looked at beyond the first difference: each is so much longer than the one before."""
_OWN = ("inputs", "pins", "launch")
"""What the start of a run says beside what its machine goes by; and the inputs."""
_COUNTED = ("used", "limits", "counts")
"""What a machine has counted: what it does follows from that only where a limit ends it."""


class Compared(NamedTuple):
    """What differs between two runs, and the lineages that its visits are of."""

    diff: RunDiff
    old: Lineage
    new: Lineage


def compare_runs(journal: Journal, old: RunInfo, new: RunInfo, most: int | None = None) -> Compared:
    """What differs between two runs; looking ends when more than `most` differences are found.

    Raises JournalError where a run cannot be read.
    """
    with collector_rests(True):
        return _Comparison(journal, old, new).compare(most)


class _Side:
    """A run that is gone through as far as it is needed."""

    def __init__(
        self, recorder: Recorder, entries: Iterator[Entry], plan_of: PlanOf, seqs: list[int]
    ) -> None:
        self.recorder = recorder
        self._entries = entries
        self._plan_of = plan_of
        self._seqs = seqs
        self.place = 0
        """How much of what has come from outside it has taken."""

    @property
    def is_over(self) -> bool:
        """Whether it has taken all."""
        return self.place >= len(self._seqs)

    @property
    def left(self) -> int:
        """How much is still to come."""
        return len(self._seqs) - self.place

    def advance(self, place: int) -> None:
        """Take all before what has come as the number `place`; where there is no such, all."""
        self.place = min(place, len(self._seqs))
        stop = None if self.is_over else self._seqs[self.place]
        for entry in self._entries:
            if stop is not None and entry.seq >= stop:
                self._entries = chain((entry,), self._entries)
                return
            self.recorder.take(entry, self._plan_of)

    def lineage(self) -> Lineage:
        """What has happened so far."""
        return self.recorder.done(None) if self.is_over else self.recorder.so_far()


class _Comparison:
    def __init__(self, journal: Journal, old: RunInfo, new: RunInfo) -> None:
        self._journal, self._old, self._new = journal, old, new
        self._seqs_old, self._told_old = journal.told(old.run_id)
        self._seqs_new, self._told_new = journal.told(new.run_id)

    def compare(self, most: int | None) -> Compared:
        begun_alike, same_inputs = self._starts()
        shared = _alike(self._told_old, self._told_new) if begun_alike and same_inputs else 0
        end = _alike(self._told_old[::-1], self._told_new[::-1]) if begun_alike else 0
        end = min(end, len(self._told_old) - shared, len(self._told_new) - shared)
        if shared and shared == len(self._told_old) == len(self._told_new):
            return self._equal()
        one = self._side(self._old, self._seqs_old, shared)
        other = None if one is None else self._fork(one, shared)
        if one is not None and other is not None:
            return self._beyond(one, other, most, end, len(one.recorder.lineage.visits))
        one = self._from_start(self._old, self._seqs_old)
        return self._beyond(one, self._from_start(self._new, self._seqs_new), most, end, 0)

    def _starts(self) -> tuple[bool, bool]:
        """Whether both runs have one plan and one start but for their inputs; whether those are the same."""
        bodies: list[dict[str, JSON]] = []
        for info in (self._old, self._new):
            first = next(self._journal.entries(info.run_id), None)
            bodies.append(dict((first.body if first is not None else None) or {}))
        inputs = [body.get("inputs") for body in bodies]
        rest = [{name: value for name, value in body.items() if name not in _OWN} for body in bodies]
        return self._old.plan_hash == self._new.plan_hash and rest[0] == rest[1], inputs[0] == inputs[1]

    def _plan_of(self, name: str) -> Plan:
        return self._journal.plan(name)[0]

    def _from_start(self, info: RunInfo, seqs: list[int]) -> _Side:
        entries = self._journal.entries(info.run_id)
        return _Side(recorder_of(self._plan_of(info.plan_hash), entries), entries, self._plan_of, seqs)

    def _side(self, info: RunInfo, seqs: list[int], place: int) -> _Side | None:
        """A run where it has been told so much, of what came from outside; None where that is nothing."""
        if place == 0:
            return None
        upto = None if place >= len(seqs) else seqs[place] - 1
        recorder = recorder_at(self._journal, info.run_id, self._plan_of(info.plan_hash), upto)
        if recorder is None:
            side = self._from_start(info, seqs)
        else:
            entries = self._journal.entries(info.run_id, recorder.seq - 1)
            side = _Side(recorder, entries, self._plan_of, seqs)
        side.advance(place)
        return side

    def _fork(self, one: _Side, shared: int) -> _Side | None:
        """The other run where the first one stands; None where it cannot be had there."""
        forked = one.recorder.fork()
        if forked is None:
            return None
        entries = self._journal.entries(self._new.run_id, self._seqs_new[shared - 1])
        other = _Side(forked, entries, self._plan_of, self._seqs_new)
        other.advance(shared)
        return other

    def _beyond(self, one: _Side, other: _Side, most: int | None, end: int, since: int) -> Compared:
        """What differs from where both stand, each with so many visits that the other one has too.

        Of their last parts, `end` of what came is the same.
        """
        old, new = one.lineage(), other.lineage()
        waiting = {visit.id for visit in old.visits[:since] if old.is_under_way(visit)}
        before = (old.visited if since else 0) - len(waiting)
        size = _FIRST_PART
        while True:
            apart = [side for side in (one, other) if side.left > end]
            for side in apart or (one, other):
                side.advance(side.place + (min(size, side.left - end) if apart else size))
            is_over = one.is_over and other.is_over
            is_alike = not is_over and one.left == other.left <= end and _stand_alike(one, other)
            visits, others = (
                [visit for visit in side.lineage().visits if visit.id >= since or visit.id in waiting]
                for side in (one, other)
            )
            is_done = is_over or is_alike
            if is_done or (most is not None and max(len(visits), len(others)) > most):
                diff = diff_visits(old, visits, new, others, is_over=is_done)
                alike = diff.alike + before
                if is_alike:
                    visited = old.visited
                    alike += self._visited_at_end(one) - visited
                if is_done:
                    return Compared(diff._replace(alike=alike), old, new)
                if most is not None and len(diff.differing) > most:
                    return Compared(diff._replace(alike=alike, upto=(old.seq, new.seq)), old, new)
            size *= _GROWTH

    def _equal(self) -> Compared:
        """Both runs have done the same."""
        one = self._from_start(self._old, self._seqs_old)
        visited = self._visited_at_end(one)
        lineage = one.lineage()
        return Compared(RunDiff({}, visited, ()), lineage, lineage)

    def _visited_at_end(self, one: _Side) -> int:
        """How many visits the first run has at its end."""
        is_counted = one.recorder.machine.schedule is None  # in a graph some are left out and never come to
        if is_counted and all(kind != EventType.PLAN for kind, *_ in self._told_old):
            _, folded = standing_of(self._journal, self._old, self._old.events)
            result = folded.machine.result
            if result is None or result.refusal is None:  # what a limit refuses is counted, and no visit
                return sum(folded.machine.visits)
        one.advance(one.place + one.left)
        return one.lineage().visited


def _alike(one: list[Told], other: list[Told]) -> int:
    """How many of the first of two lists are the same in both."""
    if one == other:
        return len(one)
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _stand_alike(one: _Side, other: _Side) -> bool:
    """Whether two runs stand alike, but for what they have used."""
    states: list[dict[str, object]] = []
    for side in (one, other):
        state = side.recorder.machine.state()
        data = None if state is None else state_to_json(state)
        if data is None:
            return False
        states.append({name: part for name, part in data.items() if name not in _COUNTED})
    return states[0] == states[1]
