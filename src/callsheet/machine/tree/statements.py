"""Executes the statements of a plan tree without blocks: calls, pure code, LET, REQUIRE, answers, waits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.ir import Call, Step
from callsheet.ir.failing import BY_NAME, Failing
from callsheet.ir.inverse import Fate, Inverse, reversal
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.sagas import ARGS, NUMBER, ORDER, TOOL
from callsheet.ir.tree import Word
from callsheet.machine.agents.talk import opened
from callsheet.machine.budget import REPLAN
from callsheet.machine.calls import emit
from callsheet.machine.commands import CallTool, Command, Sleep
from callsheet.machine.doubt import DOUBT
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.expressions.encoding import answerable, to_json
from callsheet.machine.expressions.functions import FUNCTIONS
from callsheet.machine.expressions.values import FailureRecord
from callsheet.machine.frames import Attempt, End, TreeFrame, Wait
from callsheet.machine.keys import segment
from callsheet.machine.notes import NoteKind
from callsheet.machine.program import IN_TREE, NOWHERE, Kind, StepCode
from callsheet.machine.result import Status
from callsheet.machine.tree.activations import (
    NEXT,
    STAY,
    WAITING,
    Activation,
    Done,
    Leaving,
    leave,
    new_environment,
)
from callsheet.machine.tree.execution import Execution, RunEnds
from callsheet.machine.tree.failures import (
    Failure,
    StatementFailed,
    failure_of,
    is_failure,
    of_compute,
    record_of,
)
from callsheet.machine.tree.program import (
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    LetOp,
    RemedyCode,
    ReplanOp,
    RequireOp,
    SayOp,
    Store,
    TimerOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.values import PRINTED, SCALARS, conformed, is_data, read_outputs, tagged

if TYPE_CHECKING:
    from callsheet.machine.run import Run

_SHOWN = 5
"""How many calls that cannot be undone a message names."""


class Left(NamedTuple):
    """A call that is not undone, and why."""

    done: Done
    why: str

    def __str__(self) -> str:
        return f"{self.done.step} @{self.done.tool} ({self.why})"


class Taken(NamedTuple):
    """The calls that are undone, newest first, each with the arguments of its inverse; those that are not."""

    calls: tuple[tuple[Done, dict[str, Any]], ...]
    left: tuple[Left, ...]

    @property
    def given(self) -> Label:
        """The label of all that the calls which are undone have sent and given."""
        return join(done.label or LITERAL for done, _ in self.calls)

    @property
    def led(self) -> Label:
        """The label of all decisions that led to a call, and of what says why one is not undone."""
        every = [done for done, _ in self.calls] + [one.done for one in self.left]
        says = [one.done.label or LITERAL for one in self.left if one.done.fate is not Fate.UNKNOWN]
        return join((*(done.led or LITERAL for done in every), *says))

    def failure(self, failure: Failure) -> Failure:
        """The failure of the block with what cannot be undone."""
        if not self.left:
            return failure
        shown = ", ".join(map(str, self.left[:_SHOWN]))
        more = f" and {len(self.left) - _SHOWN} more" if len(self.left) > _SHOWN else ""
        return failure._replace(error=f"{failure.text}; not undone: {shown}{more}")

    def record(self, failure: Failure) -> FailureRecord:
        """What the handler has: the failure, and what it goes through."""
        made = record_of(self.failure(failure))
        made[ORDER] = [{TOOL: done.tool, NUMBER: number} for number, (done, _) in enumerate(self.calls)]
        made[ARGS] = [args for _, args in self.calls]
        return made


def taken_back(done: Sequence[Done], inverses: Mapping[str, Inverse]) -> Taken:
    """What undoing these calls takes, which are in the order in which they were made."""
    calls: list[tuple[Done, dict[str, Any]]] = []
    left: list[Left] = []
    for one in reversed(done):
        found = reversal(one.tool, inverses.get(one.tool), one.fate, one.args, one.value)
        if isinstance(found, str):
            left.append(Left(one, found))
        else:
            calls.append((one, found))
    return Taken(tuple(calls), tuple(left))


def is_undone_around(act: Activation | None) -> bool:
    """Whether a failure here would be met by an ON_FAIL UNDO, of this activation or one around it."""
    while act is not None:
        if any(guard.undoes for guard in act.guards):
            return True
        act = act.parent
    return False


def call_of(frame: TreeFrame, args: Mapping[str, Any], value: Any) -> Done | None:
    """A call that has its outcome, if it had an effect or may have had one."""
    if not frame.failed:
        return Done(frame.visit, frame.code.tool, args, value, Fate.DONE)
    if frame.fate is None:
        return None
    return Done(frame.visit, frame.code.tool, args, frame.gave, frame.fate)


def in_order(parts: Mapping[int, Iterable[Done]]) -> list[Done]:
    """What items or members have done, in the order of the text."""
    return [one for number in sorted(parts) for one in parts[number]]


_tool_call: Callable[[tuple[object, ...]], CallTool] = partial(cast("Any", tuple).__new__, CallTool)
"""Makes a CallTool from a tuple of all its fields; faster than its constructor."""
_MODELS = frozenset({Kind.MODEL, Kind.AGENT})


class Statements(Execution):
    """Executes statements without blocks; each method takes an operation and says what it leads to."""

    __slots__ = ()

    # -------------------------------------------------------------- calls

    def _call(self, run: Run, act: Activation, op: CallOp, out: list[Command]) -> int:
        code = op.code
        visit = act.path + op.segment
        if self.stopping:
            self._heed(act, visit)
        budget = run.budget
        if not act.is_inner:
            self._count_step(run, visit)
        if run.observer is not None:
            run.notify(NoteKind.STARTED, visit)
        if self.capped and (failure := self._may_spend(run, act, visit)) is not None:
            return self._remedied(run, act, op, failure)
        slots = act.slots
        args: dict[str, Any] = {}
        try:
            for name, operand in op.named:
                value = slots[operand] if type(operand) is int else self.value(act, operand)
                args[name] = value if type(value) in SCALARS else as_argument(value)
            if code.is_plain and run.is_free and run.monitor is None and budget.ahead > 0:
                key, tool = visit + ".1", code.tool
                budget.ahead -= 1
                budget.calls[tool] += 1
                run.attempts[key] = (code, args, IN_TREE, act)
                out.append(_tool_call((key, code.id, tool, args, code.wants_data, "", None)))
                return WAITING
            inputs = [as_argument(self.value(act, each)) for each in op.positional]
        except ExpressionFailed as failed:
            self.unmade(act, op)
            return self._remedied(run, act, op, Failure.of(failed, visit))
        self._emit(run, act, op, visit, args, inputs, out)
        return WAITING

    def _compute(self, run: Run, act: Activation, op: ComputeOp, out: list[Command]) -> int:
        visit = act.path + segment(op.code.id)
        self._count(run, act, visit)
        run.notify(NoteKind.STARTED, visit)
        try:
            values = {name: tagged(act.slots[slot]) for name, slot in op.names}
        except ExpressionFailed as failed:
            return self._remedied(run, act, op, Failure.of(failed, visit))
        args: dict[str, Any] = {
            "source": op.source,
            "inputs": values,
            "outputs": [name for name, _ in op.into],
        }
        if op.has_clock:
            args["now"] = act.now.isoformat()
        self._emit(run, act, op, visit, args, [], out)
        return WAITING

    def _clock(self, run: Run, act: Activation, op: ClockOp, out: list[Command]) -> int:
        self._emit(run, act, op, act.path + segment(op.code.id), {}, [], out)
        return WAITING

    def _replan(self, run: Run, act: Activation, op: ReplanOp, out: list[Command]) -> int:
        """Ask for the next part of the plan."""
        visit = act.path + segment(op.code.id)
        self._heed(act, visit)
        self._count(run, act, visit)
        run.notify(NoteKind.STARTED, visit)
        if (failure := self._may_spend(run, act, visit)) is not None:
            raise StatementFailed(failure)
        reason = " ".join(self.text(self.value(act, each)) for each in op.values)
        refusal = run.budget.reserve_replan() or run.budget.reserve_model(REPLAN)
        if refusal is not None:
            raise self._refused(refusal, visit)
        attempt = opened(TreeFrame().of(op.code, act, visit), 0, visit + ".1", {}, [reason])
        self.admit_planning(act, op, attempt)
        emit(run, attempt, out)
        return WAITING

    def _emit(
        self,
        run: Run,
        act: Activation,
        op: CallOp | ComputeOp | ClockOp,
        visit: str,
        args: dict[str, Any],
        inputs: list[Any],
        out: list[Command],
    ) -> None:
        code, budget = op.code, run.budget
        frame = TreeFrame().of(code, act, visit)
        attempt = opened(frame, 0, visit + ".1", args, inputs)
        reserve = budget.reserve_model if code.kind in _MODELS else budget.reserve
        refusal = reserve(code.tool)
        if refusal is not None:
            raise self._refused(refusal, visit)
        self.admit(run, act, attempt)
        emit(run, attempt, out)

    def _after_call(self, run: Run, act: Activation, attempt: Attempt, value: Any) -> int:
        """The outcome of the call at which an activation waits; what its statement leads to."""
        frame = cast("TreeFrame", attempt.frame)
        op = act.body.operations[act.pc]
        self._end_uncaught(frame, value)
        if isinstance(op, ClockOp):
            if frame.failed:
                raise StatementFailed(Failure(Failing.TOOL.value, str(value), frame.visit))
            act.now = datetime.fromisoformat(str(value))
            return NEXT
        if isinstance(op, ReplanOp):  # a plan that was made takes over before
            error = f"no new plan: {to_message(value)}"
            raise StatementFailed(Failure(Failing.TOOL.value, error, frame.visit))
        assert isinstance(op, CallOp | ComputeOp)
        self._note_done(act, op, call_of(frame, attempt.args, value))
        if frame.failed:
            kind = frame.kind or Failing.TOOL.value
            failure = Failure(kind, to_message(value), frame.visit, attempts=attempt.number)
            if isinstance(op, ComputeOp):
                failure = of_compute(failure)
            return self._remedied(run, act, op, failure)
        if isinstance(op, CallOp) and self._is_told(act):
            why = cast("Failure", act.task.stopping).message
            said = f"its result came too late and was not used: {why}"
            self._finished(run, frame.visit, value=value, why_unused=said)
            self._raise_stop(act, frame.visit)
        try:
            if isinstance(op, ComputeOp):
                made = read_outputs(value)
                if PRINTED in made:
                    run.notify(NoteKind.SAID, frame.visit, self.shown_remark(act, op.code.id, made[PRINTED]))
                self.computed(act, op, made)
                for name, slot in op.into:
                    if name in made:
                        self.put(run, act, slot, made[name])
                    else:
                        run.notify(NoteKind.FACT, frame.visit, f"it has set no ${name}")
                self._finished(run, frame.visit)
            elif op.into is None:
                self._finished(run, frame.visit, value=value)
            else:
                stored = self.store(run, act, op.into, value, frame.visit, of_tool=True)
                self._finished(run, frame.visit, op.into.name, stored)
        except StatementFailed as failed:
            run.notify(NoteKind.FAILED, frame.visit, failed.failure.text)
            return self._remedied(run, act, op, failed.failure)
        return NEXT

    def _end_uncaught(self, frame: TreeFrame, value: Any) -> None:
        """End the run by what nothing catches: an attempt that the budget refuses, a call in doubt."""
        if isinstance(frame.control, End) and frame.control.refusal is not None:
            raise self._refused(frame.control.refusal, frame.visit)
        if frame.failed and frame.kind == DOUBT:
            text = to_message(value)
            raise RunEnds(End(Status.FAILED, text, error=text, ended_at=frame.visit))

    def _note_done(self, act: Activation, op: CallOp | ComputeOp, done: Done | None) -> None:
        """Keep a call that an ON_FAIL UNDO around it may have to take back, unless it takes back another."""
        if done is None or not (isinstance(op, CallOp) and op.is_undoable):
            return
        if act.path[:-1] not in self.undone and is_undone_around(act):
            act.done.append(self.blamed_call(act, op, done))

    def _store_result(self, run: Run, act: Activation, op: CallOp, value: Any) -> int:
        """Store the result of a plain call, which must be of its type."""
        assert op.into is not None
        try:
            self.store(run, act, op.into, value, act.path + op.segment, of_tool=True)
        except StatementFailed as failed:
            return self._remedied(run, act, op, failed.failure)
        return NEXT

    def _remedied(self, run: Run, act: Activation, op: CallOp | ComputeOp, failure: Failure) -> int:
        """What a call says about its failure, where no guard is needed; raises StatementFailed otherwise."""
        remedy = op.remedy
        if remedy is None or failure.kind in BY_NAME:
            raise StatementFailed(failure)
        failure = self.blamed(run, act, failure)
        into = op.into if isinstance(op, CallOp) else None
        leaving = self._remedy(run, act, op.code.id, remedy, failure, into)
        return NEXT if leaving is None else leave(act, leaving)

    def _remedy(
        self, run: Run, act: Activation, id_: str, remedy: RemedyCode, failure: Failure, into: Store | None
    ) -> Leaving | None:
        """Carry out a statement's remedy; the early end that TERMINATE is, None if the plan goes on."""
        if remedy.kind == "terminate":
            values = [self.value(act, each) for each in remedy.values]
            text = self.shown_message(run, act, id_, values, " ".join(self.text(value) for value in values))
            return Leaving(Word.TERMINATE, (text, text), step=failure.step, error=self.shown_failure(failure))
        if into is not None:
            self.bound(act, id_, into.name, failure)
        if remedy.kind == "use":
            value = self.value(act, remedy.values[0])
            if into is not None:
                self.put(run, act, into.slot, value)
            run.notify(NoteKind.FACT, failure.step, f"it failed ({failure.text}); its USE value counts")
            return None
        run.failed_steps[failure.step] = None
        if into is not None:
            self.put(run, act, into.slot, record_of(failure))
        return None

    # -------------------------------------------------------------- words

    def _let(self, run: Run, act: Activation, op: LetOp, out: list[Command]) -> int:
        value = self.value(act, op.value)
        if op.type is not None:
            value, wrong = conformed(value, op.type, self.program.types)
            if wrong:
                raise StatementFailed(Failure(Failing.CAST.value, f"${op.name}: {wrong}", act.path + op.id))
        self.put(run, act, op.slot, value)
        return NEXT

    def _require(self, run: Run, act: Activation, op: RequireOp, out: list[Command]) -> int:
        if self.value(act, op.condition):
            return NEXT
        said = (
            f"it does not hold that {op.text}"
            if op.message is None
            else self.text(self.value(act, op.message))
        )
        raise StatementFailed(Failure(Failing.REQUIRE.value, said, act.path + op.id))

    def _say(self, run: Run, act: Activation, op: SayOp, out: list[Command]) -> int:
        place = act.path + op.id
        values = [self.value(act, each) for each in op.values]
        match op.word:
            case Word.NOTE:
                text = " ".join(self.text(value) for value in values)
                run.notify(NoteKind.SAID, place, self.shown_remark(act, op.id, text))
                return NEXT
            case Word.FAIL if not op.kind and is_failure(values):
                raise StatementFailed(failure_of(values[0], place))
            case Word.FAIL:
                text = " ".join(self.text(value) for value in values)
                raise StatementFailed(Failure(op.kind or Failing.FAIL.value, text, place))
            case Word.WAIT:
                return self._wait(run, act, place, values[0], out)
            case _:
                if op.word is Word.RETURN and act.is_of_sub_plan:
                    return leave(act, Leaving(Word.RETURN, values[0] if values else None, step=place))
                values = [value if is_data(value) else answerable(value) for value in values]
                answer = to_json(values[0]) if len(values) == 1 else None
                is_null = values == [None] and op.word is not Word.TERMINATE
                text = "" if is_null else " ".join(self.text(value) for value in values)
                if len(values) > 1:
                    answer = text
                text, answer = self.shown_answer(run, act, op, values, text, answer)
                return leave(act, Leaving(op.word, (text, answer), step=place))

    def _yield(self, run: Run, act: Activation, op: YieldOp, out: list[Command]) -> int:
        act.yielded = self.value(act, op.value)
        return NEXT

    # -------------------------------------------------------------- waits

    def _wait(self, run: Run, act: Activation, place: str, given: Any, out: list[Command]) -> int:
        self._heed(act, place)
        seconds = seconds_of(given)
        if seconds is None:
            raise StatementFailed(
                Failure(Failing.TYPE.value, "WAIT and every take seconds or a duration, at least 0", place)
            )
        refusal = run.budget.reserve_wait(seconds)
        if refusal is not None:
            raise self._refused(refusal, place)
        if seconds == 0:
            return NEXT if isinstance(act.body.operations[act.pc], SayOp) else self._after_wait(act)
        return self._sleep(run, act, place, seconds, out)

    @staticmethod
    def _sleep(run: Run, act: Activation, place: str, seconds: float, out: list[Command]) -> int:
        code = StepCode(NOWHERE, Step(place.rpartition("/")[2], Call("")))
        wait = Wait().of(TreeFrame().of(code, act, place), seconds)
        run.asleep[wait.key] = wait
        out.append(Sleep(wait.key, code.id, seconds))
        return WAITING

    def _after_wait(self, act: Activation) -> int:
        op = act.body.operations[act.pc]
        if isinstance(op, TimerOp):
            raise StatementFailed(Failure(Failing.TIMEOUT.value, "", act.path + op.id, "its time is over"))
        if isinstance(op, UntilOp):
            act.pc = op.head
            return STAY
        if isinstance(op, CatchOp):
            act.pc = op.guard
            return STAY
        return NEXT


def as_argument(value: Any) -> Any:
    """A value as a tool gets it: itself if it is JSON data, else as JSON data.

    Raises ExpressionFailed for what JSON has not.
    """
    return value if is_data(value) else to_json(value)


def to_message(value: Any) -> str:
    """The error of a call as text."""
    return value if isinstance(value, str) else str(value)


def seconds_of_limit(given: Any, place: str) -> float | None:
    """How long a block may take: seconds or a duration, in the past too, or null; raises StatementFailed."""
    seconds = 0.0 if _is_past(given) else seconds_of(given)
    if seconds is None and given is not None:
        raise StatementFailed(Failure(Failing.TYPE.value, "WITHIN takes seconds, a duration or null", place))
    return seconds


def _is_past(given: Any) -> bool:
    if isinstance(given, timedelta):
        return given < timedelta()
    return isinstance(given, int | float) and not isinstance(given, bool) and given < 0


def seconds_of(given: Any) -> float | None:
    """Seconds from a number, a duration, or the text of one such as `10s`; None if it is none of these."""
    if isinstance(given, str):
        try:
            given = FUNCTIONS["duration"](new_environment(), given)
        except (ExpressionFailed, ValueError, TypeError):
            return None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= sys.float_info.max:
        return None
    return float(given)
