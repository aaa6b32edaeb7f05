"""Executes plan trees: operations of activations, in the order of the text, until they wait for outcomes.

An activation is executed until it waits or ends; its end goes to what is around it, which may go on in turn.
A failure unwinds the guards of its activation, then fails the statement that the activation belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON, Call, Step
from callsheet.ir.tree import Failing, Input, Word
from callsheet.machine.agents.talk import opened
from callsheet.machine.budget import Refusal
from callsheet.machine.calls import emit
from callsheet.machine.commands import CallTool, Command, Sleep
from callsheet.machine.doubt import DOUBT
from callsheet.machine.expressions import Compiled, ExpressionFailed
from callsheet.machine.expressions.functions import FUNCTIONS
from callsheet.machine.expressions.values import (
    DEFAULT_WORK,
    Environment,
    elements,
    to_json,
    to_text,
    type_name,
)
from callsheet.machine.frames import Attempt, End, TreeFrame, Wait
from callsheet.machine.keys import segment
from callsheet.machine.notes import CallPlace, Note, NoteKind
from callsheet.machine.program import IN_TREE, NOWHERE, Kind, StepCode
from callsheet.machine.result import Status
from callsheet.machine.tree.activations import (
    MISSING,
    Activation,
    Ended,
    Guard,
    Leaving,
    Loop,
    Members,
    Pending,
    new_environment,
)
from callsheet.machine.tree.failures import (
    Failure,
    StatementFailed,
    failure_of,
    is_failure,
    of_compute,
    of_items,
    record_of,
)
from callsheet.machine.tree.guards import ENDED, NEXT, STAY, WAITING, leave, unwind
from callsheet.machine.tree.program import (
    NONE,
    BranchOp,
    BreakOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    Const,
    EndFinalOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    JumpOp,
    LeaveRoundsOp,
    LetOp,
    LoopOp,
    Operand,
    ParallelOp,
    RemedyCode,
    RequireOp,
    RoundOp,
    SayOp,
    Store,
    TreeProgram,
    UnguardOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.typing import conformed
from callsheet.machine.tree.wire import PRINTED, plain, read_outputs, tagged

if TYPE_CHECKING:
    from callsheet.machine.run import Run

_SCALARS = frozenset({str, int, bool, type(None)})
_tool_call: Callable[[tuple[object, ...]], CallTool] = partial(cast("Any", tuple).__new__, CallTool)
"""Makes a CallTool from a tuple of all its fields; faster than its constructor."""
_MODELS = frozenset({Kind.MODEL, Kind.AGENT})


class RunEnds(Exception):
    """Unwinds to the driver of the tree: the run ends, and nothing in the plan can catch it."""

    def __init__(self, end: End) -> None:
        super().__init__(end.response)
        self.end = end


Paused: TypeAlias = "Activation | Loop"


class TreeRun:
    """The part of a run that only a plan tree has.

    Under a policy, `MonitoredTreeRun` does more at `blamed`, `admit`, `bound` and the texts that are shown.
    """

    __slots__ = ("carry_out", "ending", "env", "main", "paused", "program")

    def __init__(self, program: TreeProgram, slots: list[Any]) -> None:
        self.program = program
        self.carry_out: Mapping[type, CarryOut] = OPERATIONS
        """How each kind of operation is executed; who records reads and writes puts itself between."""
        self.main = Activation(program.main, slots)
        self.paused: list[Paused] = []
        self.ending: End | None = None
        """How the run ends once the calls that have left have their outcomes; nothing else starts."""
        self.env: Environment = new_environment()

    def set_inputs(self, run: Run, given: Mapping[str, JSON]) -> None:
        """Set the variables of the inputs: those given and the defaults, as their types say."""
        for slot, one in self.program.inputs:
            if one.name in given:
                value: Any = given[one.name]
            elif one.is_required:
                continue
            else:
                value = one.default
            run.scope.assign(slot, conformed(value, one.type, self.program.types)[0])

    def advance(self, run: Run, out: list[Command]) -> None:
        """Begin the plan."""
        self._go_on(run, self.main, out)

    def catch_up(self, run: Run, out: list[Command]) -> None:
        """Continue the work that a pause interrupted, in its order."""
        waiting, self.paused, run.is_paused = self.paused, [], False
        for place, paused in enumerate(waiting):
            if run.result is not None:
                return
            match paused:
                case Activation():
                    self._go_on(run, paused, out)
                case Loop():
                    paused.is_paused = False
                    self._go_on(run, paused.act, out, partial(self._filled, run, paused, out))
            if run.is_paused:
                self.paused += waiting[place + 1 :]
                return

    def settled(self, run: Run, attempt: Attempt, value: Any, out: list[Command]) -> None:
        """The call of an attempt has its value, or has failed for good."""
        frame = cast("TreeFrame", attempt.frame)
        act = frame.act
        self._go_on(run, act, out, lambda: self._after_call(run, act, attempt, value))

    def succeeded(self, run: Run, act: Activation, value: Any, out: list[Command]) -> None:
        """As `settled`, for the value of a plain call that nobody observes."""
        op = cast("CallOp", act.body.operations[act.pc])
        into = op.into
        if into is not None and into.type is None:
            act.slots[into.slot] = value
            if act.slots is run.slots:
                run.scope.was_set[into.slot] = 1
        elif into is not None:
            self._go_on(run, act, out, partial(self._store_result, run, act, op, value))
            return
        act.pc += 1
        self._go_on(run, act, out)

    def _store_result(self, run: Run, act: Activation, op: CallOp, value: Any) -> int:
        """Store the result of a plain call, which must be of its type."""
        assert op.into is not None
        try:
            self.store(run, act, op.into, value, act.path + op.segment, of_tool=True)
        except StatementFailed as failed:
            return self._remedied(run, act, op, failed.failure)
        return NEXT

    def woken(self, run: Run, wait: Wait, out: list[Command]) -> None:
        """A timer is over."""
        frame = cast("TreeFrame", wait.frame)
        act = frame.act
        self._go_on(run, act, out, lambda: self._after_wait(act))

    # -------------------------------------------------------------- the loop

    def _go_on(
        self, run: Run, act: Activation, out: list[Command], first: Callable[[], int] | None = None
    ) -> None:
        """Execute an activation and what goes on behind it; `first` is done before its next operation."""
        try:
            following: Activation | None = act
            while following is not None and run.result is None and self.ending is None:
                if self._execute(run, following, out, first) == WAITING:
                    return
                following, first = self._deliver(run, following, out)
        except RunEnds as ends:
            self.ending = ends.end
            self.paused.clear()
        if self.ending is not None and run.result is None and not run.has_open_calls:
            run.finish(self.ending, out)

    def _execute(self, run: Run, act: Activation, out: list[Command], first: Callable[[], int] | None) -> int:
        """Execute operations until the activation waits or ends."""
        operations, carry_out = act.body.operations, self.carry_out
        count = len(operations)
        while True:
            try:
                if first is not None:
                    step, first = first, None
                    signal = step()
                elif act.pc >= count:
                    act.ended = Ended(None, act.yielded)
                    return ENDED
                elif run.units_left <= 0:
                    run.is_paused = True
                    self.paused.append(act)
                    return WAITING
                else:
                    run.units_left -= 1
                    operation = operations[act.pc]
                    signal = carry_out[type(operation)](self, run, act, operation, out)
            except StatementFailed as failed:
                signal = unwind(act, self.blamed(run, act, failed.failure))
            except ExpressionFailed as failed:
                signal = unwind(act, self.blamed(run, act, Failure.of(failed, self._place(act))))
            if signal == NEXT:
                act.pc += 1
            elif signal != STAY:
                return signal

    @staticmethod
    def _place(act: Activation) -> str:
        operation = act.body.operations[act.pc]
        code = getattr(operation, "code", None)
        return act.path + str(getattr(operation, "id", "") if code is None else code.id)

    def _deliver(
        self, run: Run, act: Activation, out: list[Command]
    ) -> tuple[Activation | None, Callable[[], int] | None]:
        """Give the end of an activation to what is around it; what goes on, and how."""
        ended = act.ended
        assert ended is not None
        match act.role:
            case None:
                self._end_run(run, ended)
            case Loop() as loop:
                self._item_ended(run, loop, act, ended)
                return loop.act, lambda: self._filled(run, loop, out)
            case Members() as members:
                self._member_ended(members, act, ended)
                return members.act, lambda: self._started(run, members, out)
            case InvokeOp() as invoke:
                parent = act.parent
                assert parent is not None
                return parent, lambda: self._returned(run, parent, invoke, act)
        return None, None

    def _end_run(self, run: Run, ended: Ended) -> None:
        by = ended.by
        if by is None:
            raise RunEnds(End(Status.DONE, ""))
        if isinstance(by, Failure):
            error = f"{by.kind}: {self.shown_failure(by)}"
            raise RunEnds(End(Status.FAILED, error, error=error, ended_at=by.step))
        assert by.word in {Word.RESPOND, Word.RETURN, Word.TERMINATE}
        text, answer = by.value
        if by.error:
            raise RunEnds(End(Status.FAILED, text, True, error=by.error, ended_at=by.step))
        is_early = by.word is Word.TERMINATE
        raise RunEnds(End(Status.DONE, text, is_early, ended_at=by.step or None, answer=answer))

    # -------------------------------------------------------------- under a policy

    def blamed(self, run: Run, act: Activation, failure: Failure) -> Failure:
        """A failure of the current statement of an activation, before it is handled."""
        return failure

    def admit(self, run: Run, act: Activation, attempt: Attempt) -> None:
        """A call is about to be made."""

    def unmade(self, act: Activation, op: CallOp) -> None:
        """The arguments of a call cannot be evaluated."""

    def computed(self, act: Activation, op: ComputeOp, made: Mapping[str, Any]) -> None:
        """A COMPUTE has given these values."""

    def bound(
        self, act: Activation, id_: str, name: str, failure: Failure, *, is_failure: bool = False
    ) -> None:
        """A variable holds a failure (surely so with `is_failure`), or what takes the place of a result."""

    def shown_failure(self, failure: Failure) -> str:
        """What the end of the run says of a failure."""
        return failure.text

    def shown_message(self, run: Run, act: Activation, id_: str, values: list[Any], text: str) -> str:
        """What the run answers for an ON_FAIL TERMINATE."""
        return text

    def shown_remark(self, act: Activation, id_: str, text: str) -> str:
        """What the run says for a NOTE, or for what pure code prints."""
        return text

    def shown_answer(
        self, run: Run, act: Activation, op: SayOp, values: list[Any], text: str, answer: JSON
    ) -> tuple[str, JSON]:
        """An answer as it may be shown: its text, and its value."""
        return text, answer

    # -------------------------------------------------------------- expressions

    def value(self, act: Activation, operand: Operand) -> Any:
        """The value of an operand at the current statement of an activation."""
        kind = type(operand)
        if kind is int:
            return act.slots[cast("int", operand)]
        if kind is Const:
            return cast("Const", operand).value
        env = self.env
        env.work, env.now = DEFAULT_WORK, act.now
        return cast("Compiled", operand)(act.slots, env)

    def text(self, value: Any) -> str:
        """A value as text."""
        self.env.work = DEFAULT_WORK
        return to_text(self.env, value)

    def store(
        self, run: Run, act: Activation, into: Store, value: Any, step: str, *, of_tool: bool = False
    ) -> Any:
        """Store a result, after the check of its type; returns what is stored."""
        if into.type is not None:
            value, wrong = conformed(value, into.type, self.program.types, reads_text=of_tool)
            if wrong:
                raise StatementFailed(Failure(Failing.CAST.value, f"${into.name}: {wrong}", step))
        self.put(run, act, into.slot, value)
        return value

    def put(self, run: Run, act: Activation, slot: int, value: Any) -> None:
        """Set a variable."""
        act.slots[slot] = value
        if act.slots is run.slots:
            run.scope.was_set[slot] = 1

    # -------------------------------------------------------------- calls

    def _call(self, run: Run, act: Activation, op: CallOp, out: list[Command]) -> int:
        code = op.code
        visit = act.path + op.segment
        budget = run.budget
        if not act.is_inner:
            self._count_step(run, visit)
        if run.observer is not None:
            run.notify(NoteKind.STARTED, visit)
        slots = act.slots
        args: dict[str, Any] = {}
        try:
            for name, operand in op.named:
                value = slots[operand] if type(operand) is int else self.value(act, operand)
                args[name] = value if type(value) in _SCALARS else as_argument(value)
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

    def _refused(self, refusal: Refusal, visit: str) -> RunEnds:
        why = refusal.describe()
        return RunEnds(End(Status.FAILED, why, error=why, ended_at=visit or None, refusal=refusal))

    def _count(self, run: Run, act: Activation, visit: str) -> None:
        """Count a step, outside the items of loops."""
        if not act.is_inner:
            self._count_step(run, visit)

    def _count_step(self, run: Run, visit: str) -> None:
        budget, most = run.budget, run.limits.max_steps
        if budget.steps >= most:
            raise self._refused(Refusal("max_steps", most, budget.steps), visit)
        budget.steps += 1
        budget.ahead -= 1

    def _after_call(self, run: Run, act: Activation, attempt: Attempt, value: Any) -> int:
        """The outcome of the call at which an activation waits; what its statement leads to."""
        frame = cast("TreeFrame", attempt.frame)
        op = act.body.operations[act.pc]
        if isinstance(op, ClockOp):
            if frame.failed:
                raise StatementFailed(Failure(Failing.TOOL.value, str(value), frame.visit))
            act.now = datetime.fromisoformat(str(value))
            return NEXT
        assert isinstance(op, CallOp | ComputeOp)
        if frame.failed:
            if frame.kind == DOUBT:
                text = to_message(value)
                raise RunEnds(End(Status.FAILED, text, error=text, ended_at=frame.visit))
            kind = frame.kind or Failing.TOOL.value
            failure = Failure(kind, to_message(value), frame.visit, attempts=attempt.number)
            if isinstance(op, ComputeOp):
                failure = of_compute(failure)
            return self._remedied(run, act, op, failure)
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

    def _finished(self, run: Run, visit: str, var: str | None = None, value: Any = None) -> None:
        if run.observer is not None:
            is_secret = run.monitor is not None and run.monitor.holds_secrets_of(visit)
            run.observer(Note(NoteKind.FINISHED, visit, "", var, plain(value), is_secret))

    def _remedied(self, run: Run, act: Activation, op: CallOp | ComputeOp, failure: Failure) -> int:
        """What a call says about its failure, where no guard is needed; raises StatementFailed otherwise."""
        remedy = op.remedy
        if remedy is None or failure.kind == Failing.DENIED:
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

    # -------------------------------------------------------------- simple statements

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

    def _wait(self, run: Run, act: Activation, place: str, given: Any, out: list[Command]) -> int:
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
        code = StepCode(NOWHERE, Step(place.rpartition("/")[2], Call("")))
        wait = Wait().of(TreeFrame().of(code, act, place), seconds)
        run.asleep[wait.key] = wait
        out.append(Sleep(wait.key, code.id, seconds))
        return WAITING

    def _after_wait(self, act: Activation) -> int:
        op = act.body.operations[act.pc]
        if isinstance(op, UntilOp):
            act.pc = op.head
            return STAY
        if isinstance(op, CatchOp):
            act.pc = op.guard
            return STAY
        return NEXT

    def _jump(self, run: Run, act: Activation, op: JumpOp, out: list[Command]) -> int:
        act.pc = op.to
        return STAY

    def _branch(self, run: Run, act: Activation, op: BranchOp, out: list[Command]) -> int:
        if self.value(act, op.condition):
            return NEXT
        act.pc = op.otherwise
        return STAY

    # -------------------------------------------------------------- repeat

    def _enter(self, run: Run, act: Activation, op: EnterOp, out: list[Command]) -> int:
        most = None
        if op.most is not None:
            most = self.value(act, op.most)
            if type(most) is not int or most < 0:
                raise StatementFailed(
                    Failure(Failing.TYPE.value, "max must be a whole number from 0 on", act.path + op.id)
                )
        act.slots[op.slot] = (0, most, act.path, len(act.guards))
        return NEXT

    def _round(self, run: Run, act: Activation, op: RoundOp, out: list[Command]) -> int:
        count, most, path, depth = act.slots[op.slot]
        act.path = path
        if op.while_ is not None and not self.value(act, op.while_):
            act.pc = op.end
            return STAY
        if most is not None and count >= most:
            raise StatementFailed(
                Failure(Failing.ROUNDS.value, f"it is not over after {most} rounds", path + op.id)
            )
        self._count_step(run, path + op.id)
        act.slots[op.slot] = (count + 1, most, path, depth)
        act.path = f"{path}{segment(op.id)}[#{count + 1}]/"
        return NEXT

    def _until(self, run: Run, act: Activation, op: UntilOp, out: list[Command]) -> int:
        count, most, *_ = act.slots[op.slot]
        if op.until is not None and self.value(act, op.until):
            act.pc += 1
            return STAY
        if op.every is not None and (most is None or count < most):
            place = act.path + segment(op.id)
            return self._wait(run, act, place, self.value(act, op.every), out)
        act.pc = op.head
        return STAY

    def _leave_rounds(self, run: Run, act: Activation, op: LeaveRoundsOp, out: list[Command]) -> int:
        act.path = act.slots[op.slot][2]
        return NEXT

    def _break(self, run: Run, act: Activation, op: BreakOp, out: list[Command]) -> int:
        if op.repeat == NONE:
            return leave(act, Leaving(op.word))
        _, _, path, depth = act.slots[op.repeat]
        head = act.body.operations[op.head]
        assert isinstance(head, RoundOp)
        to = head.end if op.word is Word.BREAK else head.next
        path = path if op.word is Word.BREAK else act.path
        return leave(act, Leaving(op.word, to=to, depth=depth, path=path))

    # -------------------------------------------------------------- guards

    def _guard(self, run: Run, act: Activation, op: GuardOp, out: list[Command]) -> int:
        attempt, path = 1, act.path
        if act.failure is not None and act.failure[1].at == act.pc:
            attempt, path = act.failure[1].attempt + 1, act.failure[1].path
        act.failure = None
        act.guards.append(Guard(act.pc, op.catch, op.final, path, len(act.pending), attempt))
        if attempt > 1:
            act.path = f"{path}{segment(op.id)}~{attempt}/"
        return NEXT

    def _unguard(self, run: Run, act: Activation, op: UnguardOp, out: list[Command]) -> int:
        act.path = act.guards.pop().path
        return self._behind(act, op.final, op.end, None)

    def _catch(self, run: Run, act: Activation, op: CatchOp, out: list[Command]) -> int:
        assert act.failure is not None
        failure, guard = act.failure
        is_denied = failure.kind == Failing.DENIED
        if guard.attempt <= op.retries and not is_denied:
            pause = run.limits.pause(guard.attempt, op.delay, op.backoff)
            run.notify(NoteKind.RETRYING, guard.path + segment(op.id), failure.text)
            if pause <= 0:
                act.pc = op.guard
                return STAY
            return self._wait(run, act, f"{guard.path}{segment(op.id)}~{guard.attempt + 1}", pause, out)
        act.failure = None
        after: Pending = failure
        if op.remedy is not None and not is_denied:
            try:
                after = self._remedy(run, act, op.id, op.remedy, failure, op.into)
            except ExpressionFailed as failed:
                after = self.blamed(run, act, Failure.of(failed, guard.path + op.id))
        for kinds, slot, first in op.handlers:
            if failure.kind in kinds if kinds else not is_denied:
                act.slots[slot] = record_of(failure)
                self.bound(act, op.id, act.body.names[slot], failure, is_failure=True)
                run.notify(NoteKind.FACT, failure.step, f"it failed ({failure.text}); its handler runs")
                act.pc = first
                return STAY
        return self._behind(act, op.final, op.end, after)

    @staticmethod
    def _behind(act: Activation, final: int, end: int, after: Pending) -> int:
        """Go to a FINALLY block, if there is one, and then to what comes after it."""
        if final != NONE:
            act.pending.append(after)
            act.pc = final
            return STAY
        match after:
            case None:
                act.pc = end
                return STAY
            case Failure():
                return unwind(act, after)
            case Leaving():
                return leave(act, after)

    def _end_final(self, run: Run, act: Activation, op: EndFinalOp, out: list[Command]) -> int:
        return self._behind(act, NONE, op.end, act.pending.pop())

    # -------------------------------------------------------------- loops

    def _loop(self, run: Run, act: Activation, op: LoopOp, out: list[Command]) -> int:
        visit = act.path + segment(op.id)
        self._count(run, act, visit)
        source = self.value(act, op.source)
        if isinstance(source, str):
            raise StatementFailed(
                Failure(Failing.TYPE.value, "a text is no list of items; write list($text)", visit)
            )
        try:
            items = list(elements(self.env, source, 1))
        except TypeError:
            said = f"{type_name(source)} has no items to go through"
            raise StatementFailed(Failure(Failing.TYPE.value, said, visit)) from None
        if op.limit is not None:
            limit = self.value(act, op.limit)
            if type(limit) is not int or limit < 0:
                raise StatementFailed(
                    Failure(Failing.TYPE.value, "LIMIT takes a whole number from 0 on", visit)
                )
            items = items[:limit]
        refusal = run.budget.refuse_items(len(items))
        if refusal is not None:
            raise self._refused(refusal, visit)
        run.notify(NoteKind.STARTED, visit, at=CallPlace(items=len(items)))
        return self._filled(run, Loop(act, op, items, visit), out)

    def _filled(self, run: Run, loop: Loop, out: list[Command]) -> int:
        """Start items of a loop while there is room; what its statement leads to if all are done."""
        if loop.is_paused:
            return WAITING
        op, items, act = loop.op, loop.items, loop.act
        window = 1
        if op.side_by_side:
            window = run.limits.window if op.most is None else min(op.most, run.limits.window)
        while loop.next < len(items) and loop.open < window and not loop.is_stopped:
            if run.units_left <= 0:
                run.is_paused = loop.is_paused = True
                self.paused.append(loop)
                return WAITING
            index = loop.next
            loop.next += 1
            loop.open += 1
            item = self._item(loop, index)
            if self._execute(run, item, out, None) == WAITING:
                continue
            assert item.ended is not None
            self._item_ended(run, loop, item, item.ended)
        if loop.open:
            return WAITING
        return self._loop_done(run, act, loop)

    def _item(self, loop: Loop, index: int) -> Activation:
        op, act = loop.op, loop.act
        body = op.body
        slots: list[Any] = [None] * body.size
        outer = act.slots
        for outside, inside in body.captures:
            slots[inside] = outer[outside]
        slots[op.item_slot] = loop.items[index]
        return Activation(body, slots, f"{loop.path}[{index}]/", act, loop, index, True)

    def _item_ended(self, run: Run, loop: Loop, item: Activation, ended: Ended) -> None:
        loop.open -= 1
        by, op = ended.by, loop.op
        if isinstance(by, Failure):
            loop.failures[item.index] = by
            if op.one_by_one and (not op.skips or by.kind == Failing.DENIED):
                loop.is_stopped = True
            if op.skips:
                return
        elif isinstance(by, Leaving) and by.word is not Word.CONTINUE:
            loop.is_stopped = True
            if by.word is not Word.BREAK:
                loop.leaving = by
            else:
                loop.results[item.index] = item.yielded
        else:
            loop.results[item.index] = item.yielded
        for inside, outside in op.body.returns:
            self.put(run, loop.act, outside, item.slots[inside])

    def _loop_done(self, run: Run, act: Activation, loop: Loop) -> int:
        op, failures = loop.op, loop.failures
        if loop.leaving is not None:
            return leave(act, loop.leaving)
        if failures:
            numbers = sorted(failures)
            denied = next((n for n in numbers if failures[n].kind == Failing.DENIED), None)
            if not op.skips or denied is not None:
                first = failures[numbers[0] if denied is None else denied]
                failure = of_items(failures, len(loop.items), first)
                run.notify(NoteKind.FAILED, loop.path, failure.text)
                raise StatementFailed(failure)
            run.failed_steps[loop.path] = None
            said = of_items(failures, len(loop.items), failures[numbers[0]]).text
            run.notify(NoteKind.FACT, loop.path, f"{said}; left out")
        results = [value for value in loop.results if value is not MISSING]
        if op.into is None:
            self._finished(run, loop.path)
        else:
            self._finished(run, loop.path, op.into.name, self.store(run, act, op.into, results, loop.path))
        return NEXT

    # -------------------------------------------------------------- parallel

    def _parallel(self, run: Run, act: Activation, op: ParallelOp, out: list[Command]) -> int:
        return self._started(run, Members(act, op), out)

    def _started(self, run: Run, members: Members, out: list[Command]) -> int:
        act = members.act
        if not members.is_started:
            members.is_started = True
            for index, body in enumerate(members.op.members):
                members.open += 1
                member = Activation(body, act.slots, act.path, act, members, index, act.is_inner)
                member.now, member.labels = act.now, act.labels
                if self._execute(run, member, out, None) != WAITING:
                    assert member.ended is not None
                    self._member_ended(members, member, member.ended)
        if members.open:
            return WAITING
        if members.failures:
            raise StatementFailed(members.failures[min(members.failures)])
        return NEXT

    def _member_ended(self, members: Members, member: Activation, ended: Ended) -> None:
        members.open -= 1
        by = ended.by
        if isinstance(by, Leaving):
            by = Failure(Failing.FAIL.value, f"{by.word.value} may not stand in @PARALLEL", by.step)
        if by is not None:
            members.failures[member.index] = by

    # -------------------------------------------------------------- sub-plans

    def _invoke(self, run: Run, act: Activation, op: InvokeOp, out: list[Command]) -> int:
        visit = act.path + segment(op.id)
        self._count(run, act, visit)
        run.notify(NoteKind.STARTED, visit)
        inner = self._callee(act, op, visit)
        slots = inner.slots
        for slot, compiled, kind in op.arguments:
            value, wrong = conformed(self.value(act, compiled), kind, self.program.types)
            if wrong:
                name = op.body.names[slot]
                raise StatementFailed(Failure(Failing.CAST.value, f"{op.plan} ({name}=…): {wrong}", visit))
            slots[slot] = value
        for slot, one in op.defaults:
            slots[slot] = self._default(one)
        signal = self._execute(run, inner, out, None)
        if signal == WAITING:
            return WAITING
        return self._returned(run, act, op, inner)

    def _callee(self, act: Activation, op: InvokeOp, visit: str) -> Activation:
        return Activation(op.body, [None] * op.body.size, visit + "/", act, op, 0, act.is_inner)

    def _default(self, one: Input) -> Any:
        return conformed(one.default, one.type, self.program.types)[0]

    def _returned(self, run: Run, act: Activation, op: InvokeOp, inner: Activation) -> int:
        assert inner.ended is not None
        visit, by = act.path + segment(op.id), inner.ended.by
        if isinstance(by, Failure):
            run.notify(NoteKind.FAILED, visit, by.text)
            raise StatementFailed(by._replace(error=f"{op.plan}: {by.text}"))
        if isinstance(by, Leaving) and by.word is not Word.RETURN:
            return leave(act, by)
        value = None if by is None else by.value
        if op.result is not None:
            value, wrong = conformed(value, op.result, self.program.types)
            if wrong:
                raise StatementFailed(Failure(Failing.CAST.value, f"the result of {op.plan}: {wrong}", visit))
        if op.into is None:
            self._finished(run, visit)
        else:
            self._finished(run, visit, op.into.name, self.store(run, act, op.into, value, visit))
        return NEXT


# ---------------------------------------------------------------- values for tools


def as_argument(value: Any) -> Any:
    """A value as a tool gets it: itself if it is JSON data, else as JSON data.

    Raises ExpressionFailed for what JSON has not.
    """
    return value if _is_data(value) else to_json(value)


def _is_data(value: Any) -> bool:
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        kind = cast("type[Any]", type(one))
        if kind in _SCALARS:
            continue
        if kind is list:
            stack.extend(one)
        elif kind is dict:
            if not all(type(key) is str for key in one):
                return False
            stack.extend(one.values())
        elif kind is not float or one - one != 0:
            return False
    return True


def to_message(value: Any) -> str:
    """The error of a call as text."""
    return value if isinstance(value, str) else str(value)


def seconds_of(given: Any) -> float | None:
    """Seconds from a number, a duration, or the text of one such as `10s`; None if it is none of these."""
    if isinstance(given, str):
        try:
            given = FUNCTIONS["duration"](new_environment(), given)
        except (ExpressionFailed, ValueError, TypeError):
            return None
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < float("inf"):
        return None
    return float(given)


CarryOut: TypeAlias = Callable[[TreeRun, "Run", Activation, Any, "list[Command]"], int]
"""Executes an operation of an activation; what it leads to, as in `guards`."""
OPERATIONS: Mapping[type, CarryOut] = {
    CallOp: TreeRun._call,  # pyright: ignore[reportPrivateUsage]
    ComputeOp: TreeRun._compute,  # pyright: ignore[reportPrivateUsage]
    ClockOp: TreeRun._clock,  # pyright: ignore[reportPrivateUsage]
    LetOp: TreeRun._let,  # pyright: ignore[reportPrivateUsage]
    RequireOp: TreeRun._require,  # pyright: ignore[reportPrivateUsage]
    YieldOp: TreeRun._yield,  # pyright: ignore[reportPrivateUsage]
    SayOp: TreeRun._say,  # pyright: ignore[reportPrivateUsage]
    JumpOp: TreeRun._jump,  # pyright: ignore[reportPrivateUsage]
    BranchOp: TreeRun._branch,  # pyright: ignore[reportPrivateUsage]
    EnterOp: TreeRun._enter,  # pyright: ignore[reportPrivateUsage]
    RoundOp: TreeRun._round,  # pyright: ignore[reportPrivateUsage]
    UntilOp: TreeRun._until,  # pyright: ignore[reportPrivateUsage]
    LeaveRoundsOp: TreeRun._leave_rounds,  # pyright: ignore[reportPrivateUsage]
    BreakOp: TreeRun._break,  # pyright: ignore[reportPrivateUsage]
    LoopOp: TreeRun._loop,  # pyright: ignore[reportPrivateUsage]
    ParallelOp: TreeRun._parallel,  # pyright: ignore[reportPrivateUsage]
    InvokeOp: TreeRun._invoke,  # pyright: ignore[reportPrivateUsage]
    GuardOp: TreeRun._guard,  # pyright: ignore[reportPrivateUsage]
    UnguardOp: TreeRun._unguard,  # pyright: ignore[reportPrivateUsage]
    CatchOp: TreeRun._catch,  # pyright: ignore[reportPrivateUsage]
    EndFinalOp: TreeRun._end_final,  # pyright: ignore[reportPrivateUsage]
}
