"""Makes the record of a run of a plan with blocks, from its lineage and the visits that took time.

In: the plan and the events of its journal. Out: a Record. A call, a loop, a sub-plan and each statement that
sets a variable or ends the plan is a visit in it. What has no variable of its own (the member of a loop, a
YIELD, an input of a sub-plan) is left out: what it was made of takes its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from callsheet.ir import Plan
from callsheet.ir.tree import Act, Assign, Compute, Foreach, Invoke, Let, Say, Statement, Word
from callsheet.machine import ToolFacts
from callsheet.machine.notes import Note, StepOutcome
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.store.errors import JournalError
from callsheet.store.events import Event
from callsheet.store.records import PlanOf
from callsheet.trace.lineage.blocks import DATA, NO_REASONS, TreeLineage, word_of_statement
from callsheet.trace.lineage.lineage import NONE, Node, ValueSource
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

_STATED = (ValueSource.STEP, ValueSource.ERROR, ValueSource.USE)
"""The sources of values that a visit of the record has written."""
_SAYING = {Word.RESPOND: "answered", Word.TERMINATE: "ended the plan"}
_LAST_CUTS = 3


def record_of_blocks(
    plan: Plan, events: Iterable[Event], plan_of: PlanOf, *, with_items: bool = False
) -> Record:
    """The record of a run of a plan with blocks; as `recording.record_of`."""
    seen: defaultdict[str, list[Seen]] = defaultdict(list)
    visits = Visits(plan, plan_of, lambda one: seen[one.step].append(one))

    def note(note: Note) -> None:
        visits.note(note)

    rows = iter(events)
    first = next(rows, None)
    if first is None:
        raise JournalError("JRN020", "the run has no events", hint="it was never started")
    recorder = attending(plan, entry_of(first), note)
    visits.sees(first)
    recorder.begin(entry_of(first))
    for row in rows:
        visits.sees(row)
        recorder.add(entry_of(row), plan_of)
    lineage = recorder.done(None)
    assert isinstance(lineage, TreeLineage)
    facts = {**OWN_FACTS, **recorder.rules.facts}
    return _Maker(lineage, seen, visits.now, with_items).record(facts)


class _Maker:
    """Makes a record from a lineage; `seen` are the visits that the machine has told of, by their paths."""

    def __init__(
        self, lineage: TreeLineage, seen: dict[str, list[Seen]], now: float, with_items: bool
    ) -> None:
        self._lineage, self._seen, self._now, self._with_items = lineage, seen, now, with_items
        self._writes: dict[int, Write] = {}
        """The writes of the record, by their numbers in the lineage."""
        self._sources: dict[int, tuple[int, ...]] = {}
        self._wrote: defaultdict[int, list[Made]] = defaultdict(list)
        self._result = lineage.machine.result

    def record(self, facts: dict[str, ToolFacts]) -> Record:
        """The record."""
        lineage = self._lineage
        given: list[Write] = []
        own: set[int] = set()
        edits: list[Made] = []
        for write in lineage.writes:
            if write.visit == NONE and write.made in (ValueSource.INPUT, ValueSource.PLAN):
                if not write.place:
                    given.append(self._write(write))
                    own.update({given[-1].number} if write.made is ValueSource.PLAN else ())
            elif write.made is ValueSource.EDIT:
                edits.append(write)
            elif write.made in _STATED and self._is_shown(write):
                self._wrote[write.visit].append(write)
        settled = [visit for visit in lineage.visits if self._counts(visit) and visit.id in lineage.settled]
        settled.sort(key=lambda visit: lineage.settled[visit.id])
        rows: list[Visit] = [self._edit(number, write) for number, write in enumerate(edits, 1)]
        for visit in settled:
            rows.append(self._visit(visit, len(rows)))
        open_visits = [one for one in lineage.visits if self._counts(one) and one.id not in lineage.settled]
        under_way = tuple(self._visit(visit, BEFORE_ALL) for visit in open_visits)
        plans = tuple(program.plan for program in lineage.programs)
        if self._result is not None:
            rows += (visit for visit in under_way)
            under_way = ()
        numbers = {write.number: number for number, write in self._writes.items()}
        return Record(
            plans, tuple(given), frozenset(own), tuple(rows), under_way, self._result, facts, numbers
        )

    def _is_shown(self, write: Made) -> bool:
        """Whether a write is that of a variable which the visit itself sets, not of a sub-plan's input."""
        if write.visit == NONE:
            return False
        visit = self._lineage.visits[write.visit]
        statement = self._lineage.site(visit).statement
        return not isinstance(statement, Invoke) or write.place == visit.path[: visit.path.rfind("/") + 1]

    def _counts(self, visit: Begun) -> bool:
        """Whether a visit is one of the record."""
        site = self._lineage.site(visit)
        match site.statement:
            case Act() | Invoke() | Foreach() | Let() | Assign() | Compute():
                return site.id == site.statement.id  # not the clock that it reads
            case Say(word=word):
                return word in _SAYING or visit.id in self._lineage.failed
            case _:
                return visit.id in self._lineage.failed

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
        found = (source for number in numbers for source in self._behind(number))
        return tuple(self._writes[number] for number in dict.fromkeys(found) if number in self._writes)

    def _behind(self, number: int) -> tuple[int, ...]:
        known = self._sources.get(number)
        if known is not None:
            return known
        if number in self._writes:
            return (number,)
        self._sources[number] = ()
        parts = [part.flow.node.write for part in self._lineage.parts_of(number)]
        found = tuple(dict.fromkeys(each for one in parts if one != NONE for each in self._behind(one)))
        self._sources[number] = found
        return found

    # ------------------------------------------------------------ visits

    def _visit(self, visit: Begun, place: int) -> Visit:
        lineage = self._lineage
        site, step = lineage.site(visit), lineage.step(visit)
        told = self._told(visit)
        data = self._data(visit)
        reasons = lineage.reasons.get(visit.id, NO_REASONS)
        conditions = [flow.node.write for flow in lineage.because(visit) if flow.node.write != NONE]
        conditions += [node.write for node in _tested(lineage, visit)]
        control = self._read([*conditions, *reasons.failures])
        is_whole = isinstance(site.statement, Foreach | Invoke)
        failure = next((one.error for one in lineage.failures if one.visit == visit.id), "")
        outcome = self._outcome(visit, told)
        end = lineage.settled.get(visit.id, lineage.began[-1] + 1)
        wrote = tuple(self._write(one, place, self._items(one, told)) for one in self._wrote[visit.id])
        return Visit(
            lineage.label(visit), step, 0, visit.number, outcome,
            shown_text(failure or ("" if told is None else told.detail)), data, control, wrote,
            end if is_whole else lineage.began[visit.id], end, self._seconds(told),
            1 if told is None else told.retries + 1, 0,
            expired=told is not None and told.answers[-1:] == ["expire"],
            cuts=() if told is None else tuple(map(shown_text, told.cuts[:_LAST_CUTS])),
            word=word_of_statement(site.statement), deed=_deed(site.statement),
            items=0 if told is None else told.items, is_unused=told is not None and told.is_unused,
        )  # fmt: skip

    def _told(self, visit: Begun) -> Seen | None:
        told = self._seen.get(visit.path, ())
        return told[visit.visit - 1] if len(told) >= visit.visit else None

    def _seconds(self, told: Seen | None) -> float:
        if told is None:
            return 0.0
        end = told.ended if told.ended is not None else self._now
        return max(0.0, end - told.started)

    def _outcome(self, visit: Begun, told: Seen | None) -> Outcome:
        if visit.id not in self._lineage.settled:
            return Outcome.OPEN if self._result is None else Outcome.STOPPED
        if told is not None and told.outcome == StepOutcome.STOPPED:
            return Outcome.STOPPED
        return Outcome.FAILED if visit.id in self._lineage.failed else Outcome.OK

    def _data(self, visit: Begun) -> tuple[Write, ...]:
        """What a visit made its value or its call of."""
        lineage = self._lineage
        numbers = [flow.node.write for flow in lineage.own_flows(visit) if flow.role in DATA]
        for write in self._wrote[visit.id]:
            numbers += [part.flow.node.write for part in lineage.parts_of(write.id)]
        return self._read(number for number in numbers if number != NONE)

    def _items(self, write: Made, told: Seen | None) -> tuple[Item, ...]:
        statement = self._lineage.site(self._lineage.visits[write.visit]).statement
        if not self._with_items or not isinstance(statement, Foreach) or not isinstance(write.value, list):
            return ()
        return tuple(Item(shown_value(one), False) for one in write.value)

    def _edit(self, number: int, write: Made) -> Visit:
        made = self._write(write, number - 1)
        detail = f"set ${shown_text(write.name, MOST_OF_A_NAME)} by hand"
        return Visit(f"edit{number}", None, 0, NONE, Outcome.OK, detail, wrote=(made,), is_edit=True)


def _tested(lineage: TreeLineage, visit: Begun) -> Iterator[Node]:
    """What the condition of a visit itself read."""
    return (
        flow.node
        for flow in lineage.own_flows(visit)
        if flow.role is Role.CONDITION and flow.node.write != NONE
    )


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
