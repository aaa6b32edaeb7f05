"""Handles answers from people, and decisions about calls in doubt."""

from __future__ import annotations

from callsheet.machine.agents.actions import CallOutcome
from callsheet.machine.calls import deliver_again, give_back, launch
from callsheet.machine.commands import Command, Probe
from callsheet.machine.doubt import FAILED_BY_A_PERSON, FAILED_BY_POLICY, may_redeliver, next_about
from callsheet.machine.endings import fail, failed, reviewed, succeeded
from callsheet.machine.events import (
    Answered,
    Decided,
    Decision,
    Doubted,
    Failed,
    Succeeded,
    TookPlace,
    Verdict,
)
from callsheet.machine.frames import Attempt
from callsheet.machine.notes import NoteKind
from callsheet.machine.program import Kind
from callsheet.machine.questions import Approval, Asked, Question, describe_answer, unanswered
from callsheet.machine.run import Run


def doubted(run: Run, event: Doubted, out: list[Command]) -> None:
    """A call is in doubt: it stays open until its tool's policy, a probe or a person decides."""
    if event.spent is not None and run.is_open(event.key):
        run.budget.spend(event.spent)
    attempt = run.call(event.key)
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
        run.notify(NoteKind.FACT, attempt.code.id, f"{event.by}: the call {outcome}")
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
