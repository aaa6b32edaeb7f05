"""Makes the record of a run from the events of its journal.

The journal is folded through the machine, whose notes on each step are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from callsheet import lazy
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
from callsheet.trace.visits import Visit as Seen
from callsheet.trace.visits import Visits

_MOST_CUTS = 3
_EXPIRED = "expire"
STATED = "stated confidence"
"""The name of the remark with which an agent states its confidence in an answer, from 0 to 1."""
_STATED = lazy.pattern(rf"(?:^|: ){STATED}: ([0-9.]+)$")


def record_of(plan: Plan, events: Iterable[Event], plan_of: PlanOf, *, with_items: bool = False) -> Record:
    """The record of a run from its first event on; the events may end anywhere.

    With `with_items` the record has the single results of each FOREACH. Raises JournalError (JRN020) if this
    version cannot read the events.
    """
    if plan.tree is not None:
        from callsheet.trace.projection.block_recording import record_of_blocks  # noqa: PLC0415 - version 2

        return record_of_blocks(plan, events, plan_of, with_items=with_items)
    scribe = _Scribe(Visits(plan, plan_of), with_items)
    folded = fold(plan, scribe.watched(events), plan_of, scribe.note)
    return Record(
        tuple(scribe.seen.plans),
        tuple(scribe.given),
        frozenset(scribe.own),
        tuple(scribe.visits),
        tuple(draft.visit(BEFORE_ALL, draft.so_far, 0, scribe.seen.now) for draft in scribe.open.values()),
        folded.machine.result,
        dict(folded.facts),
    )


@dataclass(slots=True)
class _Draft:
    """A visit while it is under way: what it has read and when, and the first reason for its outcome."""

    seen: Seen
    started: int
    data: tuple[Write, ...] = ()
    control: tuple[Write, ...] = ()
    detail: str = ""
    label: str = ""
    """Its name, if it is not that of a step."""
    failures: int = 0
    is_edit: bool = False

    @property
    def step(self) -> Step | None:
        """Its step; None if no step of the plan made it."""
        return self.seen.definition

    @property
    def so_far(self) -> Outcome:
        """Its outcome if its calls are done and it waits for the other members of its group."""
        return Outcome.OPEN if self.seen.ended is None else Outcome(self.seen.outcome)

    @property
    def is_loop(self) -> bool:
        """Whether its step is a FOREACH."""
        return self.step is not None and self.step.foreach is not None

    def visit(
        self, place: int, outcome: Outcome, tick: int, now: float, wrote: tuple[Write, ...] = ()
    ) -> Visit:
        """The visit as it was settled, with its writes."""
        seen = self.seen
        stated = [float(match[1]) for fact in seen.facts if (match := _STATED.search(fact)) is not None]
        return Visit(
            self.label or seen.label,
            self.step,
            seen.plan,
            seen.number,
            outcome,
            shown_text(self.detail),
            self.data,
            self.control,
            tuple(write._replace(visit=place) for write in wrote),
            self.started,
            tick,
            max(0.0, (now if seen.answered is None else seen.answered) - seen.started),
            seen.retries + 1,
            self.failures,
            seen.cast_failed,
            seen.answers[-1:] == [_EXPIRED],
            tuple(map(shown_text, seen.cuts[:_MOST_CUTS])),
            self.is_edit,
            min([1.0, *stated]) if stated else None,
            items=seen.items,
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
    """Orders the visits of a run by their commitment, and follows what they read and wrote."""

    seen: Visits
    with_items: bool = False
    tick: int = 0
    count: int = 0
    given: list[Write] = field(default_factory=list[Write])
    own: set[int] = field(default_factory=set[int])
    visits: list[Visit] = field(default_factory=list[Visit])
    open: dict[str, _Draft] = field(default_factory=dict[str, _Draft])
    held: list[_Settled] = field(default_factory=list[_Settled])
    current: dict[str, Write] = field(default_factory=dict[str, Write])
    edits: int = 0

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.seen.plans[-1]

    # ------------------------------------------------------------ what comes by

    def watched(self, rows: Iterable[Event]) -> Iterator[Event]:
        """Pass the events on, each recorded before the machine takes it."""
        for row in self.seen.watched(rows):
            if row.type is EventType.START:
                self._begin(dict((row.body or {}).get("inputs", {})))
            yield row

    def _begin(self, inputs: dict[str, JSON]) -> None:
        for name, value in _initial(self.plan).items():
            if name not in inputs:
                self.own.add(self._write_input(name, value))
        for name, value in inputs.items():
            self._write_input(name, value)

    def _write_input(self, name: str, value: JSON) -> int:
        self.given.append(self._write(name, shown_value(value)))
        return self.count

    def note(self, note: Note) -> None:
        """Take a note of the machine on the current event."""
        self.tick += 1
        seen, step = self.seen.note(note), note.step
        match note.kind:
            case NoteKind.STARTED if seen is not None:
                self._commit_before(seen)
                self.open[step] = self._draft(seen)
            case NoteKind.SKIPPED if seen is not None:
                self._commit_before(seen)
                draft = self._draft(seen)
                draft.data, draft.detail = (), note.detail
                self._settle(draft, Outcome.SKIPPED)
            case NoteKind.FINISHED if seen is not None:
                draft = self.open.pop(step, None) or self._draft(seen)
                self._commit_members(seen.number)
                draft.detail = draft.detail or note.detail
                self._keep(_Settled(draft, Outcome(note.outcome), note.var, note.value, self.seen.now))
            case NoteKind.FAILED if seen is not None:
                self._fail(self.open.get(step) or self._draft(seen), note)
            case NoteKind.JUMPED:
                self._commit_members()
            case NoteKind.REPLANNED:
                self._commit_members()
                self._plan_anew(note)
            case NoteKind.EDITED if seen is not None and note.var is not None:
                self._edit(seen, note.var, note.value)
            case NoteKind.ENDED:
                self._end()
            case _:
                pass

    # ------------------------------------------------------------ visits

    def _draft(self, seen: Seen) -> _Draft:
        draft = _Draft(seen, self.tick)
        if seen.definition is not None:
            uses = list(uses_of(seen.definition, seen.number))
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
        return tuple(Item(shown_value(item), n in draft.seen.failed_at) for n, item in enumerate(results))

    def _write(self, name: str, text: str, *, is_error: bool = False, items: tuple[Item, ...] = ()) -> Write:
        self.count += 1
        self.current[name] = write = Write(self.count, name, text, BEFORE_ALL, is_error, items)
        return write

    def _fail(self, draft: _Draft, note: Note) -> None:
        draft.detail = draft.detail or note.detail
        if draft.is_loop:
            draft.failures += 1  # it is settled when all of its items are
            self.open[note.step] = draft
            return
        self.open.pop(note.step, None)
        is_text = self.plan.order is Order.TEXT
        output = draft.step.output if is_text and draft.step is not None else None
        is_call = draft.step is not None and draft.step.call is not None
        var = output.var if output is not None and is_call else None
        self._settle(draft, Outcome.FAILED, var, note.detail)

    def _settle(self, draft: _Draft, outcome: Outcome, var: str | None = None, value: JSON = None) -> None:
        """Record an outcome; in text order that of a group's member is held until the group is committed."""
        settled = _Settled(draft, outcome, var, value, self.seen.now)
        if draft.step is not None and draft.step.group is not None and self.plan.order is Order.TEXT:
            self.held.append(settled)
        else:
            self._keep(settled)

    def _commit_before(self, seen: Seen) -> None:
        """Keep the held members of the previous group: as another step begins, it has been committed."""
        group = None if seen.definition is None else seen.definition.group
        if self.held and _group(self.held[0]) != group:
            self._commit_members()

    def _commit_members(self, before: int | None = None) -> None:
        """Keep the held members of a group in text order; with `before` only those before that step."""
        self.held.sort(key=lambda settled: settled.draft.seen.number)
        due = [s for s in self.held if before is None or s.draft.seen.number < before]
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
        carried, number = tuple(self.current.values()), len(self.seen.plans) - 1
        wrote = tuple(self._write(name, shown_value(v)) for name, v in _initial(self.plan).items())
        label, detail = f"r{number}", f"made a new plan, {note.detail}"
        seen = Seen(label, self.seen.now, plan=number)
        self._add_whole(_Draft(seen, self.tick, carried, detail=detail, label=label), wrote)

    def _edit(self, seen: Seen, name: str, value: JSON) -> None:
        """Record that somebody has set a variable by hand."""
        self.edits += 1
        detail = f"set ${shown_text(name, MOST_OF_A_NAME)} by hand"
        wrote = (self._write(name, shown_value(value)),)
        self._add_whole(
            _Draft(seen, self.tick, detail=detail, label=f"edit{self.edits}", is_edit=True), wrote
        )

    def _add_whole(self, draft: _Draft, wrote: tuple[Write, ...]) -> None:
        """Add what begins and ends with the current note."""
        self._add(draft.visit(len(self.visits), Outcome.OK, self.tick, self.seen.now, wrote))

    def _end(self) -> None:
        self._commit_members()
        for draft in self.open.values():
            outcome = Outcome.FAILED if draft.failures else Outcome.STOPPED
            self._keep(_Settled(draft, outcome, None, None, self.seen.now))
        self.open.clear()


def _group(settled: _Settled) -> int | None:
    return settled.draft.step.group if settled.draft.step is not None else None


def _initial(plan: Plan) -> dict[str, JSON]:
    """The values of the variables that the plan itself sets."""
    return {name: compile_value(value, lambda _: 0)([None]) for name, value in plan.variables}
