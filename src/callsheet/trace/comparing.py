"""Compares two runs of a journal, without processing the parts in which they are equal.

In: a journal and two runs. Out: what differs, with the lineages that show it. The machine is deterministic:
runs of one plan with equal starts are equal as long as their journals are, and again once their states are
equal and the same events follow. So only the stretches are processed from where the journals diverge to where
the states are equal again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON, Plan
from callsheet.ir.gc_pause import gc_paused
from callsheet.machine import Program
from callsheet.machine.snapshots import state_to_json
from callsheet.store.events import Entry, EventType
from callsheet.store.journal import Journal
from callsheet.store.reader import Told
from callsheet.store.records import PlanOf
from callsheet.store.runs import RunInfo
from callsheet.trace.alignment import Pair, RunDiff, diff_visits
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.record import recorder_at, recorder_of
from callsheet.trace.lineage.recorder import Recorder
from callsheet.trace.replay import state_at_event

_FIRST_PART = 200
_GROWTH = 8
"""The factor by which each part examined after the first difference is longer than the previous one."""
_LEAST_SKIPPED = 2_000
"""The least number of equal events still to come that makes skipping them worthwhile."""
_NOT_COMPARED = ("inputs", "pins", "launch")
"""Fields of a run's start that do not affect its machine, and the inputs, which are compared separately."""
_COUNTERS = ("used", "limits", "counts")
"""Counters in a machine's state, which affect it only if a limit is reached."""


class VisitDifference(NamedTuple):
    """A differing pair of visits, and the lineages that they belong to."""

    pair: Pair
    old: Lineage
    new: Lineage


class Compared(NamedTuple):
    """The differences between two runs: inputs by name, and visits in the order of the first run.

    `alike` is the number of equal visits. `upto` are the last events that were compared, if there are
    more.
    """

    inputs: dict[str, tuple[JSON, JSON]]
    alike: int
    differences: tuple[VisitDifference, ...] = ()
    upto: tuple[int, int] | None = None


def compare_runs(journal: Journal, old: RunInfo, new: RunInfo, most: int | None = None) -> Compared:
    """The differences between two runs; the search stops once more than `most` have been found.

    The first difference is always that of the complete runs. Raises JournalError if a run cannot be
    read.
    """
    with gc_paused(True):
        return _Comparison(journal, old, new).compare(most)


class _Segment(NamedTuple):
    """The differences in a part of two runs.

    After it, the runs are equal to their ends (`is_alike`), or the comparison continues at `goes_on`.
    `open` is the number of visits of the first run that are not yet in the diff.
    """

    diff: RunDiff
    is_alike: bool = False
    goes_on: tuple[_Cursor, _Cursor] | None = None
    open: int = 0


class _Cursor:
    """A run that is processed as far as necessary."""

    def __init__(
        self, recorder: Recorder, entries: Iterator[Entry], plan_of: PlanOf, seqs: list[int]
    ) -> None:
        self.recorder = recorder
        self._entries = entries
        self._plan_of = plan_of
        self._seqs = seqs
        self.place = 0
        """The number of external events that have been processed."""
        self.since = 0
        """The number of its visits that both runs have."""

    @property
    def is_over(self) -> bool:
        """Whether all external events have been processed."""
        return self.place >= len(self._seqs)

    @property
    def remaining(self) -> int:
        """The number of external events that remain."""
        return len(self._seqs) - self.place

    def advance(self, place: int) -> None:
        """Process all events before external event number `place`, or all if there are fewer."""
        self.place = min(place, len(self._seqs))
        stop = None if self.is_over else self._seqs[self.place]
        for entry in self._entries:
            if stop is not None and entry.seq >= stop:
                self._entries = chain((entry,), self._entries)
                return
            self.recorder.add(entry, self._plan_of)

    def lineage(self) -> Lineage:
        """The lineage of the events processed so far."""
        return self.recorder.done(None) if self.is_over else self.recorder.so_far()


class _Comparison:
    def __init__(self, journal: Journal, old: RunInfo, new: RunInfo) -> None:
        self._journal, self._old, self._new = journal, old, new
        self._seqs_old, self._told_old = journal.external_events(old.run_id)
        self._seqs_new, self._told_new = journal.external_events(new.run_id)
        self._plans: dict[str, Plan] = {}
        self._program: Program | None = None
        """The program of the plan, once it has been compiled."""

    def compare(self, most: int | None) -> Compared:
        begun_alike, same_inputs = self._compare_starts()
        shared = _common_prefix(self._told_old, self._told_new) if begun_alike and same_inputs else 0
        end = _common_prefix(self._told_old[::-1], self._told_new[::-1]) if begun_alike else 0
        end = min(end, len(self._told_old) - shared, len(self._told_new) - shared)
        if shared and shared == len(self._told_old) == len(self._told_new):
            return Compared({}, self._visited_at_end(self._from_start(self._old, self._seqs_old)))
        sides = self._cursors_at(shared) if shared else None
        if sides is None:
            sides = self._from_start(self._old, self._seqs_old), self._from_start(self._new, self._seqs_new)
        differences: list[VisitDifference] = []
        inputs: dict[str, tuple[JSON, JSON]] | None = None
        while True:
            stretch = self._segment(*sides, most, end if begun_alike else -1, differences)
            inputs = stretch.diff.inputs if inputs is None else inputs
            old, new = sides[0].lineage(), sides[1].lineage()
            differences += [VisitDifference(pair, old, new) for pair in stretch.diff.differing]
            old_count = sum(one.pair.old is not None for one in differences)
            if stretch.goes_on is not None:
                sides = stretch.goes_on
            elif stretch.diff.upto is not None:
                return Compared(
                    inputs, old.visited - old_count - stretch.open, tuple(differences), stretch.diff.upto
                )
            else:
                visited = self._visited_at_end(sides[0]) if stretch.is_alike else old.visited
                return Compared(inputs, visited - old_count, tuple(differences))

    def _compare_starts(self) -> tuple[bool, bool]:
        """Whether both runs have the same plan and start, except for inputs; whether these are equal."""
        bodies: list[dict[str, JSON]] = []
        for info in (self._old, self._new):
            first = next(self._journal.entries(info.run_id), None)
            bodies.append(dict((first.body if first is not None else None) or {}))
        inputs = [body.get("inputs") for body in bodies]
        rest = [{name: value for name, value in body.items() if name not in _NOT_COMPARED} for body in bodies]
        return self._old.plan_hash == self._new.plan_hash and rest[0] == rest[1], inputs[0] == inputs[1]

    def _plan_of(self, name: str) -> Plan:
        plan = self._plans.get(name)
        if plan is None:
            plan = self._plans[name] = self._journal.plan_of(name)
        return plan

    def _from_start(self, info: RunInfo, seqs: list[int]) -> _Cursor:
        entries = self._journal.entries(info.run_id)
        return _Cursor(recorder_of(self._plan_of(info.plan_hash), entries), entries, self._plan_of, seqs)

    def _cursor_at(self, info: RunInfo, seqs: list[int], place: int, since: int) -> _Cursor | None:
        """A run at external event number `place`.

        With an event number `since`, it is restored from a snapshot after it, or None if there is none.
        """
        upto = None if place >= len(seqs) else seqs[place] - 1
        recorder = recorder_at(self._journal, info.run_id, self._plan_of(info.plan_hash), upto, self._program)
        if recorder is not None and recorder.seq > since:
            entries = self._journal.entries(info.run_id, recorder.seq - 1)
            side = _Cursor(recorder, entries, self._plan_of, seqs)
        elif since:
            return None
        else:
            side = self._from_start(info, seqs)
        self._program = side.recorder.lineage.programs[0]
        side.advance(place)
        side.since = len(side.recorder.lineage.visits)
        return side

    def _fork(self, one: _Cursor, shared: int) -> _Cursor | None:
        """The second run in the same state as the first one; None if the recorder cannot be forked."""
        forked = one.recorder.fork()
        if forked is None:
            return None
        mine, theirs = self._seqs_old[:shared], self._seqs_new[:shared]
        if mine != theirs:
            forked.lineage.renumber({a: b for a, b in zip(mine, theirs, strict=True) if a != b})
        entries = self._journal.entries(self._new.run_id, self._seqs_new[shared - 1])
        other = _Cursor(forked, entries, self._plan_of, self._seqs_new)
        other.advance(shared)
        other.since = len(other.recorder.lineage.visits)
        return other

    def _cursors_at(self, place: int, since: int = 0) -> tuple[_Cursor, _Cursor] | None:
        """Both runs after `place` equal external events; None if they cannot be restored there.

        With an event number `since`, only from a snapshot of the first run after it.
        """
        one = self._cursor_at(self._old, self._seqs_old, place, since)
        other = None if one is None else self._fork(one, place)
        return None if one is None or other is None else (one, other)

    def _segment(
        self, one: _Cursor, other: _Cursor, most: int | None, end: int, before: Sequence[VisitDifference]
    ) -> _Segment:
        """The differences from the current positions on; `before` are those found earlier.

        The last `end` external events of both are equal; -1 if the runs do not have equal starts.
        """
        old, new = one.lineage(), other.lineage()
        since = one.since
        waiting = {visit.id for visit in old.visits[:since] if old.is_under_way(visit)}
        size = _FIRST_PART
        while True:
            longer = [side for side in (one, other) if side.remaining > max(end, 0)]
            for side in longer or (one, other):
                side.advance(side.place + (min(size, side.remaining - max(end, 0)) if longer else size))
            is_over = one.is_over and other.is_over
            is_alike = (
                not is_over and one.remaining == other.remaining <= end and _have_equal_states(one, other)
            )
            goes_on = None if is_over or is_alike or end < 0 else self._next_divergence(one, other)
            visits, others = (
                [visit for visit in side.lineage().visits if visit.id >= since or visit.id in waiting]
                for side in (one, other)
            )
            is_done = is_over or is_alike or goes_on is not None
            if is_done or (most is not None and len(before) + max(len(visits), len(others)) > most):
                diff = diff_visits(old, visits, new, others, is_over=is_done, has_parted=bool(before))
                if is_done:
                    return _Segment(diff, is_alike, goes_on)
                if most is not None and len(before) + len(diff.differing) > most and (before or diff.is_firm):
                    pairs_before = diff.alike + sum(pair.old is not None for pair in diff.differing)
                    return _Segment(diff._replace(upto=(old.seq, new.seq)), open=len(visits) - pairs_before)
            size *= _GROWTH

    def _next_divergence(self, one: _Cursor, other: _Cursor) -> tuple[_Cursor, _Cursor] | None:
        """Both runs after the next equal events, if their states are equal and there are many of these."""
        if one.place != other.place:
            return None
        ahead = _common_prefix(self._told_old[one.place :], self._told_new[other.place :])
        if ahead < _LEAST_SKIPPED or not _have_equal_states(one, other):
            return None
        return self._cursors_at(one.place + ahead, one.recorder.seq)

    def _visited_at_end(self, one: _Cursor) -> int:
        """The number of visits of the first run at its end."""
        machine = one.recorder.machine
        is_counted = machine.schedule is None and machine.tree is None  # a graph and a tree count otherwise
        if is_counted and all(kind != EventType.PLAN for kind, *_ in self._told_old):
            program = one.recorder.lineage.programs[0]
            _, folded = state_at_event(self._journal, self._old, self._old.events, program)
            result = folded.machine.result
            if (
                result is None or result.refusal is None
            ):  # a step that a limit refuses is counted, but is no visit
                return sum(folded.machine.visits)
        one.advance(one.place + one.remaining)
        return one.lineage().visited


def _common_prefix(one: list[Told], other: list[Told]) -> int:
    """The length of the common prefix of two lists."""
    if one == other:
        return len(one)
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _have_equal_states(one: _Cursor, other: _Cursor) -> bool:
    """Whether the states of two runs are equal, except for their counters."""
    states: list[dict[str, object]] = []
    for side in (one, other):
        state = side.recorder.machine.state()
        data = None if state is None or state.tree is not None else state_to_json(state)
        if data is None:
            return False
        states.append({name: part for name, part in data.items() if name not in _COUNTERS})
    return states[0] == states[1]


Path: TypeAlias = "tuple[str | int, ...]"
LEAST = 0.01
"""The largest difference in seconds that is not reported."""


class ValueDifference(NamedTuple):
    """A path at which two values differ, and the value of each there."""

    path: Path
    old: JSON
    new: JSON
    missing: str = ""
    """`a` or `b` if that value has nothing at the path."""


class Slower(NamedTuple):
    """A visit of a step that took longer in one of two runs; times in seconds."""

    step: str
    visit: int
    old: float
    new: float


def parts(old: JSON, new: JSON) -> Iterator[ValueDifference]:
    """The paths at which two values differ, in the order of the first; lists are compared by position.

    >>> [(p.path, p.old, p.new) for p in parts({"a": [1, 2]}, {"a": [1, 3]})]
    [(('a', 1), 2, 3)]
    """
    stack: list[ValueDifference] = [ValueDifference((), old, new)]
    while stack:
        frame = stack.pop()
        path, one, other, missing = frame
        if missing or type(one) is not type(other) or not isinstance(one, dict | list):
            if missing or one != other or type(one) is not type(other):
                yield frame
        elif isinstance(one, list) and isinstance(other, list):
            most = max(len(one), len(other))
            stack += [_at(path, at, one, other) for at in range(most - 1, -1, -1)]
        elif isinstance(one, dict) and isinstance(other, dict):
            names = [*one, *(name for name in other if name not in one)]
            stack += [
                ValueDifference(
                    (*path, name),
                    one.get(name),
                    other.get(name),
                    "a" if name not in one else "b" if name not in other else "",
                )
                for name in reversed(names)
            ]


def _at(path: Path, at: int, one: list[JSON], other: list[JSON]) -> ValueDifference:
    missing = "a" if at >= len(one) else "b" if at >= len(other) else ""
    return ValueDifference(
        (*path, at), one[at] if at < len(one) else None, other[at] if at < len(other) else None, missing
    )


def slower(
    old: Mapping[tuple[str, int], float], new: Mapping[tuple[str, int], float], noise: float
) -> list[Slower]:
    """The visits whose times differ by more than a fraction `noise` of the longer one, largest first.

    >>> slower({("S1", 1): 1.0, ("S2", 1): 1.0}, {("S1", 1): 1.1, ("S2", 1): 3.0}, 0.2)
    [Slower(step='S2', visit=1, old=1.0, new=3.0)]
    """
    both = [Slower(*place, old[place], new[place]) for place in old if place in new]
    slower_steps = [s for s in both if abs(s.new - s.old) > max(LEAST, noise * max(s.old, s.new))]
    return sorted(slower_steps, key=lambda s: -abs(s.new - s.old))
