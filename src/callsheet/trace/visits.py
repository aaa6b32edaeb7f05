"""The visits of a run's steps: times, calls, attempts, remarks and outcomes, also of those under way.

In: the events of a run in order, and the machine's notes on them. Out: visits, each given when its turn comes
and completed while events come in. A visit ends with the last outcome of its own calls, not when its group or
its turn lets the plan go on. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from callsheet.ir import JSON, Action, Plan, Step
from callsheet.lazy import dataclass
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, Compile, RunAgent
from callsheet.machine.keys import place_in_tree
from callsheet.machine.notes import Note, NoteKind
from callsheet.sealing.sealer import SEALED
from callsheet.store.events import CallPart, Event, EventType
from callsheet.store.folded import Folded
from callsheet.store.records import PlanOf
from callsheet.store.replay import fold

if TYPE_CHECKING:
    from callsheet.trace.lineage.withheld import NameVeil

NO_STEP = -1
"""The number of a visit that no step of the plan made: a new plan, an edit."""
_TOLERANCE = 1.0
"""Seconds by which events may be recorded out of order without a correction of the clock."""


def veil_of(plan: Plan, event: Event) -> NameVeil | None:
    """The veil over the notes of a run from its first event with placeholders on; None if this has none."""
    body = event.body or {}
    if plan.tree is None or SEALED not in body:
        return None
    from callsheet.trace.lineage.withheld import NameVeil  # noqa: PLC0415 - only with secrets

    return NameVeil(plan.tree, body["inputs"] if event.type is EventType.START else {})


class SteadyTime:
    """Gives the time of each event of one run; the events are given in their order.

    Events of different processes are not compared, nor the edits of a fork, which have the time of the fork
    among the events of its parent.
    """

    def __init__(self) -> None:
        self._last: Event | None = None
        self._ahead = 0.0

    def of(self, event: Event) -> float:
        """The time of the next event."""
        if event.type is not EventType.EDIT:
            last, self._last = self._last, event
            if last is not None and event.epoch == last.epoch and event.ts < last.ts - _TOLERANCE:
                self._ahead += last.ts + max(event.mono - last.mono, 0.0) - event.ts
        return event.ts + self._ahead


@dataclass(slots=True)
class Visit:
    """One visit of a step, the making of a new plan, or an edit by hand.

    `outcome` is `ok`, `failed`, `skipped`, `running`, or `stopped` by the end of the run; `calls` counts the
    calls that left. Times are wall times in seconds since 1970. `detail` is the reason, if there is one.
    """

    step: str
    started: float
    """When its turn came or a call left before that, or when a later process made its first call."""
    ended: float | None = None
    turn: float = 0.0
    """When its turn came; 0 if it has not come yet."""
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
    observed: list[str] = field(default_factory=list[str])
    """What a policy that only observes would have refused or asked; `turns` has it too."""
    cast_failed: bool = False
    is_unused: bool = False
    """Whether its result came too late and was not used; `detail` says why."""
    definition: Step | None = None
    """The step in the plan then in force: a new plan may use the same step ids."""
    plan: int = 0
    """The number of that plan in the run, from 0."""
    number: int = NO_STEP
    """The number of the step in that plan, from 0."""
    nth: int = 0
    """Counts the visits of the step in that plan, from 1, in the order of their turns."""
    epoch: int = 0
    """The process in which it began."""
    left: float | None = None
    """When its first call left."""
    answered: float | None = None
    """When the last outcome of its calls came."""
    open_calls: set[str] = field(default_factory=set[str])
    """The keys of its calls that left and have no outcome."""
    failed_at: set[int] = field(default_factory=set[int])
    """The items of a FOREACH, from 0, whose last outcome is an error."""

    @property
    def action(self) -> Action | None:
        """The action of its step; None if no step of the plan made it."""
        return None if self.definition is None else self.definition.action

    @property
    def label(self) -> str:
        """Its name in the run, such as `r1/S3@2`."""
        before = f"r{self.plan}/" if self.plan else ""
        return f"{before}{self.step}{f'@{self.nth}' if self.nth > 1 else ''}"

    def remark(self, text: str) -> None:
        """Add a text to its detail."""
        self.detail = f"{self.detail}; {text}" if self.detail else text


class Visits:
    """The visits of a run: `sees` takes each event before the machine does, `note` the notes on it.

    `hears` is given each visit when its turn comes. A listener without a journal calls `at`, `leaves` and
    `answer` instead of `sees`. `now` is the time of the current event, `epoch` its process.
    """

    def __init__(
        self,
        plan: Plan | None = None,
        plan_of: PlanOf | None = None,
        hears: Callable[[Visit], None] | None = None,
    ) -> None:
        self.now = 0.0
        self.epoch = 0
        self.plans: list[Plan] = [] if plan is None else [plan]
        self.last: dict[str, Visit] = {}
        """The last visit of each step whose turn has come."""
        self.early: dict[str, Visit] = {}
        """Visits that began before their turn, which has not come yet, by step."""
        self._open: dict[str, Visit] = {}
        """Visits that have begun and have not ended, by step."""
        self._plan_of = plan_of
        self._hears = hears
        self._time = SteadyTime()
        self._has_only_begun = False
        self._next_plan = ""
        self._generation = 0
        self._steps: dict[str, tuple[int, Step]] = {}
        self._is_tree = False
        """Whether the plan in force is a tree: a visit is then named by its path, as `S2[4]/S5`."""
        self._counts: dict[str, int] = {}
        self._veil: NameVeil | None = None
        """Of a run of a plan with blocks over placeholders of sealed values: what its notes may tell."""
        if plan is not None:
            self._number_steps(plan)

    def timed(self, note: Note) -> float | None:
        """As `note`; returns how long the calls of its visit have taken, if it says that they are done."""
        is_open = note.step in self._open
        visit = self.note(note)
        if visit is None or not is_open or not note.kind.ends_visit:
            return None
        return max(0.0, (self.now if visit.answered is None else visit.answered) - visit.started)

    def begin_anew(self) -> None:
        """Let what is under way begin now: another process goes on with it."""
        for visit in self._open.values():
            visit.started, visit.answered = self.now, None

    # ------------------------------------------------------------ events

    def watched(self, events: Iterable[Event]) -> Iterator[Event]:
        """Pass the events on, each seen before the machine takes it."""
        for event in events:
            self.sees(event)
            yield event

    def sees(self, event: Event) -> None:
        """Take the next event, before the machine does."""
        begun_by = self.epoch if self._has_only_begun else event.epoch
        self.at(self._time.of(event), event.epoch)
        kind, key = event.type, event.key or ""
        self._has_only_begun = kind is EventType.START
        if event.epoch > begun_by:  # another process takes the first step: that of a branch, or of a queue
            self.begin_anew()
        if self._veil is None and self.plans:
            self._veil = veil_of(self.plans[-1], event)
        if kind.part is CallPart.NONE or event.step is None:
            return
        step = place_in_tree(key) if self._is_tree else event.step
        if kind is EventType.INTENT:
            self.leaves(step, key)
        elif kind.answers:
            if kind is EventType.PLAN:
                self._next_plan = str((event.body or {})["plan"])
            visit = self._open.get(step)
            if visit is not None and event.index is not None:
                (visit.failed_at.add if kind is EventType.ERR else visit.failed_at.discard)(event.index)
            self.answer(step, key)

    def at(self, now: float, epoch: int = 0) -> None:
        """Set the time of what follows."""
        self.now, self.epoch = now, epoch

    def leaves(self, step: str, key: str) -> None:
        """A call leaves."""
        visit = self._open.get(step)
        if visit is None:
            if step in self._steps or not self.plans or self._is_tree:
                return
            visit = self.early[step] = self._begin(step)  # a new plan is asked for, as a graph has failed
        if visit.left is None:
            visit.left = self.now
            if self.epoch > visit.epoch:
                visit.started = self.now  # no process carried it on in between
        visit.calls += 1
        visit.open_calls.add(key)

    def answer(self, step: str, key: str) -> None:
        """A call has an outcome."""
        visit = self._open.get(step)
        if visit is not None:
            visit.answered = self.now
            visit.open_calls.discard(key)

    # ------------------------------------------------------------ notes

    def note(self, note: Note) -> Visit | None:
        """Take a note of the machine on the current event; returns the visit that it is about, if any."""
        if self._veil is not None:
            note = self._veil.over(note)
        kind, step = note.kind, note.step
        match kind:
            case NoteKind.EARLY:
                visit = self.early[step] = self._begin(step)
                visit.facts.append("it started ahead of its turn")
                return visit
            case NoteKind.STARTED:
                visit = self._turn(step)
                visit.items = 0 if note.at is None else note.at.items
                return visit
            case NoteKind.SKIPPED:
                return self._end(self._turn(step), note)
            case NoteKind.FAILED if note.at is not None and note.at.item and step in self.last:
                visit = self.last[step]
                visit.failed_items += 1
                visit.detail = note.detail
                return visit
            case NoteKind.SETTLED | NoteKind.FINISHED | NoteKind.FAILED:
                return self._end(self.last.get(step) or self._turn(step), note)
            case NoteKind.REPLANNED:
                return self._replanned(step, note)
            case NoteKind.EDITED:
                return self._told(Visit("edit", self.now, self.now, outcome="ok", detail="set by hand"), note)
            case NoteKind.SAID:
                return self._told(Visit(step, self.now, self.now, outcome="ok", detail=note.detail), note)
            case NoteKind.ASKED | NoteKind.ENDED | NoteKind.BEFORE:
                return self.last.get(step)
            case _:
                visit = self.last.get(step)
                if visit is not None:
                    _record(visit, note)
                return visit

    def _number_steps(self, plan: Plan) -> None:
        self._steps = {}
        self._is_tree = plan.tree is not None
        for number, step in enumerate(plan.steps):
            self._steps.setdefault(step.id, (number, step))

    def _begin(self, step: str) -> Visit:
        """The visit of a step that is under way, or a new one."""
        visit = self._open.get(step)
        if visit is None:
            own = step.rpartition("/")[2] if self._is_tree else step
            number, definition = self._steps.get(own, (NO_STEP, None))
            visit = Visit(step, self.now, definition=definition, plan=self._generation, number=number)
            visit.epoch = self.epoch
            self._open[step] = visit
        return visit

    def _turn(self, step: str) -> Visit:
        """The turn of a visit comes."""
        visit = self.early.pop(step, None) or self._begin(step)
        visit.turn = visit.started if visit.definition is None else self.now
        visit.nth = self._counts[step] = self._counts.get(step, 0) + 1
        self.last[step] = visit
        if self._hears is not None:
            self._hears(visit)
        return visit

    def _told(self, visit: Visit, note: Note) -> Visit:
        visit.plan, visit.var, visit.value = self._generation, note.var, note.value
        if self._hears is not None:
            self._hears(visit)
        return visit

    def _end(self, visit: Visit, note: Note) -> Visit:
        visit.ended = self.now if visit.answered is None else visit.answered
        if note.kind is NoteKind.SETTLED:  # it waits for the other members of its group
            visit.outcome = "failed" if note.is_failure else "ok"
            return visit
        visit.outcome = note.outcome or visit.outcome
        visit.detail, visit.is_unused = note.detail or visit.detail, note.is_unused
        visit.var, visit.value = note.var, note.value
        self._open.pop(visit.step, None)
        return visit

    def _replanned(self, step: str, note: Note) -> Visit:
        visit, text = self.last.get(step), f"new plan, {note.detail}"
        if visit is not None:
            visit.remark(text)
        else:  # a graph has failed, and no step of it asked for the plan
            visit = self._turn(step)
            visit.outcome, visit.ended, visit.detail = "ok", visit.answered or self.now, text
            self._open.pop(step, None)
        self._generation += 1
        self._counts.clear()
        if self._plan_of is not None:
            self.plans.append(self._plan_of(self._next_plan))
            self._number_steps(self.plans[-1])
        return visit


def _record(visit: Visit, note: Note) -> None:
    """Record what a note says apart from the outcome."""
    match note.kind:
        case NoteKind.RETRYING:
            visit.retries += 1
        case NoteKind.JUMPED:
            visit.remark(f"goes to {note.detail}")
        case NoteKind.CAST_FAILED:
            visit.cast_failed = True
        case NoteKind.CUT:
            visit.cuts.append(note.detail)
        case NoteKind.FACT:
            visit.facts.append(note.detail)
        case NoteKind.EMPTY:
            where = "" if note.at is None else f"{note.at.describe()}: "
            visit.empty.append(where + note.detail)
        case NoteKind.ANSWERED:
            visit.answers.append(note.detail)
        case NoteKind.TURN:
            visit.turns.append(note.detail)
        case NoteKind.OBSERVED:
            visit.turns.append(note.detail)
            visit.observed.append(note.detail)
        case _:
            pass


# ---------------------------------------------------------------- the account of a run


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
    """The visits of steps in the order of their turns, warnings, late answers, and the run after its events.

    `unused` are visits that made calls ahead of a turn that never came; `until` is when the last event was.
    `plans` are the plan and those made during the run, by the `plan` of visits.
    """

    folded: Folded
    steps: list[Visit]
    warnings: list[str]
    late: list[LateAnswer]
    unused: list[Visit]
    until: float
    plans: tuple[Plan, ...]


def account_of(plan: Plan, events: Iterable[Event], plan_of: PlanOf) -> Account:
    """The account of a run from its events; raises JournalError (JRN020) if they cannot be read."""
    steps: list[Visit] = []
    warnings: list[str] = []
    late: list[LateAnswer] = []
    visits = Visits(plan, plan_of, steps.append)

    def watched() -> Iterator[Event]:
        for event in visits.watched(events):
            if event.type is EventType.LATE:
                late.append(LateAnswer.of(event))
            yield event

    def note(note: Note) -> None:
        visits.note(note)
        if note.kind is NoteKind.CAST_FAILED:
            warnings.append(f"{note.step}: the result is {note.detail}; it was kept as it was")

    folded = fold(plan, watched(), plan_of, note)
    if folded.machine.result is not None:
        for visit in steps:
            visit.outcome = "stopped" if visit.outcome == "running" else visit.outcome
    early = list(visits.early.values())
    return Account(folded, steps, warnings, late, early, visits.now, tuple(visits.plans))


def arguments_of(command: Awaited | None) -> JSON:
    """The arguments of a call as data; None for what has none."""
    match command:
        case CallTool(args=args):
            return args
        case CallModel(inputs=inputs, args=args) | RunAgent(inputs=inputs, args=args):
            return {"inputs": inputs, **args}
        case AgentTurn(inputs=inputs, args=args, turns=turns):
            return {"inputs": inputs, **args, "turns": len(turns)}
        case Compile(reason=reason):
            return {"reason": reason}
        case _:
            return None
