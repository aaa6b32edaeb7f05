"""The interpreter: events in, commands out.

`Machine.feed` is the only way in. Everything that happens is a function of the program, the
limits and the events, in their order; that it may be done in slices (`go_on`) changes nothing.
Outcomes of a group or of the items of a FOREACH are kept by place and acted upon together, so
the order in which they arrive does not matter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON, Cast
from callsheet.machine.asking import Approval, Asked, Asking, Question, headline, said_by, unanswered
from callsheet.machine.budget import REPLAN, SIZED, Budget, Refusal
from callsheet.machine.closures import Eval, Unresolved
from callsheet.machine.commands import (
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Command,
    Compile,
    Finish,
    Probe,
    RunAgent,
    Sleep,
)
from callsheet.machine.doubt import (
    FAILED_BY_A_PERSON,
    FAILED_BY_POLICY,
    call_of,
    may_redeliver,
    next_about,
)
from callsheet.machine.events import (
    Answered,
    Cancelled,
    Decided,
    Decision,
    Doubted,
    Event,
    Failed,
    LimitsChanged,
    PlanCompiled,
    Reopened,
    Started,
    Succeeded,
    TimerFired,
    TimeUp,
    TookPlace,
    Verdict,
)
from callsheet.machine.frames import SKIPPED, Attempt, Control, End, Frame, Group, Jump, NewPlan
from callsheet.machine.limits import Limits
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode, compile_plan
from callsheet.machine.remarks import Cut, Remark, describe_remark
from callsheet.machine.result import Result, Status
from callsheet.machine.schedule import Schedule
from callsheet.machine.snapshots import State
from callsheet.machine.usage import Usage
from callsheet.machine.values import cast_value, is_empty, items_of, to_text
from callsheet.machine.variables import Variables

Observer = Callable[[Note], None]

_NO_INPUTS: list[JSON] = []
ALL = sys.maxsize
"""As many steps and items as there are."""
_CALLS = frozenset({Kind.TOOL, Kind.MODEL, Kind.AGENT, Kind.ASK})
_TOOL, _RESPOND = Kind.TOOL, Kind.RESPOND
"""Looked at for every step: a module's name is found faster than an enum's member."""


class Machine:
    """One run of a program.

    `observer`, if given, is called with a Note for everything that happens to a step. A person
    is asked before each call of a tool that `approve` names. An event of a key that is not open
    (late, repeated, unknown) changes nothing.
    """

    __slots__ = (
        "_asking",
        "_asleep",
        "_attempts",
        "_budget",
        "_compiling",
        "_gated",
        "_generation",
        "_group",
        "_is_started",
        "_last",
        "_left",
        "_observer",
        "_pc",
        "_program",
        "_schedule",
        "_slots",
        "_unfilled",
        "_variables",
        "_visits",
        "is_paused",
        "limits",
        "result",
    )

    def __init__(
        self,
        program: Program,
        limits: Limits | None = None,
        observer: Observer | None = None,
        approve: Iterable[str] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.result: Result | None = None
        self._observer = observer
        self._attempts: dict[str, Attempt] = {}
        self._asking = Asking(approve)
        self._asleep: dict[str, Attempt] = {}
        self._compiling: dict[str, Attempt] = {}
        self._is_started = False
        self._generation = ""
        self._budget = Budget(self.limits)
        self._last: JSON = None
        self._left = ALL
        self.is_paused = False
        """Whether there is more to do before the next event."""
        self._unfilled: Frame | None = None
        self._load(program)

    # ------------------------------------------------------------ the outside

    def feed(self, event: Event, units: int = ALL) -> list[Command]:
        """What is to be done now that `event` has happened.

        After so many steps and items the machine pauses, for those who share a thread with
        others: `is_paused` says so, and `go_on` goes on. An event that is fed before that
        finds all of it done first.
        """
        out: list[Command] = []
        if self.is_paused:
            out = self.go_on()
        if self.result is not None and not (isinstance(event, Reopened | LimitsChanged) and self.may_reopen):
            return out
        self._left = units
        if type(event) is Succeeded:
            self._on_succeeded(event, out)
        else:
            self._HANDLERS[type(event)](self, event, out)
        return out

    def go_on(self, units: int = ALL) -> list[Command]:
        """Do so much more of what a pause has left; gives the further commands."""
        out: list[Command] = []
        self._left = units
        frame, group = self._unfilled, self._group
        self._unfilled, self.is_paused = None, False
        if frame is not None:
            frame.open -= 1
            self._fill(frame, out)
            if group is None or not frame.grouped or group.next >= group.end:
                self._complete(frame, out)
                return out
            group.open -= not frame.open
            self._collect(frame)
        if group is not None:
            self._start_members(group, out)
            self._complete_group(group, out)
        else:
            self._advance(out)
        return out

    def variables(self) -> dict[str, JSON]:
        """The variables that are set now."""
        return self._variables.to_dict()

    @property
    def may_reopen(self) -> bool:
        """Whether a Reopened event would let the run go on: a graph, and it has failed."""
        return self._schedule is not None and self.result is not None and self.result.status is Status.FAILED

    @property
    def program(self) -> Program:
        """The program that runs now: the first one, or that of the last re-plan."""
        return self._program

    @property
    def steps_executed(self) -> int:
        """How many steps have been executed, over all plans of the run."""
        return self._budget.steps

    def usage(self) -> Usage:
        """What the run has used so far, but for the time, which drivers know."""
        return self._budget.usage()

    def is_open(self, key: str) -> bool:
        """Whether the call of this key has no outcome yet, or waits for a yes."""
        return key in self._attempts or self._asking.is_open(key)

    def open_keys(self) -> tuple[str, ...]:
        """The keys of all that is under way."""
        return (*self._attempts, *self._asking.keys(), *self._asleep, *self._compiling)

    def state(self) -> State | None:
        """All that the run has come to, shared with this machine.

        None before its start, in a pause, after its end, for a graph, and once people have been
        asked or answers have been lost: such runs are always folded.
        """
        if self._schedule is not None or not self._is_started or self.is_paused or self.result is not None:
            return None
        attempts = (*self._attempts.values(), *self._asleep.values())
        if self._asking.was_used or any(a.delivery or a.redelivered or a.is_probing for a in attempts):
            return None
        return State(
            self._program,
            self._variables,
            self._visits,
            self._pc,
            self._generation,
            self._budget,
            self._last,
            self._group,
            self._attempts,
            self._asleep,
            self._compiling,
        )

    @classmethod
    def at(cls, state: State, observer: Observer | None = None, approve: Iterable[str] = ()) -> Machine:
        """A machine in a state; the observer hears which steps had been executed, and what comes.

        `approve` are the rules that the run was started with.
        """
        machine = cls(state.program, state.budget.limits, observer, approve)
        machine._is_started = True
        machine._variables = state.variables
        machine._slots = state.variables.slots
        machine._visits = state.visits
        machine._pc = state.pc
        machine._generation = state.generation
        machine._budget = state.budget
        machine._last = state.last
        machine._group = state.group
        machine._attempts = state.attempts
        machine._asleep = state.asleep
        machine._compiling = state.compiling
        if observer is not None:
            for code, visits in zip(state.program.steps, state.visits, strict=True):
                if visits:
                    observer(Note(NoteKind.BEFORE, code.id))
        return machine

    def open_commands(self) -> dict[str, Awaited]:
        """The commands that have been given and not been answered yet, by key."""
        commands: list[Command] = []
        for attempt in (*self._attempts.values(), *self._compiling.values()):
            self._ask(attempt, commands)
        for attempt in self._asleep.values():
            commands.append(self._pause_of(attempt))
        return {command.key: command for command in commands if not isinstance(command, Finish)}

    # ------------------------------------------------------------ events

    def _on_started(self, event: Started, out: list[Command]) -> None:
        if self._is_started:
            return
        self._is_started = True
        self._variables.set_initial()
        self._variables.take_over(event.inputs)
        self._advance(out)

    def _on_succeeded(self, event: Succeeded, out: list[Command]) -> None:
        attempt = self._attempts.pop(event.key, None)
        if attempt is None:
            return
        frame = attempt.frame
        value = event.value
        if type(value) in SIZED:
            self._budget.measure(value)
        if event.remarks or event.spent is not None:
            self._note_beside(attempt, event)
        if frame.items is not None or frame.grouped:
            self._settle(attempt, value, out)
            return
        frame.value = value
        self._store(frame)
        self._pc = frame.code.number + 1
        self._advance(out)

    def _on_failed(self, event: Failed, out: list[Command]) -> None:
        attempt = self._attempts.pop(event.key, None) or self._compiling.pop(event.key, None)
        if attempt is None:
            return
        self._budget.measure(event.error)
        self._note_beside(attempt, event)
        attempt.delivery = (attempt.delivery or attempt.key) if event.unsettled else ""
        if attempt.number <= attempt.frame.code.retries and self._may_retry(attempt):
            self._retry(attempt, event.error, out)
        else:
            self._fail(attempt, event.error, out)

    def _may_retry(self, attempt: Attempt) -> bool:
        """Whether the budget has room for one more attempt and the wait before it."""
        code, budget = attempt.frame.code, self._budget
        seconds = self.limits.pause(attempt.number, code.delay, code.backoff)
        refusal = budget.reserve_wait(seconds)
        if refusal is None and code.kind is _TOOL:
            refusal = budget.reserve(code.tool)
        elif refusal is None:
            refusal = budget.reserve_model(code.tool or REPLAN)
        if refusal is None:
            budget.retries += 1
        return self._has_room(attempt.frame, refusal)

    def _fail(self, attempt: Attempt, error: str, out: list[Command]) -> None:
        """A call has failed for good: its error stands where its result would."""
        frame, code = attempt.frame, attempt.frame.code
        frame.failed |= {attempt.index}
        leads_on = code.fail_target is not None or code.fail_message is not None
        if leads_on:
            frame.stopped = True
        elif code.kind is Kind.REPLAN:
            frame.control = self._failure(code, f"no new plan: {error}")
        if self._observer is not None:
            self._observer(Note(NoteKind.FAILED, code.id, error))
        self._settle(attempt, error, out)

    def _note_beside(self, attempt: Attempt, event: Succeeded | Failed | PlanCompiled) -> None:
        """Count what a call has spent, and tell the observer what else stands beside its outcome."""
        if event.spent is not None:
            self._budget.spend(event.spent)
        self._tell(attempt, event.remarks)

    def _tell(self, attempt: Attempt, remarks: tuple[Remark, ...]) -> None:
        """Tell the observer what is to be known of an outcome beside its value."""
        if self._observer is None:
            return
        frame = attempt.frame
        item = "" if frame.items is None else f"item {attempt.index}: "
        for remark in remarks:
            kind = NoteKind.CUT if isinstance(remark, Cut) else NoteKind.FACT
            self._observer(Note(kind, frame.code.id, item + describe_remark(remark)))

    def _on_timer(self, event: TimerFired, out: list[Command]) -> None:
        attempt = self._asleep.pop(event.key, None)
        if attempt is not None:
            self._emit(attempt, out)

    def _on_compiled(self, event: PlanCompiled, out: list[Command]) -> None:
        attempt = self._compiling.pop(event.key, None)
        if attempt is None:
            return
        self._note_beside(attempt, event)
        try:
            attempt.frame.control = NewPlan(compile_plan(event.plan, event.facts))
        except CallsheetError as error:
            self._fail(attempt, str(error), out)
        else:
            self._settle(attempt, None, out)

    def _on_decided(self, event: Decided, out: list[Command]) -> None:
        attempt = self._attempts.get(event.key)
        if attempt is None:
            return
        attempt.is_probing = False
        if event.by and self._observer is not None:
            found = "had taken place" if isinstance(event.decision, TookPlace) else "had not taken place"
            self._observer(Note(NoteKind.FACT, attempt.frame.code.id, f"{event.by}: the call {found}"))
        match event.decision:
            case Decision.RETRY if event.by and not may_redeliver(attempt):
                pass  # found again and again not to have taken place: a person has to look
            case Decision.RETRY:
                self._deliver_again(attempt, out)
            case Decision.SKIP:
                self._on_succeeded(Succeeded(event.key, None), out)
            case Decision.FAIL:
                self._fail(self._attempts.pop(event.key), FAILED_BY_A_PERSON, out)
            case TookPlace(value=value):
                self._on_succeeded(Succeeded(event.key, value), out)

    def _on_doubted(self, event: Doubted, out: list[Command]) -> None:
        """A call that falls into doubt stays open until it is decided."""
        attempt = self._attempts.get(event.key)
        if attempt is None:
            return
        following = next_about(attempt)
        attempt.is_probing = isinstance(following, Probe)
        if isinstance(following, Probe):
            out.append(following)
        elif following is Decision.RETRY:
            self._deliver_again(attempt, out)
        elif following is Decision.FAIL:
            self._fail(self._attempts.pop(event.key), FAILED_BY_POLICY, out)

    def _deliver_again(self, attempt: Attempt, out: list[Command]) -> None:
        """Make the same call once more, if the budget has one left."""
        attempt.redelivered += 1
        if self._has_room(attempt.frame, self._budget.reserve(attempt.frame.code.tool)):
            self._emit(attempt, out)
        else:
            self._fail(self._attempts.pop(attempt.key), "the run has no call left to make it again", out)

    def _on_answered(self, event: Answered, out: list[Command]) -> None:
        """A person has answered: the call is made, or the step has its value, or it has failed."""
        found = self._asking.close(event.key, event.digest)
        if found is None:
            return
        attempt, asked = found
        verdict, code = event.verdict, attempt.frame.code
        if self._observer is not None:
            self._observer(Note(NoteKind.ANSWERED, code.id, said_by(verdict, event.by, event.note)))
        if verdict is Verdict.DENY:
            self._fail(attempt, said_by("denied", event.by, event.note), out)
        elif isinstance(asked, Approval) and verdict is not Verdict.EXPIRE:
            self._launch(attempt, out)
        else:
            self._attempts[event.key] = attempt
            self._take_answer(event, asked, out)

    def _take_answer(self, event: Answered, asked: Asked, out: list[Command]) -> None:
        """Go on with an answer to a question, or with what stands for one when its time is over."""
        if event.verdict is not Verdict.EXPIRE:
            value = True if event.verdict is Verdict.APPROVE and event.value is None else event.value
            self._on_succeeded(Succeeded(event.key, value), out)
        elif isinstance(asked, Question) and asked.has_default:
            self._on_succeeded(Succeeded(event.key, asked.default), out)
        else:
            self._on_failed(Failed(event.key, unanswered(asked)), out)

    def _on_reopened(self, event: Reopened, out: list[Command]) -> None:
        if self.result is None or self._schedule is None:
            return
        self.result = None
        self._schedule.try_again()
        self._advance(out)

    def _on_cancelled(self, event: Cancelled, out: list[Command]) -> None:
        self._break_off(End(Status.CANCELLED, "", error=event.reason or "cancelled"), out)

    def _on_time_up(self, event: TimeUp, out: list[Command]) -> None:
        limit = self.limits.max_seconds
        refusal = Refusal("max_seconds", event.seconds if limit is None else limit, event.seconds)
        why = refusal.describe()
        self._break_off(End(Status.FAILED, why, error=why, refusal=refusal), out)

    def _on_limits_changed(self, event: LimitsChanged, out: list[Command]) -> None:
        self.limits = event.limits
        self._budget.change(event.limits)

    def _break_off(self, end: End, out: list[Command]) -> None:
        """End the run with whatever is under way."""
        self._asking.clear()
        self._attempts.clear()
        self._asleep.clear()
        self._compiling.clear()
        self._finish(end, out)

    # ------------------------------------------------------------ going on

    def _advance(self, out: list[Command]) -> None:
        """Start steps in text order until one has to be waited for, or the run ends."""
        if self._schedule is not None:
            self._start_ready(self._schedule, out)
            return
        steps = self._program.steps
        while self.result is None:
            if self._left <= 0:
                self.is_paused = True
                return
            self._left -= 1
            if self._pc >= len(steps):
                self._finish(End(Status.DONE, to_text(self._last)), out)
                return
            code = steps[self._pc]
            if code.group != NOWHERE:
                self._group = group = Group(code.number, code.group_end)
                self._start_members(group, out)
                if group.open or group.next < group.end:
                    return
                self._commit_group(group, out)
                continue
            frame = self._start(code, False, out)
            if frame.open:
                return
            self._commit(frame, code.number + 1, out)

    def _start_ready(self, schedule: Schedule, out: list[Command]) -> None:
        """Start the steps of a graph whose dependencies are done, as many as may be under way."""
        steps, most = self._program.steps, self.limits.max_concurrency
        while self.result is None and schedule.open < most:
            if self._left <= 0 and schedule.has_ready():
                self.is_paused = True
                return
            number = schedule.next()
            if number is None:
                break
            self._left -= 1
            frame = self._start(steps[number], True, out)
            if not frame.open:
                self._collect(frame)
                self._commit_node(schedule, frame)
        if not schedule.open and self.result is None:
            self._finish(schedule.end(steps, self._slots), out)

    def _commit_node(self, schedule: Schedule, frame: Frame) -> None:
        """A step of a graph is settled: what depends on it may start, or never will."""
        code, observer, control = frame.code, self._observer, frame.control
        end = control if isinstance(control, End) else None
        if not frame.failed and (end is None or end.status is Status.DONE):
            self._store(frame)
            schedule.done(code.number)
        else:
            error = to_text(frame.value)
            if end is not None and not end.terminated:
                error = f"a budget is spent: {end.response}"
                if observer is not None:
                    observer(Note(NoteKind.FAILED, code.id, error))
            lost = schedule.failed(code.number, error)
            if observer is not None:
                for number in lost:
                    observer(Note(NoteKind.SKIPPED, self._program.steps[number].id, f"{code.id} failed"))
        if end is not None and (end.terminated or end.status is Status.DONE):
            schedule.leads_to(code.number, end)

    def _start_members(self, group: Group, out: list[Command]) -> None:
        """Start the members of a group in text order, until a pause."""
        steps = self._program.steps
        while group.next < group.end and self._unfilled is None:
            if self._left <= 0:
                self.is_paused = True
                return
            self._left -= 1
            frame = self._start(steps[group.next], True, out)
            group.next += 1
            group.frames.append(frame)
            if frame.open:
                group.open += 1

    def _complete_group(self, group: Group, out: list[Command]) -> None:
        """Once all members have started and nothing of them is under way: commit, and go on."""
        if not group.open and group.next >= group.end:
            self._commit_group(group, out)
            self._advance(out)

    def _commit(self, frame: Frame, following: int, out: list[Command]) -> None:
        self._store(frame)
        if frame.control is None:
            self._pc = following
        else:
            self._obey(frame.code, frame.control, out)

    def _commit_group(self, group: Group, out: list[Command]) -> None:
        self._group = None
        for frame in group.frames:
            self._store(frame)
        led = [frame for frame in group.frames if frame.control is not None]
        if not led:
            self._pc = group.end
            return
        refused = (f for f in led if isinstance(f.control, End) and f.control.refusal is not None)
        frame = next(refused, led[0])
        assert frame.control is not None
        self._obey(frame.code, frame.control, out)

    def _store(self, frame: Frame) -> None:
        """Put the frame's value into its variable and tell the observer how the step ended."""
        if not frame.ran:
            return
        code, value, observer = frame.code, frame.value, self._observer
        slot = code.out_slot
        if slot >= 0:
            if code.cast is not None and frame.items is None and not frame.failed:
                value = self._cast(code, value)
            self._variables.assign(slot, value)
            self._last = value
        if observer is not None and not (frame.failed and frame.items is None):
            var = self._program.names[slot] if slot != NOWHERE else None
            observer(Note(NoteKind.FINISHED, code.id, "", var, value))

    def _cast(self, code: StepCode, value: JSON) -> JSON:
        assert code.cast is not None
        made, fits = cast_value(code.cast, value)
        if not fits and self._observer is not None:
            self._observer(Note(NoteKind.CAST_FAILED, code.id, f"not a value for :{code.cast}", None, value))
        return made

    def _obey(self, code: StepCode, control: Control, out: list[Command]) -> None:
        match control:
            case Jump(number=number, target=target):
                if self._observer is not None:
                    self._observer(Note(NoteKind.JUMPED, code.id, target))
                self._pc = number
            case End():
                self._finish(control, out)
            case NewPlan(program=program):
                self._replan(code, program)

    # ------------------------------------------------------------ starting a step

    def _start(self, code: StepCode, grouped: bool, out: list[Command]) -> Frame:
        """A new visit of a step: guards asked, first calls made."""
        visits = self._visits
        visits[code.identity] = visit = visits[code.identity] + 1
        prefix = code.prefix if visit == 1 else f"{code.id}@{visit}."
        if self._generation:
            prefix = self._generation + prefix
        frame = Frame(code, prefix, grouped)
        if code.source is not None:
            frame.items = items = items_of(code.source(self._slots))
            if self._has_room(frame, self._budget.refuse_items(len(items))) and self._count(frame):
                frame.results = [SKIPPED] * len(items)
                self._fill(frame, out)
                self._collect(frame)
            return frame
        why = self._reason_to_skip(code) if code.may_skip else None
        if why is not None:
            if self._observer is not None:
                self._observer(Note(NoteKind.SKIPPED, code.id, why))
        elif self._count(frame):
            try:
                for slot, name in code.reads:
                    if not self._variables.is_set(slot):
                        raise Unresolved(name)
                self._perform(frame, 0, out)
            except Unresolved as error:
                self._fail_unmade(frame, f"${{{error}}} has no value")
        return frame

    def _fail_unmade(self, frame: Frame, error: str) -> None:
        """A call whose arguments cannot be made has failed before it could leave."""
        frame.failed |= {0}
        frame.value = error
        if self._observer is not None:
            self._observer(Note(NoteKind.FAILED, frame.code.id, error))

    def _reason_to_skip(self, code: StepCode) -> str | None:
        """Why the step does nothing this time; None if it does something."""
        if code.condition is not None and not code.condition(self._slots):
            return "the condition does not hold"
        if code.kind is _RESPOND and self._has_no_answer(code):
            return "there is nothing to answer with"
        return None

    def _count(self, frame: Frame) -> bool:
        """Count an executed step; False where the run has no step left."""
        budget = self._budget
        if budget.steps >= self.limits.max_steps:
            return self._has_room(frame, Refusal("max_steps", self.limits.max_steps, budget.steps))
        budget.steps += 1
        frame.ran = True
        if self._observer is not None:
            self._observer(Note(NoteKind.STARTED, frame.code.id))
        return True

    def _has_room(self, frame: Frame, refusal: Refusal | None) -> bool:
        """Whether nothing was refused; else the frame starts nothing more, and the run fails behind it."""
        if refusal is None:
            return True
        frame.stopped = True
        frame.ran = frame.ran and frame.items is not None  # a call that was refused gave no result
        frame.control = self._failure(frame.code, refusal.describe(), refusal)
        return False

    def _fill(self, frame: Frame, out: list[Command]) -> None:
        """Start items of a FOREACH, in order, as long as the window has room.

        A pause counts as one more call under way, so that the frame stays open.
        """
        code, items, slots = frame.code, frame.items, self._slots
        assert items is not None
        window = self.limits.window if code.concurrent else 1
        before = slots[code.loop_slot]
        while frame.next < len(items) and frame.open < window and not frame.stopped:
            if self._left <= 0:
                frame.open += 1
                self._unfilled, self.is_paused = frame, True
                break
            self._left -= 1
            index = frame.next
            frame.next += 1
            slots[code.loop_slot] = items[index]
            if code.condition is None or code.condition(slots):
                self._perform(frame, index, out)
        slots[code.loop_slot] = before

    def _perform(self, frame: Frame, index: int, out: list[Command]) -> None:
        """Do the action once, or make the call that does it."""
        code, slots = frame.code, self._slots
        kind = code.kind
        if kind is _TOOL and code.number not in self._gated:
            args = code.arguments(slots)
            budget = self._budget
            if budget.ahead > 0 and not code.recurs:  # as `reserve` does it, a tenth of a step faster
                budget.ahead -= 1
                budget.calls[code.tool] += 1
            elif not self._has_room(frame, budget.reserve(code.tool, args if code.recurs else None)):
                return
            key = f"{frame.prefix}{index}.1"
            self._attempts[key] = Attempt(frame, index, key, args, _NO_INPUTS)
            frame.open += 1
            out.append(CallTool(key, code.id, code.tool, args, code.wants_data))
        elif kind in _CALLS:
            inputs, args = [make(slots) for make in code.inputs], code.arguments(slots)
            made_of = [inputs, args] if code.recurs else None
            asks_model = kind is Kind.MODEL or kind is Kind.AGENT
            reserve = self._budget.reserve_model if asks_model else self._budget.reserve
            if not self._has_room(frame, reserve(code.tool, made_of)):
                return
            attempt = Attempt(frame, index, f"{frame.prefix}{index}.1", args, inputs)
            frame.open += 1
            self._emit(attempt, out)
        elif kind is Kind.RESPOND:
            self._respond(frame, index)
        elif kind is Kind.GOTO:
            frame.stopped = True
            frame.control = self._jump(code, code.target, code.goto_name)
        elif kind is Kind.TERMINATE:
            frame.stopped = True
            message = _joined(code.inputs, slots)
            frame.control = End(Status.DONE, message, terminated=True, ended_at=code.id)
        else:
            self._ask_replan(frame, index, out)

    def _emit(self, attempt: Attempt, out: list[Command]) -> None:
        """Make the call of an attempt, or ask a person first."""
        code = attempt.frame.code
        if code.kind is Kind.ASK or code.number in self._gated:
            asked = self._asking.ask(attempt, self._program)
            if asked is not None:
                self._attempts.pop(attempt.key, None)  # a call in doubt that is to be made again
                if self._observer is not None:
                    self._observer(Note(NoteKind.ASKED, code.id, headline(asked)))
                out.append(Ask(attempt.key, code.id, asked))
                return
        self._launch(attempt, out)

    def _launch(self, attempt: Attempt, out: list[Command]) -> None:
        code, key = attempt.frame.code, attempt.key
        (self._compiling if code.kind is Kind.REPLAN else self._attempts)[key] = attempt
        self._ask(attempt, out)

    def _ask(self, attempt: Attempt, out: list[Command]) -> None:
        """The command that an attempt is."""
        code, key = attempt.frame.code, attempt.key
        if code.kind is _TOOL or code.kind is Kind.ASK:
            out.append(call_of(attempt))
        elif code.kind is Kind.MODEL:
            out.append(CallModel(key, code.id, code.tool, attempt.inputs, attempt.args))
        elif code.kind is Kind.AGENT:
            out.append(RunAgent(key, code.id, code.tool, attempt.inputs, attempt.args))
        else:
            out.append(Compile(key, code.id, str(attempt.inputs[0]), self.variables()))

    def _has_no_answer(self, code: StepCode) -> bool:
        """Whether steps follow and there is nothing to answer with yet."""
        if code.number + 1 == len(self._program.steps):
            return False
        return all(is_empty(make(self._slots)) for make in code.inputs)

    def _respond(self, frame: Frame, index: int) -> None:
        """Note the answer, or that of an item."""
        code = frame.code
        values = [make(self._slots) for make in code.inputs]
        if frame.items is None:
            frame.control = End(Status.DONE, _join(values), ended_at=code.id)
        elif not all(is_empty(value) for value in values):
            frame.results[index] = _join(values)

    def _ask_replan(self, frame: Frame, index: int, out: list[Command]) -> None:
        code = frame.code
        frame.stopped = True
        refusal = self._budget.reserve_replan()
        if refusal is not None:
            why = refusal.describe()
            frame.control = End(Status.FAILED, why, True, error=why, ended_at=code.id, refusal=refusal)
            return
        if not self._has_room(frame, self._budget.reserve_model(REPLAN)):
            return
        attempt = Attempt(frame, index, f"{frame.prefix}{index}.1", {}, [_joined(code.inputs, self._slots)])
        frame.open += 1
        self._emit(attempt, out)

    # ------------------------------------------------------------ outcomes

    def _settle(self, attempt: Attempt, value: JSON, out: list[Command]) -> None:
        """One call has its final outcome: keep it, start what may follow, commit what is whole."""
        frame = attempt.frame
        frame.open -= 1
        if frame.items is None:
            frame.value = value
        else:
            frame.results[attempt.index] = value
            self._fill(frame, out)
        if not frame.open:
            self._complete(frame, out)

    def _complete(self, frame: Frame, out: list[Command]) -> None:
        """Once nothing of a frame is under way: commit what is whole, and go on."""
        if frame.open:
            return
        if frame.items is not None or frame.failed:
            self._collect(frame)
        if not frame.grouped:
            self._commit(frame, frame.code.number + 1, out)
            self._advance(out)
            return
        if self._schedule is not None:
            self._commit_node(self._schedule, frame)
            self._advance(out)
            return
        group = self._group
        assert group is not None
        group.open -= 1
        if not group.open:
            self._complete_group(group, out)

    def _collect(self, frame: Frame) -> None:
        """Once nothing of a frame is under way: its value, and where a failure leads."""
        if frame.open:
            return
        if frame.items is not None:
            if frame.code.kind is Kind.RESPOND:
                answers = [r for r in frame.results if r is not SKIPPED]
                if answers:
                    frame.control = End(Status.DONE, "\n".join(answers), ended_at=frame.code.id)
                return
            frame.value = self._gathered(frame)
        if frame.failed and frame.control is None:
            frame.control = self._diversion(frame, min(frame.failed))

    def _gathered(self, frame: Frame) -> list[JSON]:
        """The results of the items in their order, each cast, without those that were skipped.

        Where a failure leads elsewhere, what comes after the first failed item does not count:
        which later items had been started depends on the order in which answers came.
        """
        code, results = frame.code, frame.results
        upto = min(frame.failed) + 1 if frame.failed and frame.stopped else len(results)
        casts = code.cast is not None and code.cast is not Cast.LIST
        return [
            self._cast(code, result) if casts and index not in frame.failed else result
            for index, result in enumerate(results[:upto])
            if result is not SKIPPED
        ]

    def _diversion(self, frame: Frame, index: int) -> Control | None:
        """Where ON_FAIL leads; the message may show the item and the error."""
        code, slots = frame.code, self._slots
        if code.fail_target is not None:
            return self._jump(code, self._program.number_of.get(code.fail_target, NOWHERE), code.fail_target)
        if code.fail_message is None:
            return None
        error = frame.value if frame.items is None else frame.results[index]
        kept = list(slots)
        if frame.items is not None:
            slots[code.loop_slot] = frame.items[index]
        if code.out_slot != NOWHERE:
            slots[code.out_slot] = error
        message = _joined(code.fail_message, slots)
        slots[:] = kept
        return End(Status.FAILED, message, True, error=str(error), ended_at=code.id)

    def _retry(self, attempt: Attempt, error: str, out: list[Command]) -> None:
        code = attempt.frame.code
        attempt.number += 1
        attempt.key = f"{attempt.frame.prefix}{attempt.index}.{attempt.number}"
        if self._observer is not None:
            self._observer(Note(NoteKind.RETRYING, code.id, error))
        pause = self._pause_of(attempt)
        if pause.seconds > 0:
            self._asleep[attempt.key] = attempt
            out.append(pause)
        else:
            self._emit(attempt, out)

    def _pause_of(self, attempt: Attempt) -> Sleep:
        """The wait before a further attempt."""
        code = attempt.frame.code
        return Sleep(attempt.key, code.id, self.limits.pause(attempt.number - 1, code.delay, code.backoff))

    # ------------------------------------------------------------ new plans and the end

    def _load(self, program: Program) -> None:
        self._program = program
        self._gated = self._asking.gated(program)
        self._variables = Variables(program)
        self._slots = self._variables.slots
        self._visits = [0] * len(program.steps)
        self._pc = 0
        self._group: Group | None = None
        self._schedule = None if program.graph is None else Schedule(program.graph)

    def _replan(self, code: StepCode, program: Program) -> None:
        carried = self.variables()
        self._budget.replans += 1
        self._generation = f"r{self._budget.replans}/"
        self._load(program)
        self._variables.take_over(carried)
        self._variables.set_initial()
        if self._observer is not None:
            self._observer(Note(NoteKind.REPLANNED, code.id, f"{len(program.steps)} new steps"))

    def _jump(self, code: StepCode, number: int, target: str) -> Control:
        if number == NOWHERE:
            return self._failure(code, f"there is no step {target} to go to")
        return Jump(number, target)

    def _failure(self, code: StepCode, message: str, refusal: Refusal | None = None) -> End:
        return End(Status.FAILED, message, error=message, ended_at=code.id, refusal=refusal)

    def _finish(self, end: End, out: list[Command]) -> None:
        status, response, terminated, error, ended_at, refusal = end
        variables, steps, usage = self.variables(), self._budget.steps, self._budget.usage()
        self.result = final = Result(
            status, response, variables, steps, terminated, error, ended_at, refusal, usage
        )
        if self._observer is not None:
            self._observer(Note(NoteKind.ENDED, final.ended_at or "", final.status))
        out.append(Finish(final))

    _HANDLERS: ClassVar[dict[type, Callable[[Machine, Any, list[Command]], None]]] = {
        Failed: _on_failed,
        TimerFired: _on_timer,
        Started: _on_started,
        PlanCompiled: _on_compiled,
        Decided: _on_decided,
        Doubted: _on_doubted,
        Answered: _on_answered,
        Cancelled: _on_cancelled,
        Reopened: _on_reopened,
        TimeUp: _on_time_up,
        LimitsChanged: _on_limits_changed,
    }


def _join(values: list[JSON]) -> str:
    return " ".join([text for text in map(to_text, values) if text])


def _joined(inputs: tuple[Eval, ...], slots: list[Any]) -> str:
    return _join([make(slots) for make in inputs])
