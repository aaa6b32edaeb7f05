"""Makes the record of a run from the events of its journal.

The journal is folded through the machine, whose notes on each step are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from callsheet.ir import JSON, Order, Plan, Step
from callsheet.ir.flow import Place, uses_of
from callsheet.machine.closures import compile_value
from callsheet.machine.notes import Note, NoteKind
from callsheet.store.events import Event, EventType
from callsheet.store.records import PlanOf
from callsheet.store.replay import fold
from callsheet.trace.projection.record import (
    BEFORE_ALL,
    MOST_OF_A_NAME,
    Item,
    Outcome,
    Record,
    Visit,
    Write,
    shown_text,
    shown_value,
)
from callsheet.trace.visit_times import SteadyTime

_MOST_CUTS = 3
_OUTCOMES = frozenset({EventType.OK, EventType.ERR, EventType.PLAN})
_EXPIRED = "expire"
STATED = "stated confidence"
"""The name of the remark with which an agent states its confidence in an answer, from 0 to 1."""
_STATED = re.compile(rf"(?:^|: ){STATED}: ([0-9.]+)$")


def record_of(plan: Plan, events: Iterable[Event], plan_of: PlanOf, *, with_items: bool = False) -> Record:
    """The record of a run from its first event on; the events may end anywhere.

    With `with_items` the record has the single results of each FOREACH. Raises JournalError (JRN020) if this
    version cannot read the events.
    """
    scribe = _Scribe([plan], with_items)
    folded = fold(plan, scribe.watched(events), scribe.plan_of(plan_of), scribe.note)
    return Record(
        tuple(scribe.plans),
        tuple(scribe.given),
        frozenset(scribe.own),
        tuple(scribe.visits),
        tuple(draft.visit(BEFORE_ALL, draft.settled, 0, scribe.now) for draft in scribe.open.values()),
        folded.machine.result,
        dict(folded.facts),
    )


@dataclass(slots=True)
class _Draft:
    """A visit while it is under way."""

    label: str
    step: Step | None
    plan: int
    number: int
    started: int
    begun: float
    answered: float | None = None
    """The time of the last outcome of one of its calls."""
    data: tuple[Write, ...] = ()
    control: tuple[Write, ...] = ()
    detail: str = ""
    attempts: int = 1
    failures: int = 0
    cast_failed: bool = False
    expired: bool = False
    cuts: list[str] = field(default_factory=list[str])
    stated: float | None = None
    failed_items: set[int] = field(default_factory=set[int])
    settled: Outcome = Outcome.OPEN
    """Its outcome if its calls are done and it waits for the other members of its group."""
    epoch: int = 0
    """The process in which it began."""
    has_left: bool = False
    """Whether one of its calls has left."""

    @property
    def is_loop(self) -> bool:
        """Whether its step is a FOREACH."""
        return self.step is not None and self.step.foreach is not None

    def leaves(self, row: Event, now: float) -> None:
        """Record that a call leaves; if it is the first, and in a later process, the visit begins with it."""
        if not self.has_left and row.epoch > self.epoch:
            self.begun = now
        self.has_left = True

    def visit(
        self, place: int, outcome: Outcome, tick: int, now: float, wrote: tuple[Write, ...] = ()
    ) -> Visit:
        """The visit as it was settled, with its writes."""
        return Visit(
            self.label,
            self.step,
            self.plan,
            self.number,
            outcome,
            shown_text(self.detail),
            self.data,
            self.control,
            tuple(write._replace(visit=place) for write in wrote),
            self.started,
            tick,
            max(0.0, (self.answered or now) - self.begun),
            self.attempts,
            self.failures,
            self.cast_failed,
            self.expired,
            tuple(self.cuts[:_MOST_CUTS]),
            stated=self.stated,
        )


@dataclass(slots=True)
class _Settled:
    """The outcome of a visit; that of a member of a group is held until the group is committed."""

    draft: _Draft
    outcome: Outcome
    var: str | None
    value: JSON
    now: float


@dataclass(slots=True)
class _Scribe:
    """Collects visits from the events of the journal and the notes of the machine."""

    plans: list[Plan]
    with_items: bool = False
    now: float = 0.0
    time: SteadyTime = field(default_factory=SteadyTime)
    epoch: int = 0
    tick: int = 0
    count: int = 0
    given: list[Write] = field(default_factory=list[Write])
    own: set[int] = field(default_factory=set[int])
    visits: list[Visit] = field(default_factory=list[Visit])
    open: dict[str, _Draft] = field(default_factory=dict[str, _Draft])
    early: dict[str, tuple[float, float | None]] = field(
        default_factory=dict[str, "tuple[float, float | None]"]
    )
    """For each step that started before its turn: when it started, and the time of its last outcome."""
    held: list[_Settled] = field(default_factory=list[_Settled])
    current: dict[str, Write] = field(default_factory=dict[str, Write])
    seen: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    compiled: Plan | None = None
    edits: int = 0

    # ------------------------------------------------------------ what comes by

    def watched(self, rows: Iterable[Event]) -> Iterator[Event]:
        """Pass the events on, recording each before the machine takes it."""
        for row in rows:
            self.now, self.epoch = self.time.of(row), row.epoch
            if row.type is EventType.START:
                self._begin(dict((row.body or {}).get("inputs", {})))
            elif row.type is EventType.INTENT and row.step in self.open:
                self.open[row.step].leaves(row, self.now)
            elif row.type in _OUTCOMES and row.step is not None:
                self._answered(row.step, row)
            yield row

    def _answered(self, step_id: str, row: Event) -> None:
        """Record that a call of a step has an outcome."""
        if step_id in self.open:
            draft = self.open[step_id]
            draft.answered = self.now
            if row.index is not None and row.type is EventType.ERR:
                draft.failed_items.add(row.index)
            elif row.index is not None:
                draft.failed_items.discard(row.index)
        elif step_id in self.early:
            self.early[step_id] = self.early[step_id][0], self.now

    def plan_of(self, known: PlanOf) -> PlanOf:
        """`known`, remembering the plan that it returned last: that is the one that takes over."""

        def remembered(name: str) -> Plan:
            self.compiled = known(name)
            return self.compiled

        return remembered

    def _begin(self, inputs: dict[str, JSON]) -> None:
        self._number_steps()
        for name, value in _initial(self.plans[-1]).items():
            if name not in inputs:
                self.own.add(self._write_input(name, value))
        for name, value in inputs.items():
            self._write_input(name, value)

    def _write_input(self, name: str, value: JSON) -> int:
        self.given.append(self._write(name, shown_value(value)))
        return self.count

    def _number_steps(self) -> None:
        self.numbers = {}
        for number, step in enumerate(self.plans[-1].steps):
            self.numbers.setdefault(step.id, number)

    def note(self, note: Note) -> None:
        """Take a note of the machine on the current event."""
        self.tick += 1
        match note.kind:
            case NoteKind.EARLY:
                self.early[note.step] = self.now, None
            case NoteKind.STARTED:
                self._commit_before(note.step)
                self.open[note.step] = self._draft(note.step)
            case NoteKind.SETTLED if note.step in self.open:
                self.open[note.step].settled = Outcome.FAILED if note.is_failure else Outcome.OK
            case NoteKind.SKIPPED:
                self._commit_before(note.step)
                draft = self._draft(note.step)
                draft.data, draft.detail = (), note.detail
                self._settle(draft, Outcome.SKIPPED)
            case NoteKind.FINISHED:
                draft = self.open.pop(note.step, None) or self._draft(note.step)
                self._commit_members(draft.number)
                draft.detail = draft.detail or note.detail
                self._keep(_Settled(draft, Outcome(note.outcome), note.var, note.value, self.now))
            case NoteKind.FAILED:
                self._fail(note)
            case NoteKind.JUMPED:
                self._commit_members()
            case NoteKind.REPLANNED:
                self._commit_members()
                self._plan_anew(note)
            case NoteKind.EDITED if note.var is not None:
                self._edit(note.var, note.value)
            case NoteKind.ENDED:
                self._end()
            case _:
                if note.step in self.open:
                    _remark(self.open[note.step], note)

    # ------------------------------------------------------------ visits

    def _draft(self, step_id: str) -> _Draft:
        number = self.numbers.get(step_id, BEFORE_ALL)
        step = self.plans[-1].steps[number] if number >= 0 else None
        generation = len(self.plans) - 1
        count = self.seen[generation, step_id] = self.seen.get((generation, step_id), 0) + 1
        label = f"{f'r{generation}/' if generation else ''}{step_id}{f'@{count}' if count > 1 else ''}"
        is_early = step_id in self.early
        begun, answered = self.early.pop(step_id, (self.now, None))
        draft = _Draft(label, step, generation, number, self.tick, begun, answered)
        draft.epoch, draft.has_left = self.epoch, is_early
        if step is not None:
            uses = list(uses_of(step, number))
            draft.control = self._read(u.ref.name for u in uses if u.place is Place.CONDITION)
            draft.data = self._read(u.ref.name for u in uses if u.place in (Place.SOURCE, Place.ARGUMENTS))
        return draft

    def _read(self, names: Iterable[str]) -> tuple[Write, ...]:
        return tuple(dict.fromkeys(self.current[name] for name in names if name in self.current))

    def _items(self, draft: _Draft, value: JSON) -> tuple[Item, ...]:
        """The single results of a FOREACH, if they were asked for."""
        if not self.with_items or not draft.is_loop:
            return ()
        results = value if isinstance(value, list) else []
        return tuple(Item(shown_value(item), n in draft.failed_items) for n, item in enumerate(results))

    def _write(self, name: str, text: str, *, is_error: bool = False, items: tuple[Item, ...] = ()) -> Write:
        self.count += 1
        self.current[name] = write = Write(self.count, name, text, BEFORE_ALL, is_error, items)
        return write

    def _fail(self, note: Note) -> None:
        draft = self.open.get(note.step) or self._draft(note.step)
        draft.detail = draft.detail or note.detail
        if draft.is_loop:
            draft.failures += 1  # it is settled when all of its items are
            self.open[note.step] = draft
            return
        self.open.pop(note.step, None)
        is_text = self.plans[-1].order is Order.TEXT
        output = draft.step.output if is_text and draft.step is not None else None
        is_call = draft.step is not None and draft.step.call is not None
        var = output.var if output is not None and is_call else None
        self._settle(draft, Outcome.FAILED, var, note.detail)

    def _settle(self, draft: _Draft, outcome: Outcome, var: str | None = None, value: JSON = None) -> None:
        """Record an outcome; in text order that of a group's member is held until the group is committed."""
        settled = _Settled(draft, outcome, var, value, self.now)
        if draft.step is not None and draft.step.group is not None and self.plans[-1].order is Order.TEXT:
            self.held.append(settled)
        else:
            self._keep(settled)

    def _commit_before(self, step_id: str) -> None:
        """Keep the held members of the previous group: as another step begins, it has been committed."""
        number = self.numbers.get(step_id, BEFORE_ALL)
        group = self.plans[-1].steps[number].group if number >= 0 else None
        if self.held and _group(self.held[0]) != group:
            self._commit_members()

    def _commit_members(self, before: int | None = None) -> None:
        """Keep the held members of a group in text order; with `before` only those before that step."""
        self.held.sort(key=lambda settled: settled.draft.number)
        due = [s for s in self.held if before is None or s.draft.number < before]
        del self.held[: len(due)]
        for settled in due:
            self._keep(settled)

    def _keep(self, settled: _Settled) -> None:
        draft, outcome = settled.draft, settled.outcome
        wrote: tuple[Write, ...] = ()
        if settled.var is not None:
            is_error = outcome is Outcome.FAILED and not draft.is_loop
            items = self._items(draft, settled.value)
            wrote = (self._write(settled.var, shown_value(settled.value), is_error=is_error, items=items),)
        self._add(draft.visit(len(self.visits), outcome, self.tick, settled.now, wrote))

    def _add(self, visit: Visit) -> None:
        self.visits.append(visit)
        self.current.update((write.var, write) for write in visit.wrote)

    def _plan_anew(self, note: Note) -> None:
        """Record that a new plan takes over; it keeps all variables and may set some itself."""
        assert self.compiled is not None
        carried = tuple(self.current.values())
        self.plans.append(self.compiled)
        self._number_steps()
        wrote = tuple(self._write(name, shown_value(v)) for name, v in _initial(self.compiled).items())
        draft = _Draft(f"r{len(self.plans) - 1}", None, len(self.plans) - 1, BEFORE_ALL, self.tick, self.now)
        draft.detail, draft.data = f"made a new plan, {note.detail}", carried
        self._add(draft.visit(len(self.visits), Outcome.OK, self.tick, self.now, wrote))

    def _edit(self, name: str, value: JSON) -> None:
        """Record that somebody has set a variable by hand."""
        self.edits += 1
        generation = len(self.plans) - 1
        draft = _Draft(f"edit{self.edits}", None, generation, BEFORE_ALL, self.tick, self.now)
        draft.detail = f"set ${shown_text(name, MOST_OF_A_NAME)} by hand"
        wrote = (self._write(name, shown_value(value)),)
        visit = draft.visit(len(self.visits), Outcome.OK, self.tick, self.now, wrote)
        self._add(replace(visit, is_edit=True))

    def _end(self) -> None:
        self._commit_members()
        for draft in self.open.values():
            outcome = Outcome.FAILED if draft.failures else Outcome.STOPPED
            self._keep(_Settled(draft, outcome, None, None, self.now))
        self.open.clear()


def _group(settled: _Settled) -> int | None:
    return settled.draft.step.group if settled.draft.step is not None else None


def _remark(draft: _Draft, note: Note) -> None:
    """Record what a note says apart from the outcome."""
    match note.kind:
        case NoteKind.RETRYING:
            draft.attempts += 1
        case NoteKind.CAST_FAILED:
            draft.cast_failed = True
        case NoteKind.CUT:
            draft.cuts.append(shown_text(note.detail))
        case NoteKind.FACT if (match := _STATED.search(note.detail)) is not None:
            draft.stated = min(float(match[1]), 1.0 if draft.stated is None else draft.stated)
        case NoteKind.ANSWERED:
            draft.expired = note.detail == _EXPIRED
        case _:
            pass


def _initial(plan: Plan) -> dict[str, JSON]:
    """The values of the variables that the plan itself sets."""
    return {name: compile_value(value, lambda _: 0)([None]) for name, value in plan.variables}
