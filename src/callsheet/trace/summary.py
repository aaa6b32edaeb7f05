"""Summarises a run from its journal: its steps with outcome, time and result.

In: the events of a run, folded through the machine with an observer. Out: the account that `show` prints.
Nothing is stored or executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from callsheet.ir import JSON, Action, Plan
from callsheet.machine.notes import Note, NoteKind
from callsheet.store.events import Event, EventType
from callsheet.store.folded import Folded
from callsheet.store.records import PlanOf
from callsheet.store.replay import fold
from callsheet.trace.visit_times import VisitTimes


@dataclass(slots=True)
class StepAccount:
    """One visit of a step.

    `outcome` is `ok`, `failed`, `skipped`, `running`, or `stopped` by the end of the run; `calls` counts the
    calls that left. Times are wall times in seconds since 1970. `detail` is the reason, if there is one.
    """

    step: str
    started: float
    """When its turn came or a call left before that, or when a later process made its first call."""
    ended: float | None = None
    turn: float = 0.0
    """When its turn came."""
    outcome: str = "running"
    calls: int = 0
    retries: int = 0
    failed_items: int = 0
    """The items of a FOREACH that failed, whose errors are among its results."""
    items: int = 0
    detail: str = ""
    var: str | None = None
    value: JSON = None
    cuts: list[str] = field(default_factory=list[str])
    """Inputs and results that were shortened."""
    empty: list[str] = field(default_factory=list[str])
    """References in its texts that had no value."""
    facts: list[str] = field(default_factory=list[str])
    """Remarks on how its outcomes came about."""
    answers: list[str] = field(default_factory=list[str])
    """The answers of people to its questions and calls."""
    turns: list[str] = field(default_factory=list[str])
    """What an agent did, turn by turn."""
    action: Action | None = None
    """The action of its step in the plan then in force: a new plan may use the same step ids."""

    def record(self, note: Note) -> None:
        """Record a cut, an empty reference, a remark, an answer or an agent's turn."""
        lists = {
            NoteKind.CUT: self.cuts,
            NoteKind.FACT: self.facts,
            NoteKind.EMPTY: self.empty,
            NoteKind.ANSWERED: self.answers,
            NoteKind.TURN: self.turns,
        }
        where = "" if note.at is None or note.kind is not NoteKind.EMPTY else f"{note.at.describe()}: "
        lists[note.kind].append(where + note.detail)


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """An outcome that came after its call was closed, and so had no effect.

    `outcome` is `ok` or `err`, `said` the value or the error.
    """

    key: str
    step: str
    ts: float
    outcome: str
    value: JSON

    @classmethod
    def of(cls, row: Event) -> LateAnswer:
        """The late answer in an event of the journal."""
        body = row.body or {}
        outcome = str(body.get("outcome", ""))
        value = body.get("value" if outcome == EventType.OK else "error")
        return cls(row.key or "", row.step or "", row.ts, outcome, value)


@dataclass(slots=True)
class Account:
    """The visits of steps in order, warnings, late answers, and the state of the run after its events."""

    folded: Folded
    steps: list[StepAccount]
    warnings: list[str]
    late: list[LateAnswer]


@dataclass(slots=True)
class _Scribe:
    """Collects visits from the events of the journal and the notes of the machine."""

    plan_of: PlanOf
    actions: dict[str, Action]
    """The actions of the current plan's steps, by step id."""
    plan: str = ""
    """The hash of the last plan."""
    times: VisitTimes = field(default_factory=VisitTimes)
    steps: list[StepAccount] = field(default_factory=list[StepAccount])
    warnings: list[str] = field(default_factory=list[str])
    open: dict[str, StepAccount] = field(default_factory=dict[str, StepAccount])
    early: dict[str, StepAccount] = field(default_factory=dict[str, StepAccount])
    """Visits that started before their turn, which has not come yet, by step id."""
    late: list[LateAnswer] = field(default_factory=list[LateAnswer])

    def watched(self, rows: Iterable[Event]) -> Iterator[Event]:
        """Pass the events on, recording each before the machine takes it."""
        for row in rows:
            self.times.sees(row)
            visit = self.early.get(row.step or "") or self.open.get(row.step or "")
            if row.type is EventType.INTENT and visit is not None:
                visit.started = self.times.begun(visit.step) or visit.started
                visit.calls += 1
            elif row.type is EventType.PLAN and row.body is not None:
                self.plan = row.body["plan"]
            elif row.type is EventType.LATE:
                self.late.append(LateAnswer.of(row))
            yield row

    def note(self, note: Note) -> None:
        """Record a note of the machine on the current event."""
        match note.kind:
            case NoteKind.EARLY:
                self.early[note.step] = self._new(note.step)
                self.early[note.step].facts.append("it started ahead of its turn")
            case NoteKind.STARTED:
                self._visit(note.step).items = 0 if note.at is None else note.at.items
            case NoteKind.SKIPPED:
                self._end(self._visit(note.step), note)
            case NoteKind.FAILED if note.at is not None and note.at.item and note.step in self.open:
                self.open[note.step].failed_items += 1
                self.open[note.step].detail = note.detail
            case NoteKind.SETTLED | NoteKind.FINISHED | NoteKind.FAILED:
                self._end(self.open.get(note.step) or self._visit(note.step), note)
            case NoteKind.RETRYING:
                if note.step in self.open:
                    self.open[note.step].retries += 1
            case NoteKind.JUMPED:
                self._remark(note.step, f"goes to {note.detail}")
            case NoteKind.REPLANNED:
                self._replanned(note.step, f"new plan, {note.detail}")
            case NoteKind.CAST_FAILED:
                self.warnings.append(f"{note.step}: the result is {note.detail}; it was kept as it was")
            case NoteKind.CUT | NoteKind.EMPTY | NoteKind.FACT | NoteKind.ANSWERED | NoteKind.TURN:
                if note.step in self.open:
                    self.open[note.step].record(note)
            case NoteKind.EDITED:
                edited = StepAccount(
                    "edit", self.times.now, outcome="ok", ended=self.times.now, detail="set by hand"
                )
                edited.var, edited.value = note.var, note.value
                self.steps.append(edited)
            case NoteKind.ASKED | NoteKind.ENDED | NoteKind.BEFORE:
                pass

    def _visit(self, step: str) -> StepAccount:
        visit = self.early.pop(step, None) or self._new(step)
        visit.turn = self.times.now
        self.steps.append(visit)
        self.open[step] = visit
        return visit

    def _replanned(self, step: str, text: str) -> None:
        if step in self.open:
            self._remark(step, text)
        else:  # a graph has failed, and no step of it asked for the plan
            visit = self._visit(step)
            visit.outcome, visit.ended, visit.detail = "ok", self.times.now, text
        self.actions |= actions_of(self.plan_of(self.plan))

    def _new(self, step: str) -> StepAccount:
        return StepAccount(step, self.times.begin(step), action=self.actions.get(step))

    def _end(self, visit: StepAccount, note: Note) -> None:
        visit.ended = self.times.ended(visit.step)
        if note.kind is NoteKind.SETTLED:  # it waits for the other members of its group
            visit.outcome = "failed" if note.is_failure else "ok"
            return
        visit.outcome = note.outcome or visit.outcome
        self.times.close(visit.step)
        visit.detail = note.detail or visit.detail
        visit.var, visit.value = note.var, note.value

    def _remark(self, step: str, text: str) -> None:
        visit = self.open.get(step)
        if visit is not None:
            visit.detail = f"{visit.detail}; {text}" if visit.detail else text


def actions_of(plan: Plan) -> dict[str, Action]:
    """The actions of a plan's steps, by step id."""
    return {step.id: step.action for step in plan.steps}


def account_of(plan: Plan, events: Iterable[Event], plan_of: PlanOf) -> Account:
    """The account of a run from its events; raises JournalError (JRN020) if they cannot be read."""
    scribe = _Scribe(plan_of, actions_of(plan))
    folded = fold(plan, scribe.watched(events), plan_of, scribe.note)
    if folded.machine.result is not None:
        for visit in scribe.steps:
            visit.outcome = "stopped" if visit.outcome == "running" else visit.outcome
    return Account(folded, scribe.steps, scribe.warnings, scribe.late)
