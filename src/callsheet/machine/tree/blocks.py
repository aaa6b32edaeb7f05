"""Executes the blocks of a plan tree: branches, rounds, guards, loops, @PARALLEL, sub-plans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from callsheet.ir.failing import BY_NAME, GRAVE, Failing
from callsheet.ir.sagas import undoing_loop
from callsheet.ir.tree import Ends, Input, Word
from callsheet.machine.commands import Command
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.expressions.values import DEFAULT_WORK, elements, type_name
from callsheet.machine.frames import Attempt
from callsheet.machine.keys import segment
from callsheet.machine.limits import SEQUENTIAL
from callsheet.machine.notes import IN_TURN, CallPlace, NoteKind
from callsheet.machine.tree.activations import (
    MISSING,
    NEXT,
    STAY,
    WAITING,
    Activation,
    Cause,
    Ended,
    Guard,
    Leaving,
    Loop,
    Members,
    Pending,
    leave,
    taken_up,
    unwind,
)
from callsheet.machine.tree.execution import enter
from callsheet.machine.tree.execution import leave as leave_budget
from callsheet.machine.tree.failures import Failure, StatementFailed, record_of
from callsheet.machine.tree.group_ends import (
    TIMER,
    cause_in,
    cause_of,
    failure_of_loop,
    failure_of_members,
    is_timer_of,
    left_out,
    results_of,
)
from callsheet.machine.tree.item_order import Touched, listed
from callsheet.machine.tree.program import (
    NONE,
    BranchOp,
    BreakOp,
    CatchOp,
    Distinction,
    EndFinalOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    JumpOp,
    LeaveRoundsOp,
    LimitOp,
    LoopOp,
    ParallelOp,
    RoundOp,
    TimerOp,
    UnguardOp,
    UntilOp,
)
from callsheet.machine.tree.statements import (
    Statements,
    in_order,
    is_undone_around,
    seconds_of_limit,
    taken_back,
)
from callsheet.machine.tree.values import conformed
from callsheet.machine.tree.variables import value_like

if TYPE_CHECKING:
    from callsheet.machine.run import Run


class Blocks(Statements):
    """Executes what has statements inside; each method takes an operation and says what it leads to."""

    __slots__ = ()

    def _jump(self, run: Run, act: Activation, op: JumpOp, out: list[Command]) -> int:
        act.pc = op.to
        return STAY

    def _branch(self, run: Run, act: Activation, op: BranchOp, out: list[Command]) -> int:
        if self.value(act, op.condition):
            return NEXT
        act.pc = op.otherwise
        return STAY

    # -------------------------------------------------------------- rounds

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
        return self._leave_round(act, op.word, op.repeat, op.head, op.finals)

    @staticmethod
    def _leave_round(act: Activation, word: Word, repeat: int, at: int, finals: int = 0) -> int:
        if repeat == NONE:
            return leave(act, Leaving(word))
        failure = taken_up(act, len(act.pending) - finals)
        if failure is not None:
            return unwind(act, failure)
        _, _, path, depth = act.slots[repeat]
        head = act.body.operations[at]
        assert isinstance(head, RoundOp)
        to = head.end if word is Word.BREAK else head.next
        path = path if word is Word.BREAK else act.path
        return leave(act, Leaving(word, to=to, depth=depth, path=path))

    # -------------------------------------------------------------- guards

    def _guard(self, run: Run, act: Activation, op: GuardOp, out: list[Command]) -> int:
        attempt, path, tried = 1, act.path, None
        if act.failure is not None and act.failure[1].at == act.pc:
            before = act.failure[1]
            attempt, path, tried = before.attempt + 1, before.path, before.tried
        act.failure = None
        caught = None if op.catch == NONE else act.body.operations[op.catch]
        undoes = isinstance(caught, CatchOp) and caught.undo is not None
        act.guards.append(
            Guard(act.pc, op.catch, op.final, path, len(act.pending), attempt, len(act.done), undoes, tried)
        )
        if attempt > 1:
            act.path = f"{path}{segment(op.id)}~{attempt}/"
        return NEXT

    def _unguard(self, run: Run, act: Activation, op: UnguardOp, out: list[Command]) -> int:
        guard = act.guards.pop()
        act.path = guard.path
        if guard.undoes and not is_undone_around(act):
            del act.done[guard.done :]
        return self._behind(act, op.final, op.end, None)

    def _catch(self, run: Run, act: Activation, op: CatchOp, out: list[Command]) -> int:
        assert act.failure is not None
        failure, guard = act.failure
        by_name = failure.kind in BY_NAME
        if self.is_tried_again(act, op, failure, guard):
            pause = run.limits.pause(guard.attempt, op.delay, op.backoff)
            run.notify(NoteKind.RETRYING, guard.path + segment(op.id), failure.text)
            if pause <= 0:
                act.pc = op.guard
                return STAY
            return self._wait(run, act, f"{guard.path}{segment(op.id)}~{guard.attempt + 1}", pause, out)
        act.failure = None
        if op.undo is not None:
            return self._undo(run, act, op, failure, guard)
        after: Pending = failure
        if op.remedy is not None and not by_name:
            try:
                after = self._remedy(run, act, op.id, op.remedy, failure, op.into)
            except ExpressionFailed as failed:
                after = self.blamed(run, act, Failure.of(failed, guard.path + op.id))
        for kinds, slot, first in op.handlers:
            if failure.kind in kinds if kinds else not by_name:
                act.slots[slot] = record_of(failure)
                self.bound(act, op.id, act.body.names[slot], failure, is_failure=True)
                run.notify(NoteKind.FACT, failure.step, f"it failed ({failure.text}); its handler runs")
                act.pc = first
                return STAY
        return self._behind(act, op.final, op.end, after)

    def is_tried_again(self, act: Activation, op: CatchOp, failure: Failure, guard: Guard) -> bool:
        """Whether a failure that a guard has caught leads to another attempt."""
        is_over = failure.kind in BY_NAME or failure.kind in GRAVE
        return guard.attempt <= op.retries and not (is_over or self._is_stopped(act))

    def _is_stopped(self, act: Activation) -> bool:
        return bool(self.stopping) and act.task.stopping is not None

    def _undo(self, run: Run, act: Activation, op: CatchOp, failure: Failure, guard: Guard) -> int:
        """Begin the handler that takes back what was done inside a guard; what cannot be is named first.

        What it does is done to its end, as in a FINALLY block: something is pending meanwhile.
        """
        taken = taken_back(act.done[guard.done :], op.undo or {})
        del act.done[guard.done :]
        ((_, slot, first),) = op.handlers
        for one in taken.left:
            run.notify(NoteKind.FACT, one.done.step, f"@{one.done.tool} is not undone: {one.why}")
        count = len(taken.calls)
        calls = f"{count} call is" if count == 1 else f"{count} calls are"
        run.notify(NoteKind.FACT, failure.step, f"it failed ({failure.text}); {calls} undone")
        loop = act.path + segment(undoing_loop(op.id))
        self.undone |= {f"{loop}[{n}]": done.step for n, (done, _) in enumerate(taken.calls)}
        act.slots[slot] = taken.record(failure)
        self.bound_undo(act, op, act.body.names[slot], failure, taken)
        act.pending.append(None)  # the block raises the failure again by itself
        act.pc = first
        return STAY

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
        if op.side_by_side:
            self._heed(act, visit)
        self._count(run, act, visit)
        source = self.value(act, op.source)
        if isinstance(source, str):
            raise StatementFailed(
                Failure(Failing.TYPE.value, "a text is no list of items; write list($text)", visit)
            )
        self.env.work = DEFAULT_WORK
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
        loop = Loop(act, op, items, visit)
        if op.distinction is not None and len(items) > 1:
            loop.comparing = self._differ(run, loop, op.distinction)
        else:
            self._begin(run, loop)
        return self._filled(run, loop, out)

    def _begin(self, run: Run, loop: Loop) -> None:
        """A loop knows its items, and is about to start them."""
        run.notify(NoteKind.STARTED, loop.path, at=CallPlace(items=len(loop.items)))
        if loop.in_turn:
            names = () if loop.op.distinction is None else loop.op.distinction.arguments
            said = f"{IN_TURN}, as they are not known to differ in {listed(names)}"
            run.notify(NoteKind.FACT, loop.path, said)

    def _differ(self, run: Run, loop: Loop, distinction: Distinction) -> Generator[None, None, bool]:
        """Whether the items of a loop are known to differ in what they touch, asked one after another."""
        if not self.may_tell_apart(loop.act, loop.op, distinction):
            return False
        item = Activation(loop.op.body, self._slots_of(loop))
        item.now = loop.act.now
        touched = Touched(run.placeholders)
        try:
            for given in loop.items:
                item.slots[loop.op.item_slot] = given
                named = ([self.value(item, one) for one in operands] for operands in distinction.named)
                if not touched.takes(named):
                    return False
                yield
        except ExpressionFailed:
            return False
        return True

    def _is_told_apart(self, run: Run, loop: Loop) -> bool:
        """Whether it is known if the items of a loop differ; if not, it goes on after a pause."""
        while loop.comparing is not None and not self._is_interrupted(run, loop):
            try:
                next(loop.comparing)
            except StopIteration as end:
                loop.comparing, distinction = None, loop.op.distinction
                loop.in_turn = distinction is not None and not distinction.decide(end.value)
                self._begin(run, loop)
            run.units_left -= 1 + self.spent()
        return loop.comparing is None

    def _filled(self, run: Run, loop: Loop, out: list[Command]) -> int:
        """Start items of a loop while there is room; what its statement leads to if all are done."""
        if loop.is_paused or not self._is_told_apart(run, loop):
            return WAITING
        op, items, act = loop.op, loop.items, loop.act
        window = 1
        if op.side_by_side and not self._runs_in_turn(run, loop):
            window = run.limits.window if op.most is None else min(op.most, run.limits.window)
        wave = min(window, len(items))
        while True:
            cause = None if loop.has_stopped or loop.next < wave else cause_in(loop)
            if cause is not None:
                if self._is_interrupted(run, loop):
                    return WAITING
                self._stop(run, loop, cause, out)
            if loop.next >= len(items) or loop.open >= window or loop.is_stopped:
                break
            if self._is_interrupted(run, loop):
                return WAITING
            run.units_left -= 1
            index = loop.next
            loop.next += 1
            loop.open += 1
            item = self._item(loop, index)
            if run.edits is not None:
                self._edit_beginning(run, item, loop.path + f"[{index}]")
            if self._execute(run, item, out, None) == WAITING:
                continue
            assert item.ended is not None
            self._item_ended(run, loop, item, item.ended)
        if loop.open:
            return WAITING
        return self._loop_done(run, act, loop)

    def _runs_in_turn(self, run: Run, loop: Loop) -> bool:
        """Whether the items of a loop that may run side by side start one after another.

        What a person sets while a run stands may be what the items were told apart by.
        """
        is_held = self.was_edited or run.limits.schedule == SEQUENTIAL
        return loop.in_turn or (loop.op.is_declared and is_held)

    def _is_interrupted(self, run: Run, group: Loop | Members) -> bool:
        """Whether a group goes on only after a pause, behind all in it that the pause has interrupted."""
        if run.units_left <= 0:
            run.is_paused = group.is_paused = True
            self.paused.append(group)
        return group.is_paused

    def _item(self, loop: Loop, index: int) -> Activation:
        slots = self._slots_of(loop)
        slots[loop.op.item_slot] = loop.items[index]
        return Activation(loop.op.body, slots, f"{loop.path}[{index}]/", loop.act, loop, index, True)

    @staticmethod
    def _slots_of(loop: Loop) -> list[Any]:
        """The variables of an item at its start, but for the item itself."""
        body, outer = loop.op.body, loop.act.slots
        slots: list[Any] = [None] * body.size
        for outside, inside in body.captures:
            slots[inside] = outer[outside]
        return slots

    def _edit_beginning(self, run: Run, act: Activation, place: str) -> None:
        """Set the edited variables of an item or sub-plan that begins."""
        for name, value in (run.edits or {}).items():
            around, _, variable = name.rpartition("/")
            if around == place and variable in act.body.names:
                slot = act.body.names.index(variable)
                act.slots[slot] = value_like(act.slots[slot], value)
                self.edited(act, variable)
                if self.hears_edit is not None:
                    self.hears_edit(act, slot, None)

    def _item_ended(self, run: Run, loop: Loop, item: Activation, ended: Ended) -> None:
        loop.open -= 1
        self._forget_stop(item)
        by, op = ended.by, loop.op
        if op.as_done or op.ends is Ends.FIRST:
            loop.places.append(item.index)
        if item.done:
            loop.done[item.index] = item.done
        if isinstance(by, Failure):
            loop.failures[item.index] = by
            if self.hears_failed_item is not None:
                self.hears_failed_item(loop.path, item.index, len(loop.items))
            if op.one_by_one and (not op.skips or by.kind in BY_NAME):
                loop.is_stopped = True
            if by.kind == Failing.CANCELLED and not op.side_by_side:
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
        if op.ends is Ends.FIRST:
            self.time_over(act, op)
        act.done += in_order(loop.done)
        if loop.leaving is not None:
            return leave(act, loop.leaving)
        if failures:
            failure = failure_of_loop(loop, is_told=act.task.stopping is not None)
            if failure is not None:
                run.notify(NoteKind.FAILED, loop.path, failure.text)
                raise StatementFailed(failure)
        if failures:
            run.failed_steps[loop.path] = None
            run.notify(NoteKind.CUT, loop.path, left_out(loop))
        elif op.side_by_side and loop.next < len(loop.items):
            self._heed(act, loop.path)
        results = [value for value in results_of(loop) if value is not MISSING]
        if op.into is None:
            self._finished(run, loop.path)
        else:
            try:
                self.env.sizes.admit(results)
            except ExpressionFailed as failed:
                raise StatementFailed(Failure.of(failed, loop.path)) from None
            self._finished(run, loop.path, op.into.name, self.store(run, act, op.into, results, loop.path))
        return NEXT

    # -------------------------------------------------------------- parallel

    @abstractmethod
    def _stop(self, run: Run, group: Loop | Members, cause: Cause | None, out: list[Command]) -> None:
        """Tell the tasks of a group that are under way that one has failed or is done, once."""

    @abstractmethod
    def _withdraw(self, run: Run, attempt: Attempt) -> None:
        """Drop a timer that a run waits for."""

    def _parallel(self, run: Run, act: Activation, op: ParallelOp, out: list[Command]) -> int:
        self._heed(act, act.path + op.id)
        return self._started(run, Members(act, op), out)

    def _started(self, run: Run, members: Members, out: list[Command]) -> int:
        if members.is_paused:
            return WAITING
        act, timer = members.act, members.op.timer
        if not members.is_started:
            members.is_started = True
            members.is_paused = members.op.stops or timer is not None
            for index, body in enumerate(members.op.members):
                if timer is not None and index == TIMER and act.slots[timer.slot] is None:
                    continue
                members.open += 1
                member = Activation(body, act.slots, act.path, act, members, index, act.is_inner)
                member.now, member.labels, member.yielded = act.now, act.labels, act.yielded
                if self._execute(run, member, out, None) != WAITING:
                    assert member.ended is not None
                    self._member_ended(members, member, member.ended)
            ends, members.is_paused = members.is_paused, False
            if ends and self._is_interrupted(run, members):
                return WAITING
        if timer is not None:
            return self._limited(run, members, act.slots[timer.slot], out)
        if members.op.stops and (members.failures or members.cause):
            self._stop(run, members, members.cause or cause_of(members.failures), out)
        if members.open:
            return WAITING
        act.done += in_order(members.done)
        if members.failures:
            failure = failure_of_members(members, is_told=act.task.stopping is not None)
            if failure is not None:
                raise StatementFailed(failure)
        return NEXT

    def _limit(self, run: Run, act: Activation, op: LimitOp, out: list[Command]) -> int:
        self._heed(act, act.path + op.id)
        act.slots[op.slot] = seconds_of_limit(self.value(act, op.limit), act.path + op.id)
        return NEXT

    def _timer(self, run: Run, act: Activation, op: TimerOp, out: list[Command]) -> int:
        """Start a timer; it counts as a wait of the run only once it is over."""
        seconds: float = act.slots[op.slot]
        if seconds == 0:
            return self._after_wait(act)
        return self._sleep(run, act, act.path + op.id, seconds, out)

    def _limited(self, run: Run, members: Members, seconds: float, out: list[Command]) -> int:
        """What a block with a time limit leads to once its timer is over or the block has ended."""
        act = members.act
        over = members.failures.get(TIMER)
        if over is not None and not members.has_stopped:
            run.budget.count_wait(seconds)
            self._stop(run, members, Cause(over.step, over.label, "has come to its time limit"), out)
        elif members.open == 1 and members.has_ended:
            timer = next((one for one in run.asleep.values() if is_timer_of(one, members)), None)
            if timer is not None:
                self._withdraw(run, timer)
                members.open = 0
        if members.open:
            return WAITING
        self.time_over(act, members.op)
        act.done += in_order(members.done)
        failure = members.failures.get(TIMER + 1)
        if failure is None or failure.kind not in GRAVE:
            is_over = over is not None and over.kind != Failing.CANCELLED
            failure = over if is_over else failure
        if failure is not None:
            raise StatementFailed(failure)
        leaving, repeat = members.leaving, members.op.repeat
        if leaving is None:
            return NEXT
        if leaving.word in (Word.BREAK, Word.CONTINUE):
            return self._leave_round(act, leaving.word, *repeat)
        return leave(act, leaving)

    def _member_ended(self, members: Members, member: Activation, ended: Ended) -> None:
        members.open -= 1
        self._forget_stop(member)
        if member.done:
            members.done[member.index] = member.done
        by = ended.by
        if members.op.timer is not None and member.index != TIMER:
            members.has_ended, members.act.yielded = True, member.yielded
            if isinstance(by, Leaving):
                members.leaving, by = by, None
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
        if run.edits is not None:
            self._edit_beginning(run, inner, visit)
        if op.budget is not None:
            self.budget_begins(inner, enter(self, act, op, inner))
        signal = self._execute(run, inner, out, None)
        return WAITING if signal == WAITING else self._returned(run, act, op, inner)

    def _callee(self, act: Activation, op: InvokeOp, visit: str) -> Activation:
        return Activation(op.body, [None] * op.body.size, visit + "/", act, op, 0, act.is_inner)

    def _default(self, one: Input) -> Any:
        return conformed(one.default, one.type, self.program.types)[0]

    def _returned(self, run: Run, act: Activation, op: InvokeOp, inner: Activation) -> int:
        assert inner.ended is not None
        if op.budget is not None:
            leave_budget(self, act, op, inner, self.budget_ends(act, op))
        act.done += inner.done
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
