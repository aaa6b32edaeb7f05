"""Handles the outcome of a call: a value settles it, an error leads to a retry or a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from callsheet.ir.inverse import Fate
from callsheet.machine.agents.actions import CallOutcome
from callsheet.machine.agents.talk import QUESTION, InnerCall, Talk
from callsheet.machine.calls import deliver_again, emit, give_back, launch, may_retry, retry
from callsheet.machine.commands import Ask, Command, Probe
from callsheet.machine.doubt import DOUBT, FAILED_BY_A_PERSON, FAILED_BY_POLICY, may_redeliver, next_about
from callsheet.machine.events import (
    Answered,
    Decided,
    Decision,
    Doubted,
    Failed,
    PlanCompiled,
    Succeeded,
    TookPlace,
    Verdict,
)
from callsheet.machine.frames import Attempt, Frame, Group, HeldResult, Plain, TreeFrame, Wait
from callsheet.machine.notes import NoteKind
from callsheet.machine.order import (
    advance,
    complete_group,
    go_on_behind,
    item_ended,
    settle,
    store_plain_result,
)
from callsheet.machine.program import IN_TREE, Kind
from callsheet.machine.questions import Approval, Asked, Question, describe_answer, unanswered
from callsheet.machine.replanning import not_planned
from callsheet.machine.result import RefusedByPolicy
from callsheet.machine.run import Run, failure
from callsheet.machine.usage import SIZED, Spent
from callsheet.policy.calls import Rule

if TYPE_CHECKING:
    from callsheet.machine.agents.turns import Ended
    from callsheet.machine.monitor.monitor import Monitor
    from callsheet.machine.tree.activations import Activation


def succeeded(run: Run, event: Succeeded, out: list[Command]) -> None:
    """A call has given its value."""
    key, value, remarks, spent, label, review = event  # faster than attribute by attribute
    call = run.attempts.pop(key, None)
    if not isinstance(call, tuple) or review:
        _framed_succeeded(run, call, event, out)
        return
    code, _, place, frame = call
    monitor = run.monitor
    if place == IN_TREE:
        _succeeded_in_tree(run, cast("Activation", frame), call, event, out)
        return
    frame = cast("Frame | None", frame)
    if monitor is not None:
        if frame is not None or label is not None:
            _framed_succeeded(run, call, event, out)
            return
        if place >= 0:
            monitor.record_success_in_group(code, key)
        else:
            monitor.record_success(code, key)
    if type(value) in SIZED:
        run.budget.measure(value)
    if remarks or spent is not None:
        run.note_beside(code.id, event, "" if frame is None else f"item {place + 1}: ")
    if frame is not None:
        item_ended(run, frame, place, value, out)
        return
    if place >= 0:
        assert run.group is not None
        run.group.frames[place] = (code, value, key)
        _member_ended(run, run.group, code.id, out)
        return
    if code.cast is not None or run.observer is not None:
        store_plain_result(run, code, value)
    elif (slot := code.out_slot) >= 0:  # `store_plain_result`, inlined for speed
        run.slots[slot] = run.last = value
        run.scope.was_set[slot] = 1
    if run.schedule is not None:
        go_on_behind(run, run.schedule, code.number, out)
    else:
        run.pc = code.number + 1
        advance(run, out)


def _succeeded_in_tree(run: Run, act: Activation, call: Plain, event: Succeeded, out: list[Command]) -> None:
    """A plain call of a plan tree has given its value."""
    _, value, remarks, spent, _, _ = event
    if run.observer is not None or run.monitor is not None or remarks or spent is not None:
        _framed_succeeded(run, call, event, out)
        return
    if type(value) in SIZED:
        run.budget.measure(value)
    tree = run.tree
    assert tree is not None
    tree.succeeded(run, act, value, out)


def _member_ended(run: Run, group: Group, step: str, out: list[Command]) -> None:
    """A plain call of a member of a group has given its value."""
    group.open -= 1
    if not group.open:
        complete_group(run, group, out)
    elif run.observer is not None:
        run.notify(NoteKind.SETTLED, step)


def _framed_succeeded(run: Run, call: Attempt | Plain | None, event: Succeeded, out: list[Command]) -> None:
    """As `succeeded`, for all calls but the plain ones."""
    if call is None:
        _inner_succeeded(run, event, out)
        return
    attempt = run.unfolded(event.key, call) if isinstance(call, tuple) else call
    value = event.value
    if event.review:
        note_beside(run, attempt, event)
        _hold_for_review(run, attempt, HeldResult(value, event.review), out)
        return
    if run.monitor is not None:
        run.monitor.record_outcome(attempt, event.label)
    if type(value) in SIZED:
        run.budget.measure(value)
    if event.remarks or event.spent is not None:
        note_beside(run, attempt, event)
    settle(run, attempt, value, out)


def _hold_for_review(run: Run, attempt: Attempt, result: HeldResult, out: list[Command]) -> None:
    """Ask a person to approve the result of a call before it counts."""
    if type(result.value) in SIZED:
        run.budget.measure(result.value)
    attempt.held = result
    emit(run, attempt, out)


def reviewed(run: Run, attempt: Attempt, refusal: str, out: list[Command]) -> None:
    """A person has reviewed the result of a call: it counts, or the call fails with the `refusal`."""
    held_result, attempt.held = attempt.held, None
    assert held_result is not None
    if refusal:
        if isinstance(attempt.frame, TreeFrame):
            attempt.frame.fate, attempt.frame.gave = Fate.DONE, held_result.value
        fail(run, attempt, refusal, out, CallOutcome.REFUSED)
        return
    if run.monitor is not None:
        run.monitor.record_outcome(attempt)
    settle(run, attempt, held_result.value, out)


def failed(run: Run, event: Failed, out: list[Command]) -> None:
    """A call or compilation has failed: it is retried as far as its step and the budget allow."""
    if run.planning is not None and event.key == run.planning.key:
        not_planned(run, event, out)
        return
    attempt = run.attempts.pop(event.key, None) or run.compiling.pop(event.key, None)
    if isinstance(attempt, tuple):
        attempt = run.unfolded(event.key, attempt)
    if attempt is None:
        attempt = run.inner.pop(event.key, None)
        if attempt is None:
            return
    run.budget.measure(event.error)
    note_beside(run, attempt, event)
    if event.label is not None and run.monitor is not None:
        run.monitor.raise_result(attempt, event.label)
    is_of_session = isinstance(attempt, InnerCall) and attempt.talk.allowed.is_session
    if event.forbidden and run.monitor is not None and not is_of_session:
        give_back(run, attempt)
        raise run.monitor.forbidden(attempt, event.error, Rule(event.forbidden))
    if isinstance(attempt, InnerCall):
        if attempt.place != QUESTION:
            if run.monitor is not None:
                run.monitor.failed(attempt)
            outcome = CallOutcome.LOST if event.unsettled else CallOutcome.FAILED
            from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

            _continue_talk(run, attempt.talk, turns.observed(run, attempt, event.error, outcome, out), out)
            return
        attempt = attempt.talk  # a failed question is retried as the step says, from this turn on
        from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

        if why := turns.overspent(run, attempt):
            _continue_talk(run, attempt, turns.out_of_budget(run, attempt, why), out)
            return
    attempt.delivery = (attempt.delivery or attempt.key) if event.unsettled else ""
    if isinstance(attempt.frame, TreeFrame) and (
        event.final or event.unsettled or attempt.code.kind is Kind.AGENT
    ):
        attempt.frame.fate = Fate.LOST if event.final else Fate.UNKNOWN
    is_over = event.final or (
        run.tree is not None and (run.tree.is_stopping(attempt) or bool(run.tree.overspent(attempt)))
    )
    if not is_over and attempt.number <= attempt.code.retries and may_retry(run, attempt):
        retry(run, attempt, event.error, out)
    else:
        fail(run, attempt, event.error, out, kind=event.kind)


_KINDS = {CallOutcome.REFUSED: "DENIED", CallOutcome.LOST: DOUBT}
"""The kinds of failure of calls in a plan tree that are none of their tools."""


def fail(
    run: Run,
    attempt: Attempt,
    error: str,
    out: list[Command],
    outcome: CallOutcome = CallOutcome.FAILED,
    kind: str = "",
) -> None:
    """A call has failed for good: its error takes the place of its result; `kind` is that of the event.

    If an agent asked for the call, the agent is told the error instead, and the kind of failure (`outcome`).
    """
    if run.monitor is not None:
        run.monitor.failed(attempt)
    if isinstance(attempt, InnerCall) and attempt.place != QUESTION:
        from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

        _continue_talk(run, attempt.talk, turns.observed(run, attempt, error, outcome, out), out)
        return
    frame, code = attempt.frame, attempt.code
    frame.failed |= {attempt.index}
    if isinstance(frame, TreeFrame):
        frame.kind = _KINDS.get(outcome, kind)
    if code.leads_on:
        frame.stopped = True
    elif code.kind is Kind.REPLAN and run.tree is None:
        shown = error if run.monitor is None else run.monitor.shown_texts.failure(frame, error)
        frame.control = failure(code, f"no new plan: {shown}")
    run.notify_of(NoteKind.FAILED, attempt, error)
    settle(run, attempt, error, out)


def _inner_succeeded(run: Run, event: Succeeded, out: list[Command]) -> None:
    """A call made for a turn-by-turn operation has given its value."""
    call = run.inner.pop(event.key, None)
    if call is None:
        return
    if type(event.value) in SIZED:
        run.budget.measure(event.value)
    note_beside(run, call, event)
    if call.place == QUESTION:
        from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

        ended = turns.take_answer(run, call.talk, event.value, out)
        if event.review and isinstance(ended, turns.Solved):
            _hold_for_review(run, call.talk, HeldResult(ended.value, event.review), out)
        else:
            _continue_talk(run, call.talk, ended, out)
    else:
        value, outcome = event.value, CallOutcome.OK
        if run.monitor is not None:
            try:
                run.monitor.record_outcome(call, event.label)
            except RefusedByPolicy as refused:
                if not call.talk.allowed.is_session:
                    raise
                value, outcome = refused.refusal.explain(), CallOutcome.REFUSED
        from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

        _continue_talk(run, call.talk, turns.observed(run, call, value, outcome, out), out)


def _continue_talk(run: Run, talk: Talk, ended: Ended | None, out: list[Command]) -> None:
    """If a talk has ended, settle its step with the value, or fail it."""
    from callsheet.machine.agents import turns  # noqa: PLC0415 - only plans with agents

    if isinstance(ended, turns.Solved):
        if run.monitor is not None:
            run.monitor.record_outcome(talk)
        settle(run, talk, ended.value, out)
    elif ended is not None:
        fail(run, talk, ended.why, out, kind=ended.kind)


def note_beside(run: Run, attempt: Attempt, event: Succeeded | Failed | PlanCompiled) -> None:
    """Count what a call spent and report its remarks, with the item's number in a FOREACH."""
    frame = attempt.frame
    if frame.code.kind is Kind.REPLAN:
        run.budget.count_repairs(event.key, event.spent)
    if event.spent is not None:
        _spend(run, attempt, event.spent)
    run.note_beside(frame.name, event, "" if frame.items is None else f"item {attempt.index + 1}: ")


def _spend(run: Run, attempt: Attempt, spent: Spent) -> None:
    """Count what a call has spent against the budgets that agents and sub-plans have of their own."""
    if isinstance(attempt, InnerCall):
        attempt.talk.spent = attempt.talk.spent.plus(spent)
    if run.tree is not None:
        run.tree.spend(attempt, spent)


def doubted(run: Run, event: Doubted, out: list[Command]) -> None:
    """A call is in doubt: it stays open until its tool's policy, a probe or a person decides."""
    if event.spent is not None and run.is_open(event.key):
        run.budget.spend(event.spent)
    attempt = run.call(event.key)
    if attempt is not None and event.spent is not None:
        _spend(run, attempt, event.spent)
    if attempt is None or attempt.code.kind is Kind.MODEL or attempt.code.loop is not None:
        return
    following = next_about(attempt)
    attempt.is_probing = isinstance(following, Probe)
    if isinstance(following, Probe):
        out.append(following)
    elif following is Decision.RETRY:
        _deliver_again(run, attempt, out)
    elif following is Decision.FAIL:
        run.drop(attempt)
        fail(run, attempt, FAILED_BY_POLICY, out, CallOutcome.LOST)


def decided(run: Run, event: Decided, out: list[Command]) -> None:
    """A probe or a person has decided what became of a call in doubt, or what to do about it."""
    attempt = run.call(event.key)
    if attempt is None:
        return
    attempt.is_probing = False
    if event.by:
        outcome = "had taken place" if isinstance(event.decision, TookPlace) else "had not taken place"
        run.notify(NoteKind.FACT, attempt.frame.name, f"{event.by}: the call {outcome}")
    match event.decision:
        case Decision.RETRY if event.by and not may_redeliver(attempt):
            pass  # probes found repeatedly that it did not take place: a person has to decide
        case Decision.RETRY:
            _deliver_again(run, attempt, out)
        case Decision.SKIP:
            succeeded(run, Succeeded(event.key, None), out)
        case Decision.FAIL:
            run.drop(attempt)
            fail(run, attempt, FAILED_BY_A_PERSON, out, CallOutcome.LOST)
        case TookPlace(value=value):
            succeeded(run, Succeeded(event.key, value), out)


def answered(run: Run, event: Answered, out: list[Command]) -> None:
    """A person has answered: make the approved call, settle the step with the answer, or fail it."""
    question = run.asking.close(event.key, event.digest)
    if question is None:
        return
    attempt, asked = question
    verdict = event.verdict
    if run.observer is not None:
        run.notify_of(NoteKind.ANSWERED, attempt, describe_answer(verdict, event.by, event.note))
    if attempt.held is not None:
        _reviewed(run, attempt, event, asked, out)
        return
    if isinstance(asked, Approval) and verdict in (Verdict.DENY, Verdict.EXPIRE):
        give_back(run, attempt)
    if verdict is Verdict.DENY:
        fail(run, attempt, describe_answer("denied", event.by, event.note), out, CallOutcome.REFUSED)
    elif isinstance(asked, Approval) and verdict is Verdict.EXPIRE:
        fail(run, attempt, unanswered(asked), out, CallOutcome.REFUSED)
    elif isinstance(asked, Approval):
        launch(run, attempt, out)
    else:
        run.register(attempt)
        _take_answer(run, event, asked, out)


def _reviewed(run: Run, attempt: Attempt, event: Answered, asked: Asked, out: list[Command]) -> None:
    """A person has reviewed the result of a call, or nobody has in time."""
    refusal = ""
    if event.verdict is Verdict.DENY:
        refusal = describe_answer("denied", event.by, event.note)
    elif event.verdict is Verdict.EXPIRE:
        refusal = unanswered(asked)
    reviewed(run, attempt, refusal, out)


def _take_answer(run: Run, event: Answered, asked: Question, out: list[Command]) -> None:
    """Settle a question with its answer, or with its default or a failure if its time is over."""
    if event.verdict is not Verdict.EXPIRE:
        value = True if event.verdict is Verdict.APPROVE and event.value is None else event.value
        succeeded(run, Succeeded(event.key, value), out)
    elif asked.has_default:
        succeeded(run, Succeeded(event.key, asked.default), out)
    else:
        failed(run, Failed(event.key, unanswered(asked)), out)


def _deliver_again(run: Run, attempt: Attempt, out: list[Command]) -> None:
    if not deliver_again(run, attempt, out):
        run.drop(attempt)
        fail(run, attempt, "the run has no call left to make it again", out, CallOutcome.LOST)


def judge_again(run: Run, monitor: Monitor, out: list[Command]) -> None:
    """Judge all open, waiting and asked-about calls; raises RefusedByPolicy."""
    asked = [attempt for attempt, _ in run.asking.open()]
    retried = [attempt for attempt in run.asleep.values() if not isinstance(attempt, Wait)]
    every = [*run.calls(), *run.inner.values(), *retried, *run.compiling.values()]
    under_way = [*every, *asked]
    talks = {a.talk.key: a.talk for a in under_way if isinstance(a, InnerCall)}
    outer = [a for a in under_way if not isinstance(a, InnerCall) and a.key not in talks]
    inner = [a for a in under_way if isinstance(a, InnerCall) and a.place != QUESTION]
    again = [a for a in (*talks.values(), *outer) if a.code.kind is not Kind.ASK]
    for attempt in (*again, *inner):
        monitor.take_back(attempt)
    for attempt in again:
        _judge(run, monitor, attempt)
    for attempt in inner:
        monitor.admit_inner(attempt, is_asked=attempt.code.number in run.gated)
    for attempt in under_way:
        if attempt.code.kind is not Kind.ASK and attempt.key not in run.asleep:
            _ask_again(run, monitor, attempt, out)


def _judge(run: Run, monitor: Monitor, attempt: Attempt) -> None:
    """Judge a call of a step as at first: in a loop, with its item in the loop variable."""
    frame, slots = attempt.frame, run.slots
    is_asked = attempt.code.number in run.gated
    seen = monitor.open_calls.talks.get(attempt.key)
    if run.tree is not None:
        run.tree.admit(run, cast("TreeFrame", frame).act, attempt)
    elif frame.items is None:
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
