"""Event handlers: one function per type of event, found in `HANDLERS`.

Each takes the run, the event, and the list that commands are appended to. An event whose key is not open
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callsheet.diagnostics import CallsheetError
from callsheet.machine.budget import Refusal
from callsheet.machine.calls import emit, give_back
from callsheet.machine.commands import Command, Finish
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
from callsheet.machine.frames import End, NewPlan, Wait
from callsheet.machine.limits import AUTO
from callsheet.machine.order import advance, settle
from callsheet.machine.questions import Approval
from callsheet.machine.replanning import go_on_with_part, planned
from callsheet.machine.result import PolicyRefusal, RefusedByPolicy, Status
from callsheet.machine.run import Run


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
        if run.monitor is not None and event.plan.tree is not None:
            raise CallsheetError.single(
                "RUN038",
                "the new plan has blocks, which cannot go on under a policy with what steps have read",
            )
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
    for command in out:
        attempt = None if isinstance(command, Finish) else run.call(command.key)
        if attempt is not None:
            give_back(run, attempt)
    out.clear()
    run.is_paused, run.unfilled = False, None
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
