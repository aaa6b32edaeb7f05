"""The lineage of a run, recorded while its journal is folded through the machine.

In: the entries of a journal. Out: a Lineage. The machine says what happens, and when; nothing here knows what
a plan means. What a step reads are the versions that its variables have when its turn comes: nothing is set
while it is under way that it can see.
"""

from __future__ import annotations

from collections.abc import Iterable

from callsheet.ir import JSON, Order, Plan
from callsheet.ir.collecting import collector_rests
from callsheet.machine import Failed, Finish, Started, Status, Succeeded
from callsheet.machine.frames import Group
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import NOWHERE
from callsheet.sealing.sealer import SEALED
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry, EventType
from callsheet.store.records import PlanOf, event_of
from callsheet.store.replay import begin, start_from
from callsheet.trace.lineage.lineage import ANSWER, NONE, Failure, Lineage, Made, Outcome, Visit, Write
from callsheet.trace.lineage.reads import literal

_ONE_NAME = 1
_WORDS = (EventType.DECIDED, EventType.SIGNAL)


def lineage_of(plan: Plan, entries: Iterable[Entry], plan_of: PlanOf, upto: int | None = None) -> Lineage:
    """The lineage of a run, or of its events up to the number `upto`.

    Raises JournalError (JRN020) where the events do not begin with a start, or cannot be read.
    """
    with collector_rests(True):
        rest = iter(entries)
        first = next(rest, None)
        if first is None:
            raise JournalError("JRN020", "the run has no events", way_out="it was never started")
        recorder = _Recorder(plan, first)
        for entry in rest:
            if upto is not None and entry.seq > upto:
                break
            recorder.take(entry, plan_of)
        return recorder.done(upto)


class _Recorder:
    """Notes what the machine says while it is told of the events of a run."""

    def __init__(self, plan: Plan, first: Entry) -> None:
        try:
            start = start_from(first.type, first.body)
            machine = begin(plan, start, self.note).machine
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(first, error) from error
        self.machine = machine
        self._is_veiled = start.is_veiled
        self.lineage = Lineage(machine, [machine.program], [first.seq])
        self.seq = first.seq
        self._open: dict[int, int] = {}
        """The last visit of each step of the program, by number."""
        self._unstored: list[int] = []
        """Visits of a group that have failed: their errors are stored when the group is done."""
        self._group: Group | None = None
        """That group."""
        self._odd: set[int] = set()
        self._last = NONE
        """The write of the last step that was done."""
        self._set_initial()
        for name, value in start.inputs.items():
            self._write(name, value, Made.INPUT)
        self._feed_start(first, start.inputs)

    def _feed_start(self, first: Entry, inputs: dict[str, JSON]) -> None:
        self._keep(self.machine.feed(Started(inputs)))
        self._leave(first)

    def _leave(self, entry: Entry) -> None:
        if entry.intents is not None:
            self.lineage.intents.append((entry.seq, entry.intents))
            self.seq = entry.last

    def take(self, entry: Entry, plan_of: PlanOf) -> None:
        """Take the next entry."""
        seq, kind, key, _, body, last, intents = entry
        said: dict[str, JSON] = body or {}
        self.seq = seq
        lineage = self.lineage
        try:
            if kind == EventType.OK and len(body) == _ONE_NAME:
                assert key is not None
                event = Succeeded(key, body["value"])
            elif kind == EventType.END:
                lineage.ended = seq
                event = None
            else:
                event = event_of(kind, key or "", body or {}, plan_of)
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(entry, error) from error
        if event is not None:
            if type(event) is Succeeded:
                lineage.outcomes[event.key] = Outcome(seq, kind, event.value)
            elif type(event) is Failed:
                lineage.outcomes[event.key] = Outcome(seq, kind, event.error)
            elif kind in _WORDS and key is not None:
                lineage.outcomes[key] = Outcome(seq, kind, said.get("value"))
            commands = self.machine.feed(event)
            if commands:
                self._keep(commands)
            if self._unstored and self.machine.group is not self._group:
                self._store_errors()
        elif kind == EventType.ASK and key is not None and (self._is_veiled or SEALED in said):
            self.machine.asking.adopt(key, str(said["digest"]))
        if intents is not None:
            lineage.intents.append((seq, intents))
            self.seq = last
        if kind == EventType.INTENT and key is not None:
            lineage.lone[key] = seq

    def done(self, upto: int | None) -> Lineage:
        """The lineage, once all has been taken."""
        lineage = self.lineage
        lineage.seq = self.seq if upto is None else max(self.seq, upto)
        self._find_answer()
        return lineage

    def _keep(self, commands: Iterable[object]) -> None:
        kept = self.lineage.commands
        for command in commands:
            if not isinstance(command, Finish):
                kept[command.key] = command  # type: ignore[attr-defined]

    # ------------------------------------------------------------ what the machine says

    def note(self, note: Note) -> None:
        """Take what the machine says happened just now."""
        kind = note.kind
        if kind is NoteKind.STARTED or kind is NoteKind.SKIPPED:
            if self._unstored and self.machine.group is not self._group:
                self._store_errors()
            self._visit(note)
        elif kind is NoteKind.FINISHED:
            self._finished(note)
        elif kind is NoteKind.FAILED:
            self._failed(note)
        elif kind is NoteKind.CAST_FAILED:
            self._odd.add(self.machine.program.number_of[note.step])
        elif kind is NoteKind.REPLANNED:
            self._replanned()
        elif kind is NoteKind.JUMPED or kind is NoteKind.ENDED:
            self._store_errors()

    def _visit(self, note: Note) -> None:
        machine, lineage = self.machine, self.lineage
        program = machine.program
        number = program.number_of[note.step]
        is_skipped = note.kind is NoteKind.SKIPPED
        times = machine.visits[number]
        if is_skipped and not times:
            times = 1  # what waits for a step that failed is never come to
        at = len(lineage.programs) - 1
        current = lineage.current
        names = lineage.reads_at(at, number).names
        versions = tuple([current.get(name, NONE) for name in names])
        made = len(lineage.visits)
        lineage.visits.append(
            Visit(made, at, number, times, self.seq, versions, note.detail if is_skipped else "")
        )
        self._open[number] = made

    def _finished(self, note: Note) -> None:
        number = self.machine.program.number_of[note.step]
        if self._unstored:
            self._store_errors(number)
        if note.var is not None:
            self._write(note.var, note.value, Made.STEP, self._open[number], number in self._odd)
        self._odd.discard(number)

    def _failed(self, note: Note) -> None:
        program = self.machine.program
        number = program.number_of.get(note.step, NOWHERE)
        if number == NOWHERE or number not in self._open:  # a plan that was asked for when a graph had failed
            self.lineage.failures.append(Failure(NONE, self.seq, note.detail))
            return
        visit, code = self._open[number], program.steps[number]
        self.lineage.failures.append(Failure(visit, self.seq, note.detail))
        if code.out_slot == NOWHERE or code.source is not None or program.graph is not None:
            return
        if code.group == NOWHERE:
            self._store_error(visit)
        else:
            self._group = self.machine.group
            self._unstored.append(visit)

    def _store_errors(self, before: int | None = None) -> None:
        """A group is done, or its members before this step are: errors stand where results would."""
        if not self._unstored:
            return
        waiting = sorted(self._unstored, key=lambda visit: self.lineage.visits[visit].number)
        self._unstored = []
        for visit in waiting:
            if before is not None and self.lineage.visits[visit].number > before:
                self._unstored.append(visit)
            else:
                self._store_error(visit)

    def _store_error(self, visit: int) -> None:
        lineage = self.lineage
        taken = lineage.visits[visit]
        program = lineage.programs[taken.program]
        error = next(f.error for f in reversed(lineage.failures) if f.visit == visit)
        self._write(program.names[program.steps[taken.number].out_slot], error, Made.ERROR, visit)

    def _replanned(self) -> None:
        self._store_errors()
        lineage = self.lineage
        lineage.programs.append(self.machine.program)
        lineage.planned.append(self.seq)
        self._open.clear()
        self._set_initial()

    def _set_initial(self) -> None:
        for name, value in self.machine.program.plan.variables:
            self._write(name, literal(value), Made.PLAN)

    def _write(self, name: str, value: JSON, made: Made, visit: int = NONE, is_odd: bool = False) -> None:
        lineage = self.lineage
        number = len(lineage.writes)
        lineage.writes.append(Write(number, name, value, self.seq, made, visit, is_odd))
        lineage.current[name] = number
        if visit != NONE:
            lineage.write_of[visit] = number
            self._last = number

    # ------------------------------------------------------------ the answer

    def _find_answer(self) -> None:
        """What the answer of a run that has ended well is: what a step gives, or the last result."""
        lineage, result = self.lineage, self.machine.result
        if result is None or result.status is not Status.DONE:
            return
        program = self.machine.program
        if result.ended_at is not None:
            visit = self._open.get(program.number_of.get(result.ended_at, NOWHERE), NONE)
            if visit == NONE:
                return
            lineage.answer = len(lineage.writes)
            seq = lineage.visits[visit].seq
            lineage.writes.append(Write(lineage.answer, ANSWER, result.response, seq, Made.ANSWER, visit))
        elif program.plan.order is Order.DAG:
            slot = program.steps[-1].out_slot if program.steps else NOWHERE
            lineage.answer = lineage.current.get(program.names[slot], NONE) if slot != NOWHERE else NONE
        else:
            lineage.answer = self._last


def _unreadable(entry: Entry, error: Exception) -> JournalError:
    return JournalError(
        "JRN020",
        f"event {entry.seq} ({entry.type}) cannot be read: {error!r}",
        way_out="it was written by another version of callsheet, or changed since",
    )
