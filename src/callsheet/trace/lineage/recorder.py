"""Records the lineage of a run while its events are fed to the machine.

In: a machine and the entries of its run. Out: a Lineage. The order of events comes from the notes of the
machine. A step reads the versions that its variables have when it starts, as what is set while it is open is
not visible to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from callsheet.ir import JSON, Order
from callsheet.machine import Command, Event, Fact, Failed, Finish, Machine, Started, Status, Succeeded
from callsheet.machine.events import LABEL, TRACEBACK, Remark
from callsheet.machine.frames import Group
from callsheet.machine.keys import parse_key
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import NOWHERE
from callsheet.machine.snapshots import state_from_json, state_to_json
from callsheet.store.errors import JournalError
from callsheet.store.events import Entry, EventType
from callsheet.store.records import PlanOf, event_of
from callsheet.store.replay import leads_to
from callsheet.store.start import Start
from callsheet.trace.lineage.lineage import (
    ANSWER,
    NONE,
    Beside,
    Failure,
    Lineage,
    Outcome,
    ValueSource,
    Visit,
    Write,
)
from callsheet.trace.lineage.reads import literal

_ONE_NAME = 1
_WORDS = (EventType.DECIDED, EventType.SIGNAL)


class Recorder:
    """Records the notes of a machine while the events of a run are fed to it.

    Call `attend` and `begin`, or `resume`, before the first `add`.
    """

    lineage: Lineage
    rules: Start
    """What the run was started with."""

    def __init__(self, hears: Callable[[Note], None] | None = None) -> None:
        self.seq = 0
        self._hears = hears
        self._open: dict[int, int] = {}
        """The last visit of each step of the program, by number."""
        self._held: list[int] = []
        """Failed and skipped visits of a group, which are settled, and errors stored, when the group is."""
        self._group: Group | None = None
        """The group of the visits in `_held`."""
        self._odd: set[int] = set()
        self._tick = 0
        self._last = NONE
        """The last write that a step made."""

    @property
    def machine(self) -> Machine:
        """The machine whose notes it records."""
        return self.lineage.machine

    def attend(self, machine: Machine, seq: int, start: Start) -> None:
        """Attach to the machine of a run that begins at the event `seq`."""
        self.rules = start
        self.lineage = Lineage(machine, [machine.program], [seq])
        self.seq = seq

    def begin(self, first: Entry) -> None:
        """Start the run with its first entry."""
        self._set_initial()
        for name, value in self.rules.inputs.items():
            self._write(name, value, ValueSource.INPUT)
        if first.guide is not None:
            self.machine.follow(first.guide.decisions(first.seq))
        self._note_commands(self.machine.feed(Started(self.rules.inputs)))
        self._leave(first)

    def resume(self, machine: Machine, seq: int, start: Start, planned: int = 1) -> None:
        """Continue with a machine in its state before the event `seq`, in the first plan of its run.

        A variable that no step has set by then comes from an input or the plan; of the others only the value
        is known.
        """
        self.rules = start
        program = machine.program
        self.lineage = lineage = Lineage(
            machine, [program], [planned], begins=seq, before=sum(machine.visits)
        )
        names = {
            step.sets
            for step, visits in zip(program.plan.steps, machine.visits, strict=True)
            if visits and step.sets is not None
        }
        source_of = dict.fromkeys(machine.program.names, ValueSource.PLAN)
        source_of.update(dict.fromkeys(start.inputs, ValueSource.INPUT))
        source_of.update(dict.fromkeys(names, ValueSource.EARLIER))
        had = machine.variables()
        lineage.writes = [
            Write(n, name, value, planned, source_of[name]) for n, (name, value) in enumerate(had.items())
        ]
        lineage.current = {name: n for n, name in enumerate(had)}
        self.seq = seq
        self._note_commands(machine.open_commands().values())
        for key in machine.open_keys():
            self._opened(program.number_of[parse_key(key).step])

    def _leave(self, entry: Entry) -> None:
        if entry.intents is not None:
            self.lineage.intents.append((entry.seq, entry.intents))
            self.seq = entry.last

    def add(self, entry: Entry, plan_of: PlanOf) -> None:
        """Take the next entry."""
        seq, kind, key, _, body, last, intents, _, _ = entry
        data: dict[str, JSON] = body or {}
        self.seq = seq
        lineage = self.lineage
        self.rules = self.rules.under(data)
        try:
            if kind == EventType.OK and len(body) == _ONE_NAME:
                assert key is not None
                event = Succeeded(key, body["value"])
            elif kind == EventType.END:
                self._end(entry, data)
                event = None
            else:
                event = event_of(kind, key or "", body or {}, plan_of)
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(entry, error) from error
        if event is not None:
            if type(event) is Succeeded:
                said = _fact(LABEL, event.remarks) if event.remarks else ""
                lineage.outcomes[event.key] = Outcome(seq, kind, event.value, "", said)
            elif type(event) is Failed:
                told = _fact(TRACEBACK, event.remarks), _fact(LABEL, event.remarks)
                lineage.outcomes[event.key] = Outcome(seq, kind, event.error, *told)
            elif kind in _WORDS and key is not None and key not in lineage.outcomes:
                lineage.outcomes[key] = Outcome(seq, kind, data.get("value"))
            commands = self._feed(event, entry)
            if commands:
                self._note_commands(commands)
            if self._held and self.machine.group is not self._group:
                self._settle_held()
        elif kind == EventType.ASK and key is not None:
            self._posed(seq, key, data)
        if intents is not None:
            lineage.intents.append((seq, intents))
            self.seq = last
        if kind == EventType.INTENT and key is not None:
            lineage.lone[key] = seq

    def _posed(self, seq: int, key: str, data: dict[str, JSON]) -> None:
        """A question was recorded: its answers count if it is the one that is open now."""
        asking = self.machine.asking
        if self.rules.is_veiled or asking.is_recorded_as(key, data):
            asking.adopt(key, str(data["digest"]))
        elif self.lineage.differs is None and asking.differs(key, data):
            self.lineage.differs = seq, f"the question {key} showed other labels or arguments then"

    def _feed(self, event: Event, entry: Entry) -> list[Command]:
        """Feed an event to the machine, with the guide's record of the decisions of the run."""
        if entry.guide is not None:
            self.machine.follow(entry.guide.decisions(entry.seq))
        return self.machine.feed(event)

    def _end(self, entry: Entry, data: dict[str, JSON]) -> None:
        self.lineage.ended = entry.seq
        if self.lineage.differs is None and self.machine.result is None and not self.rules.is_veiled:
            self.lineage.differs = entry.seq, "the run ended there, and does not when it is replayed"
        if entry.guide is not None and not leads_to(self.machine.result, data):
            entry.guide.warn_diverged()

    def fork(self) -> Recorder | None:
        """An independent copy; None in a group, after a re-plan, or in a state that cannot be copied."""
        machine, lineage = self.machine, self.lineage
        state = machine.state()
        if state is None or machine.tree is not None or machine.group is not None or lineage.programs[1:]:
            return None
        values: list[JSON] = []
        data = state_to_json(state, lambda value: values.append(value) or len(values) - 1)
        if data is None:
            return None
        data = json.loads(json.dumps(data))  # so that only the values are shared
        monitor = machine.monitor
        enforcement = None if monitor is None else monitor.enforcement
        other = Recorder()
        copy = state_from_json(machine.program, data, values.__getitem__, enforcement)
        other.seq, other._open, other._odd = self.seq, dict(self._open), set(self._odd)
        other._last, other._tick = self._last, self._tick
        other.rules = rules = self.rules
        stands = Machine.at(copy, None, rules.approve, rules.approval_timeout)
        stands.observer = other.note  # set late, so that past notes are not repeated
        stands.share_decision_log(machine)
        other.lineage = lineage.copied(stands)
        return other

    def done(self, upto: int | None) -> Lineage:
        """The finished lineage, with its answer; `seq` is at least `upto`."""
        lineage = self.so_far()
        lineage.seq = self.seq if upto is None else max(self.seq, upto)
        if lineage.answer == NONE:
            self._find_answer()
        return lineage

    def so_far(self) -> Lineage:
        """The lineage of the entries taken so far; later entries extend the same object."""
        self.lineage.seq = self.seq
        self.lineage.forget()
        return self.lineage

    def _note_commands(self, commands: Iterable[object]) -> None:
        commands_by_key = self.lineage.commands
        for command in commands:
            if not isinstance(command, Finish):
                commands_by_key[command.key] = command  # type: ignore[attr-defined]

    # ------------------------------------------------------------ what the machine says

    def note(self, note: Note) -> None:
        """Record a note of the machine on the current event."""
        self._now()
        kind = note.kind
        if kind is NoteKind.STARTED or kind is NoteKind.SKIPPED:
            if self._held and self.machine.group is not self._group:
                self._settle_held()
            self._visit(note)
        elif kind is NoteKind.FINISHED:
            self._finished(note)
        elif kind is NoteKind.FAILED:
            self._failed(note)
        elif kind is NoteKind.CAST_FAILED:
            self._odd.add(self.machine.program.number_of[note.step])
        elif kind is NoteKind.REPLANNED:
            self._new_plan(note.detail)
        elif kind is NoteKind.EDITED:
            assert note.var is not None
            write = self._write(note.var, note.value, ValueSource.EDIT)
            self._note_beside(ValueSource.EDIT, wrote=(write,))
        elif kind is NoteKind.JUMPED or kind is NoteKind.ENDED:
            self._settle_held()
        if self._hears is not None:
            self._hears(note)

    def _note_beside(
        self,
        made: ValueSource,
        detail: str = "",
        wrote: tuple[int, ...] = (),
        carried: tuple[int, ...] = (),
    ) -> None:
        """Record what no visit of a step did."""
        lineage = self.lineage
        lineage.beside.append(Beside(self._tick, len(lineage.programs) - 1, made, detail, wrote, carried))

    def _now(self) -> int:
        """Count what happens."""
        self._tick += 1
        return self._tick

    def _visit(self, note: Note) -> None:
        machine, lineage = self.machine, self.lineage
        program = machine.program
        number = program.number_of[note.step]
        is_skipped = note.kind is NoteKind.SKIPPED
        times = machine.visits[number]
        if is_skipped and not times:
            times = 1  # skipped as a step it depends on failed: the machine counts no visit
        at = len(lineage.programs) - 1
        current = lineage.current
        names = lineage.reads_at(at, number).names
        versions = tuple([current.get(name, NONE) for name in names])
        visit = len(lineage.visits)
        lineage.visits.append(
            Visit(visit, at, number, times, self.seq, versions, note.detail if is_skipped else "")
        )
        lineage.began.append(self._tick)
        self._open[number] = visit
        if is_skipped:
            self._end_or_hold(visit, number)

    def _opened(self, number: int) -> int:
        """The last visit of a step; an earlier one is added on demand. NONE if there is none."""
        visit = self._open.get(number, NONE)
        lineage = self.lineage
        if visit == NONE and lineage.begins > 1 and self.machine.visits[number]:
            at = len(lineage.programs) - 1
            visit = self._open[number] = len(lineage.visits)
            unknown = (NONE,) * len(lineage.reads_at(at, number).names)
            lineage.visits.append(
                Visit(visit, at, number, self.machine.visits[number], lineage.begins, unknown)
            )
            lineage.began.append(0)
            lineage.earlier.add(visit)
        return visit

    def _finished(self, note: Note) -> None:
        number = self.machine.program.number_of[note.step]
        if self._held:
            self._settle_held(number)
        lineage, visit = self.lineage, self._opened(number)
        if note.var is not None:
            self._write(note.var, note.value, ValueSource.STEP, visit, number in self._odd)
        self._odd.discard(number)
        if lineage.failed and not note.is_failure:
            lineage.failed.discard(visit)
        if note.detail:
            lineage.stopped[visit] = note.detail
        lineage.settled[visit] = self._tick

    def _failed(self, note: Note) -> None:
        program, lineage = self.machine.program, self.lineage
        number = program.number_of.get(note.step, NOWHERE)
        visit = NONE if number == NOWHERE else self._opened(number)
        lineage.failures.append(Failure(visit, self.seq, note.detail))
        if visit == NONE:  # a plan that was asked for when a graph had failed
            self._note_beside(ValueSource.ERROR, note.detail)
            return
        lineage.failed.add(visit)
        if program.steps[number].source is None:  # a loop goes on with its other items
            self._end_or_hold(visit, number)

    def _end_or_hold(self, visit: int, number: int) -> None:
        """Settle a visit that failed or was skipped; that of a member of a group with its group."""
        program = self.machine.program
        if program.steps[number].group == NOWHERE or program.graph is not None:
            self._settle_visit(visit)
        else:
            self._group = self.machine.group
            self._held.append(visit)

    def _settle_held(self, before: int | None = None) -> None:
        """Settle the members of a group that failed or were skipped; with `before` only up to that step."""
        if not self._held:
            return
        waiting = sorted(self._held, key=lambda visit: self.lineage.visits[visit].number)
        self._held = []
        for visit in waiting:
            if before is not None and self.lineage.visits[visit].number > before:
                self._held.append(visit)
            else:
                self._settle_visit(visit)

    def _settle_visit(self, visit: int) -> None:
        """Settle a visit that failed or was skipped; in text order its error is its result."""
        lineage = self.lineage
        taken = lineage.visits[visit]
        program = lineage.programs[taken.program]
        slot = program.steps[taken.number].out_slot
        if slot != NOWHERE and visit in lineage.failed and program.graph is None:
            error = next(f.error for f in reversed(lineage.failures) if f.visit == visit)
            self._write(program.names[slot], error, ValueSource.ERROR, visit)
        lineage.settled[visit] = self._tick

    def _new_plan(self, detail: str) -> None:
        self._settle_held()
        lineage = self.lineage
        lineage.programs.append(self.machine.program)
        lineage.planned.append(self.seq)
        self._open.clear()
        carried, first = tuple(lineage.current.values()), len(lineage.writes)
        self._set_initial()
        wrote = tuple(range(first, len(lineage.writes)))
        self._note_beside(ValueSource.PLAN, detail, wrote, carried)

    def _set_initial(self) -> None:
        for name, value in self.machine.program.plan.variables:
            self._write(name, literal(value), ValueSource.PLAN)

    def _write(
        self, name: str, value: JSON, source: ValueSource, visit: int = NONE, is_odd: bool = False
    ) -> int:
        lineage = self.lineage
        number = len(lineage.writes)
        lineage.writes.append(Write(number, name, value, self.seq, source, visit, is_odd))
        lineage.current[name] = number
        if visit != NONE:
            lineage.write_of[visit] = number
            self._last = number
        return number

    # ------------------------------------------------------------ the answer

    def _find_answer(self) -> None:
        """Find the write of the answer of a successful run: given by a step, or the last result."""
        lineage, result = self.lineage, self.machine.result
        if result is None or result.status is not Status.DONE:
            return
        program = self.machine.program
        if result.ended_at is not None:
            number = program.number_of.get(result.ended_at, NOWHERE)
            visit = NONE if number == NOWHERE else self._opened(number)
            if visit == NONE:
                return
            lineage.answer = len(lineage.writes)
            seq = lineage.visits[visit].seq
            lineage.writes.append(
                Write(lineage.answer, ANSWER, result.response, seq, ValueSource.ANSWER, visit)
            )
        elif program.plan.order is Order.DAG:
            slot = program.steps[-1].out_slot if program.steps else NOWHERE
            lineage.answer = lineage.current.get(program.names[slot], NONE) if slot != NOWHERE else NONE
        else:
            lineage.answer = self._last


def unreadable(entry: Entry, error: Exception) -> JournalError:
    """The error (JRN020) for an entry that is of another version or damaged."""
    return JournalError(
        "JRN020",
        f"event {entry.seq} ({entry.type}) cannot be read: {error!r}",
        hint="it was written by another version of callsheet, or changed since",
    )


def _fact(name: str, remarks: Iterable[Remark]) -> str:
    return "; ".join(each.text for each in remarks if isinstance(each, Fact) and each.name == name)
