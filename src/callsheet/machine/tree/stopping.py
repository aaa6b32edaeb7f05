"""Stops the tasks of a group: what `@PARALLEL STOP`, `TOGETHER STOP`, `TOGETHER FIRST` and `WITHIN` mean.

A task is an item or member that runs beside others. It is told once, at its next wait: a timer, a question to
a person and the pause before another attempt end at once; a call under way is awaited, so that what it did is
known and recorded, and the task fails then, without its result. Handlers that name CANCELLED and FINALLY
blocks then run as after any failure, and may make calls; a FINALLY block under way is not broken off. Nothing
here depends on anything but the events so far, so a replay stops the same tasks at the same places.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NoReturn, cast

from callsheet.ir.failing import Failing
from callsheet.machine.agents.talk import InnerCall
from callsheet.machine.calls import give_back, pause_of
from callsheet.machine.commands import Command
from callsheet.machine.frames import Attempt, TreeFrame, Wait
from callsheet.machine.notes import NoteKind
from callsheet.machine.questions import Approval
from callsheet.machine.tree.activations import WAITING, Activation, Cause, Loop, Members
from callsheet.machine.tree.blocks import Blocks
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import TimerOp
from callsheet.machine.tree.spending import overspent, spend
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
