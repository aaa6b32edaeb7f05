"""The interpreter: events in, commands out; one function per type of event, found in `HANDLERS`.

Each takes the run, the event, and the list that commands are appended to. An event whose key is not open
changes nothing.

Everything that happens is a function of the program, the limits and the sequence of events fed to
`Machine.feed`. Doing the work in slices (`go_on`) does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from callsheet.diagnostics import CallsheetError
from callsheet.machine.ahead import Turn
from callsheet.machine.budget import Refusal
from callsheet.machine.calls import emit, give_back, open_commands
from callsheet.machine.commands import Awaited, Command, Finish
from callsheet.machine.compiling import compile_plan
from callsheet.machine.endings import (
    answered,
    decided,
    doubted,
    fail,
    failed,
    judge_again,
    note_beside,
    succeeded,
)
from callsheet.machine.events import (
    Answered,
    Cancelled,
    Decided,
    Doubted,
    Edited,
    Event,
    Failed,
    LimitsChanged,
    PlanCompiled,
    PolicyChanged,
    Reopened,
    Started,
    Succeeded,
    TimerFired,
    TimeUp,
)
from callsheet.machine.frames import End, Frame, NewPlan, Wait
from callsheet.machine.limits import AUTO, Limits
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.order import advance, catch_up, settle
from callsheet.machine.program import Program
from callsheet.machine.questions import Approval
from callsheet.machine.replanning import carried_by, check_inputs, go_on_with_part, planned
from callsheet.machine.result import PolicyRefusal, RefusedByPolicy, Status
from callsheet.machine.run import ALL, Observer, Run
from callsheet.machine.usage import Usage

if TYPE_CHECKING:
    from callsheet.machine.monitor.enforcement import Enforcement


def _started(run: Run, event: Started, out: list[Command]) -> None:
    if run.is_started:
        return
    run.is_started = True
    run.scope.set_initial()
    if run.tree is None:
        run.scope.take_over(event.inputs)
    else:
        run.tree.set_inputs(run, event.inputs)
    if run.monitor is not None:
        run.monitor.label_inputs(event.inputs)
    advance(run, out)


def _woken(run: Run, event: TimerFired, out: list[Command]) -> None:
    attempt = run.asleep.pop(event.key, None)
    if isinstance(attempt, Wait):
        assert run.tree is not None
        run.tree.woken(run, attempt, out)
    elif attempt is not None:
        emit(run, attempt, out)


def _compiled(run: Run, event: PlanCompiled, out: list[Command]) -> None:
    if run.planning is not None and event.key == run.planning.key:
        if planned(run, event, out):
            advance(run, out)
        return
    attempt = run.compiling.pop(event.key, None)
    if attempt is None:
        return
    note_beside(run, attempt, event)
    if run.tree is not None:
        try:
            go_on_with_part(run, attempt, event)
        except CallsheetError as error:
            fail(run, attempt, str(error), out)
        else:
            advance(run, out)
        return
    try:
        if event.plan.tree is not None:
            check_inputs(carried_by(run), event.plan.tree)
        context = None if run.monitor is None else run.monitor.context_of(event.key, event.context)
        attempt.frame.control = NewPlan(compile_plan(event.plan, event.facts), context)
    except CallsheetError as error:
        fail(run, attempt, str(error), out)
    else:
        settle(run, attempt, None, out)


def _reopened(run: Run, event: Reopened, out: list[Command]) -> None:
    if run.result is None or run.schedule is None:
        return
    run.result = None
    run.schedule.try_again()
    advance(run, out)


def _cancelled(run: Run, event: Cancelled, out: list[Command]) -> None:
    _break_off(run, End(Status.CANCELLED, "", error=event.reason or "cancelled"), out)


def _time_up(run: Run, event: TimeUp, out: list[Command]) -> None:
    limit = run.limits.max_seconds
    refusal = Refusal("max_seconds", event.seconds if limit is None else limit, event.seconds)
    why = refusal.describe()
    _break_off(run, End(Status.FAILED, why, error=why, refusal=refusal), out)


def _limits_changed(run: Run, event: LimitsChanged, out: list[Command]) -> None:
    before, run.limits = run.limits, event.limits
    run.budget.change(event.limits)
    if run.ahead is not None:
        run.ahead.is_looking = event.limits.schedule == AUTO
    elif event.limits.schedule != before.schedule:
        run.ahead = run.may_run_ahead()


def _policy_changed(run: Run, event: PolicyChanged, out: list[Command]) -> None:
    if run.monitor is not None:
        run.monitor.change(event.policy)
        judge_again(run, run.monitor, out)


def _edited(run: Run, event: Edited, out: list[Command]) -> None:
    if run.ahead is not None:
        run.ahead.drop(run.budget)  # calls issued ahead were made from the values before the edit
    run.edit(event.values, notifies=not event.holds)
    if event.holds:
        run.edits = event.values


def refuse(run: Run, refused: RefusedByPolicy, out: list[Command]) -> None:
    """End the run because its policy objects; the commands of this event are withdrawn and never issued."""
    objection = refused.refusal
    for command in (*run.held, *out):
        attempt = None if isinstance(command, Finish) else run.call(command.key)
        if attempt is not None:
            give_back(run, attempt)
    out.clear()
    run.is_paused, run.unfilled, run.held = False, None, []
    why = objection.describe()
    end = End(Status.REFUSED, why, error=why, ended_at=objection.step or None)
    _break_off(run, end, out, objection)


def _break_off(run: Run, end: End, out: list[Command], objection: PolicyRefusal | None = None) -> None:
    """End the run and drop all open calls; calls that were reserved but not issued are given back."""
    for attempt in run.asleep.values():
        if not isinstance(attempt, Wait):
            give_back(run, attempt)
            run.budget.retries -= 1
    for attempt, asked in run.asking.open():
        if isinstance(asked, Approval) and not asked.answer:
            give_back(run, attempt)
    run.asking.clear()
    run.attempts.clear()
    run.inner.clear()
    run.asleep.clear()
    run.compiling.clear()
    run.budget.repairing.clear()
    run.planning = None
    run.finish(end, out, objection)


HANDLERS: dict[type, Callable[[Any, Any, list[Command]], None]] = {
    Succeeded: succeeded,
    Failed: failed,
    TimerFired: _woken,
    Started: _started,
    PlanCompiled: _compiled,
    Decided: decided,
    Doubted: doubted,
    Answered: answered,
    Cancelled: _cancelled,
    Reopened: _reopened,
    TimeUp: _time_up,
    LimitsChanged: _limits_changed,
    PolicyChanged: _policy_changed,
    Edited: _edited,
}


class Machine(Run):
    """One run of a program.

    `observer`, if given, is called with a Note for everything that happens to a step. A person is asked
    before each call of a tool named in `approve`; `approval_timeout` gives, by tool ("" for all others), the
    seconds after which an unanswered call is denied. With an `enforcement` each call is checked against a
    policy before its command is issued, and an objection ends the run. An event whose key is not open (late,
    repeated, unknown) changes nothing. The attributes of Run are for the parts of the machine; drivers read
    `result`, `is_paused`, `limits` and `program`.
    """

    __slots__ = ()

    def __init__(
        self,
        program: Program,
        limits: Limits | None = None,
        observer: Observer | None = None,
        approve: Iterable[str] = (),
        approval_timeout: Mapping[str, float] | None = None,
        enforcement: Enforcement | None = None,
    ) -> None:
        super().__init__(program, limits or Limits(), observer, approve, approval_timeout, enforcement)

    # ------------------------------------------------------------ events in, commands out

    def feed(self, event: Event, units: int = ALL) -> list[Command]:
        """Process an event; returns the commands that follow.

        After `units` steps and items the machine pauses, so that a driver can share its thread: `is_paused`
        is then true, and `go_on` continues. An event fed during a pause is processed after all the work left.
        """
        out: list[Command] = []
        since = 0
        if self.withdrawn:
            self.withdrawn = []
        if self.told:
            self.told = []
        if self.is_paused:
            out = self.go_on()
            since = len(out)
        if self.result is not None and not (isinstance(event, Reopened | LimitsChanged) and self.may_reopen):
            return out
        self.units_left = units
        try:
            if type(event) is Succeeded:
                succeeded(self, event, out)
            else:
                HANDLERS[type(event)](self, event, out)
        except RefusedByPolicy as refused:
            refuse(self, refused, out)
        if self.monitor is not None and self.monitor.observed:
            self.note_observed()
        if self.edits is not None and type(event) is not Edited:
            self.hold_edits()  # nothing followed from the event
        if self.ahead is not None:
            self.ahead.arrive(event)
            self._run_ahead(out, since)
        if self.is_paused:
            self.held = out[since:]
        return out

    def go_on(self, units: int = ALL) -> list[Command]:
        """Continue after a pause for at most `units` steps and items; returns the further commands."""
        out: list[Command] = []
        self.units_left = units
        try:
            catch_up(self, out)
        except RefusedByPolicy as refused:
            refuse(self, refused, out)
        if self.ahead is not None:
            self._run_ahead(out, 0)
        if self.is_paused:
            self.held += out
        elif self.held:
            self.held = []
        return out

    def _run_ahead(self, out: list[Command], since: int) -> None:
        """Answer calls issued ahead of their turn as soon as they are asked for, then issue further ones."""
        while self.ahead is not None:
            self.ahead.claim_started(out, since)
            since = len(out)
            if self.is_paused or self.result is not None or not self.is_started:
                return
            outcome = self.ahead.next_outcome()
            if outcome is None:
                for step in self.ahead.start_ready(self._turn(), out):
                    self.notify(NoteKind.EARLY, step, "its calls leave before its turn")
                return
            HANDLERS[type(outcome)](self, outcome, out)

    def _turn(self) -> Turn:
        """Where the run waits, in text order."""
        group = self.group
        attempt = next(iter(self.attempts.values()), None) or next(iter(self.inner.values()), None)
        frame = attempt[3] if isinstance(attempt, tuple) else None if attempt is None else attempt.frame
        items = frame.items if isinstance(frame, Frame) and group is None else None
        return Turn(
            self.pc,
            self.pc + 1 if group is None else group.end,
            1 if group is None else group.open,
            None if items is None else len(items),
            self.slots,
            self.visits,
            self.generation,
            self.budget,
        )

    # ------------------------------------------------------------ what can be seen

    @property
    def may_reopen(self) -> bool:
        """Whether a Reopened event would continue the run: it is a graph that has failed."""
        return self.schedule is not None and self.result is not None and self.result.status is Status.FAILED

    @property
    def steps_executed(self) -> int:
        """How many steps have been executed, over all plans of the run."""
        return self.budget.steps

    def usage(self) -> Usage:
        """What the run has used so far, except elapsed time, which only drivers know."""
        return self.budget.usage()

    def awaits(self, key: str) -> bool:
        """Whether an outcome with this key would be accepted; otherwise it changes nothing."""
        return self.result is None and self.is_open(key)

    def why_ended(self, key: str) -> str:
        """Why the task of an open call ends with it, so that it need not be sent; "" if the task goes on."""
        attempt = self.call(key) or self.compiling.get(key)
        return "" if attempt is None or self.tree is None else self.tree.why_ended(attempt)

    def open_keys(self) -> tuple[str, ...]:
        """The keys of all open calls, questions, waits and compilations."""
        plans = () if self.planning is None else (self.planning.key,)
        early = () if self.ahead is None else self.ahead.open_keys()
        calls = (*self.attempts, *self.inner)
        return (*calls, *self.asking.keys(), *self.asleep, *self.compiling, *plans, *early)

    def open_commands(self) -> dict[str, Awaited]:
        """The commands that were issued and not answered yet, by key."""
        early = [] if self.ahead is None else self.ahead.open_commands(self.slots)
        return {**open_commands(self), **{command.key: command for command in early}}

    # ------------------------------------------------------------ snapshots

    def state(self) -> Run | None:
        """The state to take a snapshot of: this machine itself.

        None before the start, in a pause, after the end, in a session, and if the schedule was changed from
        `auto`.
        """
        if self.ahead is not None and not self.ahead.is_looking:
            return None
        if any(call.talk.allowed.is_session for call in self.inner.values()):
            return None  # a session does not keep its calls, so it is always replayed from its start
        return self if self.is_started and not self.is_paused and self.result is None else None

    @classmethod
    def at(
        cls,
        state: Run,
        observer: Observer | None = None,
        approve: Iterable[str] = (),
        approval_timeout: Mapping[str, float] | None = None,
    ) -> Machine:
        """A machine that continues from a state.

        The observer is told which steps were visited before, and then what follows. `approve` and
        `approval_timeout` are the rules that the run was started with.
        """
        machine = cls(state.program, state.budget.limits, observer, approve, approval_timeout)
        machine.take_over(state)
        if observer is not None:
            for code, visits in zip(state.program.steps, state.visits, strict=True):
                if visits:
                    observer(Note(NoteKind.BEFORE, code.id))
        return machine
