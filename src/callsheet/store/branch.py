"""Decides which events of a run a fork of it begins with.

In: the events of a run, the event at which to fork, what is edited there. Out: the events that the new run
takes over, and the new run folded from them. Nothing is written or carried out here.

The fork takes the events up to that point, and the later outcomes of calls that were open there: those calls
had been issued and had their effect, and their outcome is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.machine import CallTool, Edited, LimitsChanged, Machine, RunAgent
from callsheet.machine.keys import parse_key
from callsheet.machine.machine import Observer
from callsheet.sealing.sealer import without_boxes
from callsheet.store.events import CallPart, Event, EventType
from callsheet.store.folded import Folded
from callsheet.store.records import TAKEN, PlanOf, event_record
from callsheet.store.replay import begin_with, fold_on

_WAITS = frozenset({EventType.TIMER, EventType.FIRED, EventType.ASK, EventType.SIGNAL})
"""The types of events of waits and questions, which are no calls that were issued."""


class Visited(NamedTuple):
    """A visit of a step: the `visit`-th (from 1) in the `generation`-th plan (from 0) of a run."""

    generation: int
    step: str
    visit: int

    def __str__(self) -> str:
        """Its place, such as `r1/S3@2`."""
        again = f"@{self.visit}" if self.visit != 1 else ""
        return f"{f'r{self.generation}/' if self.generation else ''}{self.step}{again}"


def visit_at(key: str) -> Visited:
    """The visit that the call with a key belongs to."""
    place = parse_key(key)
    return Visited(place.generation, place.step, place.visit)


class Cut(NamedTuple):
    """Where a run is forked: after the event `at`, without the events of the keys in `dropped`.

    Of later events, the outcomes of calls open at that point are kept, and with `keeps` also the events of
    other visits for which it is true.
    """

    at: int
    dropped: frozenset[str] = frozenset()
    keeps: Callable[[Visited], bool] | None = None


class KnownCall(NamedTuple):
    """A call of a run with its arguments; `seq` is the event of its intent."""

    key: str
    step: str
    tool: str
    args: Mapping[str, JSON]
    seq: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A fork that is about to be written.

    `start` is the body of its first event, `folded` its state as it begins, under `plan`. It takes the
    parent's events up to `at` except `left_out`, and of the later ones those in `taken`. `edit`, of variables
    or of limits, is put before the parent's event `edited_before`, or after all events up to `at` if that is
    None.
    """

    at: int
    left_out: frozenset[int]
    taken: frozenset[int]
    edit: Edited | LimitsChanged | None
    edited_before: int | None
    start: Mapping[str, Any]
    plan: Plan
    folded: Folded


def state_at(
    plan: Plan, events: Iterable[Event], at: int, plan_of: PlanOf, observer: Observer | None = None
) -> tuple[Folded, Event]:
    """A run after its event `at`, folded from its start, and that event; raises JournalError (JRN020)."""
    last: list[Event] = []

    def upto() -> Iterator[Event]:
        for row in events:
            if row.seq > at:
                return
            last[:] = [row]
            yield row

    rows = upto()
    folded = begin_with(plan, next(rows), observer)
    fold_on(folded, rows, plan_of)
    return folded, last[0]


def begins_at(
    plan: Plan, events: Iterable[Event], plan_of: PlanOf, visited: Visited
) -> tuple[int, Folded] | None:
    """The event with which a visit of a step begins, and the run there; None if it never began."""
    if plan.tree is not None:
        return _begins_in_tree(plan, events, plan_of, visited)
    found = first_begun(plan, events, plan_of, (visited,))
    return None if found is None else found[1:]


def first_begun(
    plan: Plan, events: Iterable[Event], plan_of: PlanOf, visits: Iterable[Visited]
) -> tuple[Visited, int, Folded] | None:
    """Which of these visits of a plan of version 1 begins first, with which event, and the run there."""
    wanted = [*{(each.generation, each.step): each for each in sorted(visits, reverse=True)}.values()]
    rows = iter(events)
    row = next(rows)
    folded = begin_with(plan, row)
    found: Visited | None = None

    def until() -> Iterator[Event]:
        nonlocal found, row
        while True:
            found = next((each for each in wanted if has_begun(folded.machine, each)), None)
            following = next(rows, None) if found is None else None
            if following is None:
                return
            row = following
            yield row

    fold_on(folded, until(), plan_of)
    return None if found is None else (found, row.seq, folded)


def _begins_in_tree(
    plan: Plan, events: Iterable[Event], plan_of: PlanOf, visited: Visited
) -> tuple[int, Folded] | None:
    """As `begins_at`, for a plan with blocks: a step is a statement's id, or its place such as `S2[4]/S5`."""
    rows = iter(events)
    first = next(rows)
    places: list[str] = []

    def hears(place: str, id_: str) -> None:
        if visited.step in (place, id_) and place not in places[-1:]:
            places.append(place)

    folded = begin_with(plan, first, prepare=lambda machine: _watched(machine, hears))
    beginning = first.seq

    def until() -> Iterator[Event]:
        nonlocal beginning
        for row in rows:
            if len(places) >= visited.visit:
                return
            beginning = row.seq
            yield row

    if len(places) < visited.visit:
        fold_on(folded, until(), plan_of)
    return (beginning, folded) if len(places) >= visited.visit else None


def _watched(machine: Machine, hears: Callable[[str, str], None]) -> None:
    assert machine.tree is not None
    machine.tree.watch(hears)


def has_begun(machine: Machine, visited: Visited) -> bool:
    """Whether this visit of a step has begun."""
    generation, step, visit = visited
    number = machine.program.number_of.get(step)
    if number is None or generation_of(machine) != generation:
        return False
    return machine.visits[number] >= visit


def generation_of(machine: Machine) -> int:
    """How many plans have replaced the first one."""
    return int(machine.generation[1:-1]) if machine.generation else 0


def branch(
    plan: Plan,
    events: Iterable[Event],
    plan_of: PlanOf,
    cut: Cut,
    start: Mapping[str, Any],
    edit: Edited | LimitsChanged | None = None,
) -> Branch:
    """The fork of a run with these events; `plan` and `start` are its own plan and start body.

    An edit at the first event must be made in `start` instead. Raises JournalError (JRN020) for events that
    cannot be read.
    """
    rows = iter(events)
    first = next(rows)
    folded = begin_with(plan, first, body=start)
    choice = _Choice(folded, cut, edit)
    fold_on(folded, choice.rows(rows), plan_of)
    return Branch(
        cut.at,
        frozenset(choice.left_out),
        frozenset(choice.taken),
        edit,
        choice.edited_before,
        start,
        plan,
        folded,
    )


class _Choice:
    """Chooses the events that a fork takes, while the fork is folded from them."""

    def __init__(self, folded: Folded, cut: Cut, edit: Edited | LimitsChanged | None) -> None:
        self._folded = folded
        self._cut = cut
        self._edit = edit
        self.left_out: list[int] = []
        self.taken: list[int] = []
        self.edited_before: int | None = None
        self._open: frozenset[str] | None = None
        """The calls that were issued and had no outcome at the cut."""

    def rows(self, rows: Iterator[Event]) -> Iterator[Event]:
        """The events that are taken; each is chosen after the ones before it were folded."""
        cut, edit = self._cut, self._edit
        for row in rows:
            if row.seq > cut.at:
                if self._open is None:
                    yield from self._edited(None)
                    self._open = frozenset(self._folded.launched.keys() & self._folded.waiting.keys())
                if self._folded.machine.result is not None:
                    return
                if self._is_wanted(row):
                    self.taken.append(row.seq)
                    yield row
            elif row.type.is_of_one_run or row.key in cut.dropped:
                self.left_out.append(row.seq)
            else:
                if row.seq == cut.at and (isinstance(edit, LimitsChanged) or (edit and edit.holds)):
                    yield from self._edited(row.seq)
                yield row
        if self._open is None:
            yield from self._edited(None)

    def _edited(self, before: int | None) -> Iterator[Event]:
        """The edit as an event, once."""
        edit, self._edit = self._edit, None
        if edit is not None:
            self.edited_before = before
            kind, _, body = event_record(edit)
            yield Event("", 0, 0, kind, None, None, None, None, 0.0, 0.0, body, b"")

    def _is_wanted(self, row: Event) -> bool:
        """Whether an event after the cut is to be taken."""
        key, folded, keeps = row.key, self._folded, self._cut.keeps
        assert self._open is not None
        if key is None or row.type.part in (CallPart.TOO_LATE, CallPart.BESIDE):
            return False
        if key in self._open:
            return row.type not in _WAITS and self._fits(row.type, key)
        if keeps is None:
            return False
        visit = visit_at(key)
        if visit.generation != generation_of(folded.machine):
            return False
        return keeps(visit) and self._fits(row.type, key)

    def _fits(self, kind: EventType, key: str) -> bool:
        """Whether the run waits for such an event."""
        machine, waiting = self._folded.machine, self._folded.waiting
        if kind.opens:
            return key in waiting
        return machine.awaits(key) or (kind is EventType.FIRED and key in waiting)


def is_fed_to_machine(kind: EventType) -> bool:
    """Whether events of this type are fed to the machine."""
    return kind in TAKEN


def calls_after(plan: Plan, events: Iterable[Event], plan_of: PlanOf, at: int) -> list[KnownCall]:
    """The calls of tools and agents that were issued after the event `at`, with their arguments."""
    calls: list[KnownCall] = []
    rows = iter(events)
    folded = begin_with(plan, next(rows))

    def noted() -> Iterator[Event]:
        for row in rows:
            if row.seq > at and row.type is EventType.INTENT and row.key is not None:
                call = folded.waiting.get(row.key)
                if isinstance(call, CallTool | RunAgent):
                    args = call.args if isinstance(call, CallTool) else {"inputs": call.inputs, **call.args}
                    calls.append(KnownCall(row.key, call.step, call.tool, dict(args), row.seq))
            yield row

    fold_on(folded, noted(), plan_of)
    return calls


def calls_done(plan: Plan, events: Iterable[Event], plan_of: PlanOf, tool: str) -> list[CallTool]:
    """The calls of a tool that succeeded, in the order of their outcomes."""
    calls: list[CallTool] = []
    rows = iter(events)
    folded = begin_with(plan, next(rows))

    def noted() -> Iterator[Event]:
        for row in rows:
            call = folded.waiting.get(row.key) if row.type is EventType.OK and row.key is not None else None
            if isinstance(call, CallTool) and call.tool == tool:
                calls.append(call)
            yield row

    fold_on(folded, noted(), plan_of)
    return calls


def with_inputs(start: Mapping[str, Any], values: Mapping[str, JSON]) -> dict[str, Any]:
    """The body of a start event with edited inputs."""
    return without_boxes({**start, "inputs": {**start["inputs"], **values}}, values)
