"""Makes the record of a run from the events of its journal: of its lineage, and of what its visits tell.

In: the plan and the events. Out: a Record. Each visit of a step of version 1 is one of the record. Of a plan
with blocks these are calls, loops, sub-plans and each statement that sets a variable, fails or ends the plan.
What has no variable of its own (the member of a loop, a YIELD, an input of a sub-plan) is left out: what it
was made of takes its place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from operator import itemgetter

from callsheet import lazy
from callsheet.ir import Plan
from callsheet.ir.flow import Place, uses_of
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.tree import Act, Assign, Compute, Foreach, Invoke, Let, Say, Statement, Word
from callsheet.machine import ToolFacts
from callsheet.machine.notes import Note, NoteKind, StepOutcome
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.store.errors import JournalError
from callsheet.store.events import Event, EventType
from callsheet.store.records import PlanOf
from callsheet.store.start import facts_from_json
from callsheet.trace.lineage.blocks import DATA, NO_REASONS, TreeLineage, word_of_statement
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.lineage.lineage import Visit as Begun
from callsheet.trace.lineage.lineage import Write as Made
from callsheet.trace.lineage.reads import Role
from callsheet.trace.lineage.record import attending, entry_of
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

_MADE = (ValueSource.STEP, ValueSource.ERROR, ValueSource.USE)
"""The sources of values that a visit of the record has written."""
_SAYING = {Word.RESPOND: "answered", Word.TERMINATE: "ended the plan"}
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
    rows = iter(events)
    first = next(rows, None)
    if first is None:
        raise JournalError("JRN020", "the run has no events", hint="it was never started")
    with gc_paused(True):
        listener = _Listener(plan, plan_of)
        listener.visits.sees(first)
        recorder = attending(plan, entry_of(first), listener.note)
        listener.lineage = recorder.lineage
        recorder.begin(entry_of(first))
        facts = {**OWN_FACTS, **recorder.rules.facts}
        for row in rows:
            listener.visits.sees(row)
            recorder.add(entry_of(row), plan_of)
            if row.type is EventType.PLAN:
                facts |= facts_from_json((row.body or {})["facts"])
        recorder.done(None)
        return _Maker(listener, with_items).record(facts)


class _Listener:
    """Hears each note after the lineage has recorded it, and keeps what the visits tell beside that."""

    lineage: Lineage

    def __init__(self, plan: Plan, plan_of: PlanOf) -> None:
        self.visits = Visits(plan, plan_of, lambda one: self._at[one.step].append(one))
        self.ended = 0.0
        """When the run ended; late answers may follow."""
        self.failed: dict[int, Seen] = {}
        """The vain requests for a new plan, by their place in `Lineage.beside`."""
        self._of: dict[int, Seen] = {}
        """By the visit of the lineage, for a plan of version 1."""
        self._at: defaultdict[str, list[Seen]] = defaultdict(list)
        """By the path, for a plan with blocks."""

    def note(self, note: Note) -> None:
        """Take a note of the machine on the current event."""
        seen, lineage = self.visits.note(note), self.lineage
        if note.kind is NoteKind.ENDED:
            self.ended = self.visits.now
        if seen is None or isinstance(lineage, TreeLineage):
            return
        if note.kind is NoteKind.STARTED or note.kind is NoteKind.SKIPPED:
            self._of[len(lineage.visits) - 1] = seen
        elif note.kind is NoteKind.FAILED and lineage.failures[-1].visit == NONE:
            self.failed[len(lineage.beside) - 1] = seen

    def told(self, visit: Begun) -> Seen | None:
        """What is told of a visit of the lineage; None for a statement that only sets or ends something."""
        if not visit.path:
            return self._of.get(visit.id)
        told = self._at.get(visit.path, ())
        return told[visit.visit - 1] if len(told) >= visit.visit else None


class _Maker:
    """Makes a record from a lineage and what its visits tell."""

    def __init__(self, listener: _Listener, with_items: bool) -> None:
        self._listener, self._lineage, self._with_items = listener, listener.lineage, with_items
        self._writes: dict[int, Write] = {}
        """The writes of the record, by their numbers in the lineage."""
        self._sources: dict[int, tuple[int, ...]] = {}
        self._wrote: defaultdict[int, list[Made]] = defaultdict(list)
        self._edits = 0
        self._errors: dict[int, str] = {}
        """The first failure of each visit."""
        for failure in self._lineage.failures:
            self._errors.setdefault(failure.visit, failure.error)
        self._failures = Counter(failure.visit for failure in self._lineage.failures)

    def record(self, facts: Mapping[str, ToolFacts]) -> Record:
        """The record."""
        lineage = self._lineage
        initial = self._initial()
        given = tuple(map(self._write, initial))
        own = frozenset(self._writes[one.id].number for one in initial if one.made is ValueSource.PLAN)
        for write in lineage.writes:
            if write.made in _MADE and self._is_shown(write):
                self._wrote[write.visit].append(write)
        visits = [lineage.visits[number] for number in lineage.settled]
        happened: list[tuple[int, Begun | int]] = [
            (lineage.settled[visit.id], visit) for visit in visits if self._counts(visit)
        ]
        happened += ((one.tick, place) for place, one in enumerate(lineage.beside))
        happened.sort(key=itemgetter(0))
        rows: list[Visit] = []
        for _, one in happened:
            place = len(rows)
            rows.append(self._beside(one, place) if isinstance(one, int) else self._visit(one, place))
        under_way = tuple(self._visit(visit, BEFORE_ALL) for visit in lineage.visits if self._is_open(visit))
        result = lineage.machine.result
        if result is not None:
            rows += under_way
            under_way = ()
        numbers = {write.number: number for number, write in self._writes.items()}
        plans = tuple(program.plan for program in lineage.programs)
        return Record(plans, given, own, tuple(rows), under_way, result, facts, numbers)

    def _initial(self) -> list[Made]:
        """The writes from before the first step; a value of the plan is none where an input replaces it."""
        later = {number for one in self._lineage.beside for number in one.wrote}
        first = [write for write in self._lineage.writes if write.visit == NONE and write.id not in later]
        inputs = {write.name for write in first if write.made is ValueSource.INPUT}
        return [
            write
            for write in first
            if write.made is ValueSource.INPUT
            or (write.made is ValueSource.PLAN and write.name not in inputs and not write.place)
        ]

    def _is_shown(self, write: Made) -> bool:
        """Whether a write is that of a variable which the visit itself sets, not of a sub-plan's input."""
        if write.visit == NONE:
            return False
        visit = self._lineage.visits[write.visit]
        statement = self._statement(visit)
        return not isinstance(statement, Invoke) or write.place == visit.path[: visit.path.rfind("/") + 1]

    def _statement(self, visit: Begun) -> Statement | None:
        """The statement of a visit; None for a step of version 1."""
        return self._lineage.site(visit).statement if isinstance(self._lineage, TreeLineage) else None

    def _counts(self, visit: Begun) -> bool:
        """Whether a visit is one of the record."""
        if not isinstance(self._lineage, TreeLineage):
            return True
        site = self._lineage.site(visit)
        match site.statement:
            case Act() | Invoke() | Foreach() | Let() | Assign() | Compute():
                return site.id == site.statement.id  # not the clock that it reads
            case Say(word=word):
                return word in _SAYING or visit.id in self._lineage.failed
            case _:
                return visit.id in self._lineage.failed

    def _is_open(self, visit: Begun) -> bool:
        """Whether a visit of the record is under way; one that waits for its group only is none."""
        lineage = self._lineage
        if visit.id in lineage.settled or not self._counts(visit):
            return False
        is_over = visit.skipped or (visit.id in lineage.failed and lineage.step(visit).foreach is None)
        return isinstance(lineage, TreeLineage) or not is_over

    # ------------------------------------------------------------ writes

    def _write(self, write: Made, visit: int = BEFORE_ALL, items: tuple[Item, ...] = ()) -> Write:
        made = Write(
            len(self._writes) + 1, write.name, shown_value(write.value), visit,
            write.made is ValueSource.ERROR, items,
        )  # fmt: skip
        self._writes[write.id] = made
        return made

    def _read(self, numbers: Iterable[int]) -> tuple[Write, ...]:
        """The writes of the record that these of the lineage are, or were made of."""
        found = (source for number in numbers if number != NONE for source in self._behind(number))
        return tuple(self._writes[number] for number in dict.fromkeys(found) if number in self._writes)

    def _behind(self, number: int) -> tuple[int, ...]:
        known = self._sources.get(number)
        if known is not None:
            return known
        if number in self._writes or not isinstance(self._lineage, TreeLineage):
            return (number,)
        self._sources[number] = ()
        parts = [part.flow.node.write for part in self._lineage.parts_of(number)]
        found = tuple(dict.fromkeys(each for one in parts if one != NONE for each in self._behind(one)))
        self._sources[number] = found
        return found

    # ------------------------------------------------------------ visits

    def _visit(self, visit: Begun, place: int) -> Visit:
        lineage, told = self._lineage, self._listener.told(visit)
        step, statement = lineage.step(visit), self._statement(visit)
        data, control = self._reads(visit)
        is_whole = isinstance(statement, Foreach | Invoke)
        end = lineage.settled.get(visit.id, lineage.began[-1] + 1)
        failures = self._failures[visit.id] if step.foreach is not None else 0
        detail = self._errors.get(visit.id) or visit.skipped or lineage.stopped.get(visit.id, "")
        if not detail and told is not None and statement is not None:
            detail = told.detail
        wrote = tuple(self._write(one, place, self._items(one, told)) for one in self._wrote[visit.id])
        return Visit(
            told.label if told is not None and statement is None else lineage.label(visit),
            step, visit.program, visit.number,
            self._outcome(visit, told, failures), shown_text(detail), data, control, wrote,
            end if is_whole else lineage.began[visit.id], end, self._seconds(told),
            1 if told is None else told.retries + 1, failures,
            cast_failed=told is not None and told.cast_failed,
            expired=told is not None and told.answers[-1:] == [_EXPIRED],
            cuts=() if told is None else tuple(map(shown_text, told.cuts[:_MOST_CUTS])),
            stated=None if told is None else _stated(told.facts),
            word="" if statement is None else word_of_statement(statement),
            deed="" if statement is None else _deed(statement),
            items=0 if told is None else told.items, is_unused=told is not None and told.is_unused,
            begun=visit.id,
        )  # fmt: skip

    def _seconds(self, told: Seen | None) -> float:
        if told is None:
            return 0.0
        end = told.answered if told.ended is None else told.ended
        if end is None:
            is_over = self._lineage.machine.result is not None
            end = self._listener.ended if is_over else self._listener.visits.now
        return max(0.0, end - told.started)

    def _outcome(self, visit: Begun, told: Seen | None, failures: int) -> Outcome:
        lineage = self._lineage
        if visit.id not in lineage.settled:
            if lineage.machine.result is not None:
                return Outcome.FAILED if failures else Outcome.STOPPED
            is_over = visit.path == "" and told is not None and told.ended is not None
            return Outcome(told.outcome) if told is not None and is_over else Outcome.OPEN
        if told is not None and (told.outcome == StepOutcome.STOPPED or not visit.path):
            return Outcome(told.outcome)
        return Outcome.FAILED if visit.id in lineage.failed else Outcome.OK

    def _reads(self, visit: Begun) -> tuple[tuple[Write, ...], tuple[Write, ...]]:
        """What a visit made its value or its call of, and what led to it."""
        lineage = self._lineage
        if not isinstance(lineage, TreeLineage):
            read = defaultdict[Place, list[int]](list)
            for use in uses_of(lineage.step(visit), visit.number):
                read[use.place].append(lineage.version(visit, use.ref.name))
            data = [] if visit.skipped else [*read[Place.SOURCE], *read[Place.ARGUMENTS]]
            return self._read(data), self._read(read[Place.CONDITION])
        own = [*lineage.own_flows(visit)]
        numbers = [flow.node.write for flow in own if flow.role in DATA]
        for write in self._wrote[visit.id]:
            numbers += [part.flow.node.write for part in lineage.parts_of(write.id)]
        led = [flow.node.write for flow in lineage.because(visit)]
        led += [flow.node.write for flow in own if flow.role is Role.CONDITION]
        return self._read(numbers), self._read([*led, *lineage.reasons.get(visit.id, NO_REASONS).failures])

    def _items(self, write: Made, told: Seen | None) -> tuple[Item, ...]:
        """The single results of a FOREACH, if they were asked for."""
        visit = self._lineage.visits[write.visit]
        is_loop = self._lineage.step(visit).foreach is not None or isinstance(self._statement(visit), Foreach)
        if not self._with_items or not is_loop or not isinstance(write.value, list):
            return ()
        failed = set[int]() if told is None else told.failed_at
        return tuple(Item(shown_value(item), number in failed) for number, item in enumerate(write.value))

    def _beside(self, number: int, place: int) -> Visit:
        """What no step did, as a visit of its own."""
        one = self._lineage.beside[number]
        wrote = tuple(self._write(self._lineage.writes[write], place) for write in one.wrote)
        told, outcome = self._listener.failed.get(number), Outcome.OK
        is_edit = one.made is ValueSource.EDIT
        if is_edit:
            self._edits += 1
            label, detail = f"edit{self._edits}", f"set ${shown_text(wrote[0].var, MOST_OF_A_NAME)} by hand"
        elif told is None:
            label, detail = f"r{one.program}", f"made a new plan, {one.detail}"
        else:
            label, detail, outcome = told.label, one.detail, Outcome.FAILED
        return Visit(
            label, None, one.program, NONE, outcome, shown_text(detail), self._read(one.carried),
            wrote=wrote, started=one.tick, settled=one.tick, seconds=self._seconds(told),
            attempts=1 if told is None else told.retries + 1, is_edit=is_edit,
        )  # fmt: skip


def _stated(facts: Iterable[str]) -> float | None:
    """The least confidence that an agent has stated, at most 1; None if it has stated none."""
    stated = [float(match[1]) for fact in facts if (match := _STATED.search(fact)) is not None]
    return min([1.0, *stated]) if stated else None


def _deed(statement: Statement) -> str:
    """What a statement does, in words; "" for a call, of which its tool tells."""
    match statement:
        case Act():
            return ""
        case Compute(into=names):
            return f"computed {', '.join(f'${name}' for name in names) or 'nothing that is kept'}"
        case Invoke(plan=plan):
            return f"called the sub-plan {plan}"
        case Foreach(var=var):
            return f"went through the items ${var}"
        case Let(name=name):
            return f"set ${name}"
        case Assign(name=name):
            return f"changed ${name}"
        case Say(word=word):
            return _SAYING.get(word, word.value)
        case _:
            return f"tested {word_of_statement(statement)}"
