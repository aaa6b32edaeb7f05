"""Judges open calls again when the policy of a run changes.

In: a run whose monitor has the new policy. Out: questions for the approvals that the new policy demands, or
RefusedByPolicy for a call that it forbids. The labels of values do not change.
"""

from __future__ import annotations

from callsheet.machine.agents.talk import QUESTION, InnerCall, Talk
from callsheet.machine.calls import emit
from callsheet.machine.commands import Ask, Command
from callsheet.machine.frames import Attempt
from callsheet.machine.monitor.monitor import Monitor
from callsheet.machine.program import Kind
from callsheet.machine.run import Run


def judge_again(run: Run, monitor: Monitor, out: list[Command]) -> None:
    """Judge all open, waiting and asked-about calls; raises RefusedByPolicy."""
    asked = [attempt for attempt, _ in run.asking.open()]
    every = [*run.calls(), *run.inner.values(), *run.asleep.values(), *run.compiling.values()]
    under_way = [*every, *asked]
    talks = {a.talk.key: a.talk for a in under_way if isinstance(a, InnerCall)}
    outer = [a for a in under_way if not isinstance(a, InnerCall) and a.key not in talks]
    for attempt in (*talks.values(), *outer):
        if attempt.code.kind is not Kind.ASK:
            _judge(run, monitor, attempt)
    for attempt in under_way:
        if isinstance(attempt, InnerCall) and attempt.place != QUESTION:
            monitor.admit_inner(attempt, is_asked=attempt.code.number in run.gated)
    for attempt in under_way:
        if attempt.code.kind is not Kind.ASK and attempt.key not in run.asleep:
            _ask_again(run, monitor, attempt, out)


def _judge(run: Run, monitor: Monitor, attempt: Attempt) -> None:
    """Judge a call of a step as at first: in a loop, with its item in the loop variable."""
    frame, slots = attempt.frame, run.slots
    is_asked = attempt.code.number in run.gated
    seen = monitor.open_calls.talks.get(attempt.key)
    if frame.items is None:
        monitor.admit(attempt, slots, is_asked=is_asked)
    else:
        slot = frame.code.loop_slot
        before, label = slots[slot], monitor.enter(frame)
        slots[slot] = frame.items[attempt.index]
        try:
            monitor.admit(attempt, slots, is_asked=is_asked)
        finally:
            slots[slot] = before
            monitor.leave(frame, label)
    if isinstance(attempt, Talk) and seen is not None:
        anew, origins = monitor.open_calls.talks[attempt.key]
        monitor.open_calls.talks[attempt.key] = seen[0].join(anew), seen[1] or origins


def _ask_again(run: Run, monitor: Monitor, attempt: Attempt, out: list[Command]) -> None:
    """Ask for the approval that the new policy demands, or drop the old policy's reasons if it demands none.

    An open question without reasons stays open, since somebody may be about to deny it. A call that may have
    happened is not asked about now, but when it is made again.
    """
    admitted = monitor.open_calls.calls.get(attempt.key)
    if admitted is None:
        return
    is_open = run.asking.is_open(attempt.key)
    if not admitted.reasons:
        asked = run.asking.excuse(attempt.key, admitted) if is_open and attempt.held is None else None
        if asked is not None:
            out.append(Ask(attempt.key, attempt.code.id, asked))
        return
    if is_open:
        run.asking.withdraw(attempt.key)
    elif not attempt.code.effect.may_rerun or attempt.key in run.compiling:
        return
    emit(run, attempt, out)
