"""Calls under way when another policy takes over: each is judged again before it may leave once more.

In: a run whose monitor holds the new policy. Out: questions to people where the new policy wants a yes, or
RefusedByPolicy for a call that it does not let pass. What the values are labelled with stays.
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
    """Judge all that is under way, waits, or is asked about; raises RefusedByPolicy."""
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
    """Judge a call of a step as it was judged first: in a loop, with its item in the variable."""
    frame, slots = attempt.frame, run.slots
    is_asked = attempt.code.number in run.gated
    seen = monitor.underway.talks.get(attempt.key)
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
        anew, origins = monitor.underway.talks[attempt.key]
        monitor.underway.talks[attempt.key] = seen[0].join(anew), seen[1] or origins


def _ask_again(run: Run, monitor: Monitor, attempt: Attempt, out: list[Command]) -> None:
    """Ask for the yes that the new policy wants; one that it does not want gives no reason of the old.

    A question that is open stays open, since somebody may have said no to it. A call that may have happened
    stays in doubt: it is asked about where it is made again.
    """
    admitted = monitor.underway.calls.get(attempt.key)
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
