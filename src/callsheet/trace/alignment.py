"""Aligns two runs: where they agree, where they first diverge, which differences follow from earlier ones.

In: the lineages of two runs. Out: their visits in pairs, matched by plan, step and visit, the rest by tool
and arguments. A differing pair is a consequence of earlier differences if it read different values, or if
only one run reached it. Otherwise it diverges by itself: a tool answered differently, or the plans differ.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import CallModel, CallTool, RunAgent
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource, Visit


class Pair(NamedTuple):
    """A visit in both runs or in one of them; `what` lists the differences and is empty if there are none.

    `follows` if it differs because of an earlier difference, in data or in control flow.
    """

    old: Visit | None
    new: Visit | None
    what: tuple[str, ...]
    follows: bool = False


class RunDiff(NamedTuple):
    """The differences between two runs: inputs by name, and visits in the order of the first run.

    `alike` counts the equal pairs. `upto` are the last events compared, if there are more.
    """

    inputs: dict[str, tuple[JSON, JSON]]
    alike: int
    differing: tuple[Pair, ...]
    upto: tuple[int, int] | None = None
    is_firm: bool = True
    """Whether the first differing pair stays the first, whatever events are still to come."""

    @property
    def first(self) -> Pair | None:
        """The first pair that differs: by itself, or because of what the runs were given."""
        return next(iter(self.differing), None)


def diff_runs(old: Lineage, new: Lineage) -> RunDiff:
    """The differences between two complete runs."""
    return diff_visits(old, old.visits, new, new.visits, is_over=True)


def diff_visits(
    old: Lineage,
    visits: Sequence[Visit],
    new: Lineage,
    others: Sequence[Visit],
    *,
    is_over: bool,
    has_parted: bool = False,
) -> RunDiff:
    """The differences between two runs in some of their visits; all others are alike and not counted.

    Unless `is_over`, visits that later ones may still match are left out. `has_parted` if the runs have
    differed before these visits.
    """
    paired = _paired(old, visits, new, others)
    pairs = paired.pairs if is_over else _settled(old, new, paired.pairs)
    inputs = _inputs(old, new)
    given_old, given_new = (_given(lineage, inputs) for lineage in (old, new))
    equal_count, differing = 0, list[Pair]()
    for one, other in pairs:
        differing_parts = _what_differs(old, one, new, other)
        if not differing_parts:
            equal_count += 1
            continue
        if one is None or other is None:
            follows = has_parted or _reads_any(one, given_old) or _reads_any(other, given_new)
        else:
            is_elsewhere = bool(one.skipped) != bool(other.skipped)
            follows = (is_elsewhere and has_parted) or _has_read_apart(old, one, new, other)
        has_parted = True
        differing.append(Pair(one, other, differing_parts, follows))
    is_firm = is_over or (bool(differing) and _is_firm(old, new, others, paired, differing[0]))
    return RunDiff(inputs, equal_count, tuple(differing), is_firm=is_firm)


def _given(lineage: Lineage, inputs: dict[str, tuple[JSON, JSON]]) -> set[int]:
    """The writes that differ, but not by a step: of differing inputs, and all edits."""
    return {
        w.id
        for w in lineage.writes
        if w.made is ValueSource.EDIT or (w.made is ValueSource.INPUT and w.name in inputs)
    }


def _inputs(old: Lineage, new: Lineage) -> dict[str, tuple[JSON, JSON]]:
    one, other = (
        {w.name: w.value for w in lineage.writes if w.made is ValueSource.INPUT} for lineage in (old, new)
    )
    return {
        name: (one.get(name), other.get(name))
        for name in {**one, **other}
        if name not in one or name not in other or one[name] != other[name]
    }


_Pairs: TypeAlias = "list[tuple[Visit | None, Visit | None]]"


class _VisitPairs(NamedTuple):
    """Pairs of visits in the order of the first run, with those that only the second has in between.

    `placed_old` and `placed_new` are the visits that were matched by plan, step and visit.
    """

    pairs: _Pairs
    placed_old: set[int]
    placed_new: set[int]


def _is_firm(old: Lineage, new: Lineage, others: Sequence[Visit], paired: _VisitPairs, first: Pair) -> bool:
    """Whether no visit that is open or still to come can put a difference before the first one."""
    if first.old is None or first.new is None:
        return False
    for one, other in paired.pairs:
        if one is None or other is None or one.id not in paired.placed_old:
            return False
        if old.is_under_way(one) or new.is_under_way(other):
            return False
        if one.id == first.old.id:
            break
    return all(visit.id in paired.placed_new for visit in others if visit.id < first.new.id)


def _settled(old: Lineage, new: Lineage, pairs: _Pairs) -> _Pairs:
    """The final pairs: those up to the last one with both runs, except visits under way."""
    last = max(
        (n for n, (one, other) in enumerate(pairs) if one is not None and other is not None), default=-1
    )
    return [
        (one, other)
        for one, other in pairs[: last + 1]
        if not (one is not None and old.is_under_way(one))
        and not (other is not None and new.is_under_way(other))
    ]


def _paired(old: Lineage, visits: Sequence[Visit], new: Lineage, others: Sequence[Visit]) -> _VisitPairs:
    by_place = {_place(new, visit): visit for visit in others}
    partner: dict[int, Visit] = {}
    taken: set[int] = set()
    for visit in visits:
        other = by_place.get(_place(old, visit))
        if other is not None and _tool(old, visit) == _tool(new, other):
            partner[visit.id] = other
            taken.add(other.id)
    placed_old, placed_new = set(partner), set(taken)
    waiting: defaultdict[str, deque[Visit]] = defaultdict(deque)
    for visit in others:
        if visit.id not in taken and not visit.skipped:
            waiting[_call(new, visit)].append(visit)
    for visit in visits:
        if visit.id not in partner and not visit.skipped and waiting[call := _call(old, visit)]:
            partner[visit.id] = other = waiting[call].popleft()
            taken.add(other.id)
    alone = deque(visit for visit in others if visit.id not in taken)
    pairs: _Pairs = []
    for visit in visits:
        other = partner.get(visit.id)
        while other is not None and alone and alone[0].id < other.id:
            pairs.append((None, alone.popleft()))
        pairs.append((visit, other))
    pairs += [(None, visit) for visit in alone]
    return _VisitPairs(pairs, placed_old, placed_new)


def _place(lineage: Lineage, visit: Visit) -> tuple[int, str, int]:
    return visit.program, lineage.place(visit), visit.visit


def _tool(lineage: Lineage, visit: Visit) -> tuple[int, str]:
    code = lineage.code(visit)
    return int(code.kind), code.tool


def _arguments(lineage: Lineage, visit: Visit) -> list[JSON]:
    """The arguments of a visit's calls, in the order of its items; only of the last attempt for each."""
    values: list[JSON] = []
    for key in lineage.last_keys(visit):
        command = lineage.commands.get(key)
        if isinstance(command, CallTool):
            values.append(command.args)
        elif isinstance(command, CallModel | RunAgent):
            values.append([command.inputs, command.args])
        else:
            values.append(None)
    return values


def _call(lineage: Lineage, visit: Visit) -> str:
    """A key for a visit's tool and arguments: equal for equal calls."""
    parts: list[object] = [_tool(lineage, visit), _arguments(lineage, visit)]
    if visit.path and not lineage.keys_of(visit):
        parts.append(lineage.code(visit).id)  # a statement that is no call is like its own kind alone
    return json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)


def _results(lineage: Lineage, visit: Visit) -> list[JSON]:
    outcomes = map(lineage.outcomes.get, lineage.last_keys(visit))
    return [None if outcome is None else [str(outcome.type), outcome.value] for outcome in outcomes]


def _what_differs(old: Lineage, one: Visit | None, new: Lineage, other: Visit | None) -> tuple[str, ...]:
    if one is None:
        return ("only in B",)
    if other is None:
        return ("only in A",)
    if bool(one.skipped) != bool(other.skipped):
        return ("left out in A" if one.skipped else "left out in B",)
    parts: list[str] = []
    if _arguments(old, one) != _arguments(new, other):
        parts.append("arguments")
    if _results(old, one) != _results(new, other):
        parts.append("result")
    if len(old.keys_of(one)) != len(new.keys_of(other)):
        parts.append("attempts")
    mine, theirs = old.write_of.get(one.id, NONE), new.write_of.get(other.id, NONE)
    if not parts and min(mine, theirs) != NONE and old.writes[mine].value != new.writes[theirs].value:
        parts.append("value")
    return tuple(parts)


def _reads_any(visit: Visit | None, parted: set[int]) -> bool:
    return visit is not None and not parted.isdisjoint(visit.versions)


def _has_read_apart(old: Lineage, one: Visit, new: Lineage, other: Visit) -> bool:
    """Whether two visits have read different values from a variable that both have read."""
    mine, theirs = (
        dict(zip(lineage.reads_of(visit).names, visit.versions, strict=True))
        for lineage, visit in ((old, one), (new, other))
    )
    return any(
        (write == NONE) != (theirs[name] == NONE)
        or (write != NONE and old.writes[write].value != new.writes[theirs[name]].value)
        for name, write in mine.items()
        if name in theirs
    )
