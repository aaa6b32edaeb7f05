"""Executes plan trees: operations of activations, in the order of the text, until they wait for outcomes.

An activation is executed until it waits or ends; its end goes to what is around it, which may go on in turn.
A failure unwinds the guards of its activation, then fails the statement that the activation belongs to.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from callsheet.ir import JSON
from callsheet.ir.failing import Failing
from callsheet.ir.tree import Word
from callsheet.machine.agents.talk import InnerCall
from callsheet.machine.calls import give_back, pause_of
from callsheet.machine.commands import Command
from callsheet.machine.frames import Attempt, End, TreeFrame, Wait
from callsheet.machine.notes import NoteKind
from callsheet.machine.questions import Approval
from callsheet.machine.result import Status
from callsheet.machine.tree.activations import STAY, WAITING, Activation, Cause, Ended, Loop, Members
from callsheet.machine.tree.blocks import Blocks
from callsheet.machine.tree.execution import CarryOut, RunEnds, overspent, spend
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import (
    BranchOp,
    BreakOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    EndFinalOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    JumpOp,
    LeaveRoundsOp,
    LetOp,
    LimitOp,
    LoopOp,
    ParallelOp,
    ReplanOp,
    RequireOp,
    RoundOp,
    SayOp,
    Store,
    TimerOp,
    TreeProgram,
    UnguardOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.variables import place_of, scopes_under_way, value_like
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.run import Run


class Stopping(Blocks):
    """The part of a run of a plan tree that ends tasks before their time."""

    __slots__ = ()

    @abstractmethod
    def _deliver(
        self, run: Run, act: Activation, out: list[Command]
    ) -> tuple[Activation | None, Callable[[], int] | None]:
        """Give the end of an activation to what is around it; what goes on, and how."""

    def is_stopping(self, attempt: Attempt) -> bool:
        """Whether a call belongs to a task that ends with it."""
        frame = attempt.frame
        return bool(self.stopping) and isinstance(frame, TreeFrame) and frame.act.task.stopping is not None

    def spend(self, attempt: Attempt, spent: Spent) -> None:
        """Count what a call has spent against the budgets of the sub-plans around it."""
        if self.capped and isinstance(attempt.frame, TreeFrame):
            spend(attempt.frame.act, spent)

    def overspent(self, attempt: Attempt) -> str:
        """Why nothing more may be asked for in a call, for the budget of a sub-plan around it; else ""."""
        return overspent(self, attempt.frame.act) if isinstance(attempt.frame, TreeFrame) else ""

    def why_ended(self, attempt: Attempt) -> str:
        """Why the task of a call ends with it, and does not use its result; "" if the task goes on."""
        frame = attempt.frame
        if not isinstance(frame, TreeFrame) or not self._is_told(frame.act):
            return ""
        return cast("Failure", frame.act.task.stopping).message

    def _stop(self, run: Run, group: Loop | Members, cause: Cause | None, out: list[Command]) -> None:
        """Tell the tasks of a group that are under way that one has failed or is done, once."""
        if cause is None or group.has_stopped:
            return
        group.has_stopped = True
        ends: list[Loop | Members] = [group]
        if isinstance(group, Loop):
            group.is_stopped = True
            around = group.act.role
            if isinstance(around, Members) and around.op.joins(group.act.index):
                if around.is_paused:
                    around.cause = around.cause or cause
                if around.has_stopped or around.is_paused:
                    return
                group, around.has_stopped = around, True
                ends.append(group)
        said = f"{cause.step} {cause.what}"
        is_limit = isinstance(group, Members) and group.op.timer is not None
        message = said if is_limit else f"{said} beside it"
        why = Failure(Failing.CANCELLED.value, message, "", label=cause.label)
        waiting = {id(act): (act, attempt) for act, attempt in self._under_way(run) if _is_inside(act, group)}
        ordered = sorted(waiting.values(), key=lambda one: _place(one[0]))
        finals = [_final_around(act, group) for act, _ in ordered]
        for (act, _), final in zip(ordered, finals, strict=True):
            self._tell(final or act, group, why)
            self.led_to_stop(act)
        for (act, attempt), final in zip(ordered, finals, strict=True):
            if final is None and self._ends_at_once(run, attempt):
                kind = NoteKind.FACT if isinstance(attempt, Wait) else NoteKind.FINISHED
                run.notify(kind, attempt.frame.name, f"it ends, as {said}")
                self._break_off(run, act, ends, out)
            else:
                told = f"it is under way as {said}: it is awaited, and nothing follows it"
                run.notify(NoteKind.FACT, attempt.frame.name, told)
                run.told.append(attempt.key)

    def _under_way(self, run: Run) -> list[tuple[Activation, Attempt]]:
        """The activations that wait, each with what for; no pause is inside a group that stops."""
        attempts = [
            *run.calls(),
            *run.inner.values(),
            *run.asleep.values(),
            *(attempt for attempt, _ in run.asking.open()),
        ]
        return [(cast("TreeFrame", attempt.frame).act, attempt) for attempt in attempts]

    def _tell(self, act: Activation, group: Loop | Members, why: Failure) -> None:
        """Let each task from an activation up to its group end before it makes another call."""
        one: Activation | None = act
        while one is not None:
            role = one.role
            if role is group:
                break
            if isinstance(role, Loop) and role.op.side_by_side:
                role.is_stopped = True
            if isinstance(role, Loop | Members):
                role.has_stopped = True
            one = one.parent
        one = act
        while one is not None:
            task = one.task
            if task.stopping is None:
                task.stopping = why
                self.stopping += 1
            if task.role is group:
                break
            one = task.parent

    def _ends_at_once(self, run: Run, attempt: Attempt) -> bool:
        """Drop what an activation waits for, if nothing can come of it but the wait; whether that was so."""
        key = attempt.key
        if key in run.asleep:
            self._withdraw(run, attempt)
            return True
        if run.asking.is_open(key) and attempt.held is None and not isinstance(attempt, InnerCall):
            asked = next(asked for one, asked in run.asking.open() if one is attempt)
            run.asking.withdraw(key)
            if isinstance(asked, Approval):
                give_back(run, attempt)
        else:
            return False
        run.withdrawn.append(key)
        return True

    def _withdraw(self, run: Run, attempt: Attempt) -> None:
        """Drop a timer, or the pause before another attempt, that a run waits for."""
        del run.asleep[attempt.key]
        act = cast("TreeFrame", attempt.frame).act
        if not isinstance(act.body.operations[act.pc], TimerOp):
            run.budget.give_back_wait(pause_of(run, attempt).seconds)
        if not isinstance(attempt, Wait):
            give_back(run, attempt)
            run.budget.retries -= 1
        run.withdrawn.append(attempt.key)

    def _break_off(
        self, run: Run, act: Activation, ends: Collection[Loop | Members], out: list[Command]
    ) -> None:
        """Fail the statement at which an activation waits, and go on up to the first of `ends`.

        Those are the group that stops, and the loop that is one of its members, if the failure is in it: it
        goes on by itself.
        """
        following: Activation | None = act

        def fails() -> NoReturn:
            self._raise_stop(act, self._place(act))

        first: Callable[[], int] | None = fails
        while following is not None and run.result is None and self.ending is None:
            if self._execute(run, following, out, first) == WAITING:
                return
            if following.role in ends:
                self._deliver_end(run, following)
                return
            following, first = self._deliver(run, following, out)

    def _deliver_end(self, run: Run, task: Activation) -> None:
        """Give the end of a task to its group, which does not go on yet."""
        assert task.ended is not None
        if isinstance(task.role, Loop):
            self._item_ended(run, task.role, task, task.ended)
        elif isinstance(task.role, Members):
            self._member_ended(task.role, task, task.ended)

    def led_to_stop(self, act: Activation) -> None:
        """An activation and those around it depend from now on on what has stopped their group."""


def _is_inside(act: Activation, group: Loop | Members) -> bool:
    one: Activation | None = act
    while one is not None:
        if one.role is group:
            return True
        one = one.parent
    return False


def _final_around(act: Activation, group: Loop | Members) -> Activation | None:
    """The outermost activation inside a group whose FINALLY block an activation is in, if it is in one."""
    one: Activation | None = act
    found = None
    while one is not None:
        found = one if one.pending else found
        if one.role is group:
            break
        one = one.parent
    return found


def _place(act: Activation) -> tuple[int, ...]:
    """Where an activation is among all, in the order of the text."""
    numbers: list[int] = []
    one: Activation | None = act
    while one is not None:
        numbers.append(one.index)
        one = one.parent
    return tuple(reversed(numbers))


class TreeRun(Stopping):
    """The part of a run that only a plan tree has."""

    __slots__ = ("is_edited", "returning")

    def __init__(self, program: TreeProgram, slots: list[Any], path: str = "") -> None:
        super().__init__(program, slots, OPERATIONS, path)
        self.is_edited = False
        """Whether the edits that the run holds have been made over what the current event sets."""
        self.returning: Activation | None = None
        """The activation that goes on after an event, while the run holds edits."""

    def advance(self, run: Run, out: list[Command]) -> None:
        """Begin the plan."""
        self._go_on(run, self.main, out)

    def catch_up(self, run: Run, out: list[Command]) -> None:
        """Continue the work that a pause interrupted, in its order."""
        run.is_paused = False
        while self.paused and run.result is None:
            paused = self.paused.pop(0)
            left = len(self.paused)
            match paused:
                case Activation():
                    self._go_on(run, paused, out)
                case Loop():
                    paused.is_paused = False
                    self._go_on(run, paused.act, out, partial(self._filled, run, paused, out))
                case Members():
                    paused.is_paused = False
                    self._go_on(run, paused.act, out, partial(self._started, run, paused, out))
            if run.is_paused:
                self.paused = self.paused[left:] + self.paused[:left]
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
        if self._is_told(act):
            self._go_on(run, act, out, lambda: self._raise_stop(act, act.path + op.segment))
            return
        if into is not None and into.type is None:
            act.slots[into.slot] = value
            if act.slots is run.slots:
                run.scope.was_set[into.slot] = 1
        elif into is not None:
            self._go_on(run, act, out, partial(self._store_result, run, act, op, value))
            return
        act.pc += 1
        self._go_on(run, act, out)

    def woken(self, run: Run, wait: Wait, out: list[Command]) -> None:
        """A timer is over."""
        frame = cast("TreeFrame", wait.frame)
        act = frame.act
        self._go_on(run, act, out, lambda: self._after_wait(act))

    # -------------------------------------------------------------- what goes on

    def _go_on(
        self, run: Run, act: Activation, out: list[Command], first: Callable[[], int] | None = None
    ) -> None:
        """Execute an activation and what goes on behind it; `first` is done before its next operation."""
        try:
            following: Activation | None = act
            if run.edits is not None:
                first = partial(self._then_edited, run, act, first)
            while following is not None and run.result is None and self.ending is None:
                if self._execute(run, following, out, first) == WAITING:
                    return
                following, first = self._deliver(run, following, out)
                if run.edits is not None and following is not None and first is not None:
                    first = partial(self._then_edited_again, run, following, first)
        except RunEnds as ends:
            self.ending = ends.end
            self.paused.clear()
        if self.ending is not None and run.result is None and not run.has_open_calls:
            run.finish(self.ending, out)

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

    # -------------------------------------------------------------- edits

    def _then_edited(self, run: Run, act: Activation, first: Callable[[], int] | None) -> int:
        """Do what an event leads to at once, then set the edited variables over it."""
        try:
            return STAY if first is None else first()
        finally:
            self.is_edited, self.returning = True, act
            run.edit(run.edits or {}, notifies=True)

    def _then_edited_again(self, run: Run, act: Activation, first: Callable[[], int]) -> int:
        """Go on behind a block that the event has ended: an edit overrides what the block sets."""
        into = getattr(act.body.operations[act.pc], "into", None)
        try:
            return first()
        finally:
            self.returning = act
            if isinstance(into, Store):
                place = place_of(act)
                name = f"{place}/{into.name}" if place else into.name
                pinned = {n: value for n, value in (run.edits or {}).items() if n == name}
                self.edit(run, pinned, is_told=True)

    def edit(self, run: Run, values: Mapping[str, JSON], *, is_told: bool) -> None:
        """Set variables to values that a person gave, by their names and places; others do not exist yet.

        With `is_told` who records edits hears of them.
        """
        self.was_edited = self.was_edited or bool(values)
        scopes = scopes_under_way(run) if values else {}
        for name, value in values.items():
            place, _, variable = name.rpartition("/")
            act = scopes.get(place)
            if act is not None:
                for held, slot, source in self._set_by_hand(run, scopes, act, variable, value):
                    if is_told and self.hears_edit is not None:
                        self.hears_edit(held, slot, source)

    def _set_by_hand(
        self, run: Run, scopes: Mapping[str, Activation], act: Activation, name: str, given: JSON
    ) -> Iterator[tuple[Activation, int, tuple[Activation, int] | None]]:
        """Set a variable of an activation, and what the items under way inside it have seen of it."""
        if name not in act.body.names:
            if act is self.main:
                run.scope.take_over({name: given})
            return
        slot = act.body.names.index(name)
        value = value_like(act.slots[slot], given)
        self.put(run, act, slot, value)
        self.edited(act, name)
        yield act, slot, None
        seen = {id(act.slots): slot}
        for item in scopes.values():
            if isinstance(item.role, Loop) and id(item.role.act.slots) in seen:
                outside = seen[id(item.role.act.slots)]
                for outer, inner in item.body.captures:
                    if outer == outside:
                        item.slots[inner] = value
                        yield item, inner, (act, slot)
                        seen[id(item.slots)] = inner

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
    LimitOp: TreeRun._limit,  # pyright: ignore[reportPrivateUsage]
    TimerOp: TreeRun._timer,  # pyright: ignore[reportPrivateUsage]
    ReplanOp: TreeRun._replan,  # pyright: ignore[reportPrivateUsage]
    InvokeOp: TreeRun._invoke,  # pyright: ignore[reportPrivateUsage]
    GuardOp: TreeRun._guard,  # pyright: ignore[reportPrivateUsage]
    UnguardOp: TreeRun._unguard,  # pyright: ignore[reportPrivateUsage]
    CatchOp: TreeRun._catch,  # pyright: ignore[reportPrivateUsage]
    EndFinalOp: TreeRun._end_final,  # pyright: ignore[reportPrivateUsage]
}
