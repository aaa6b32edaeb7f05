"""What people and probes say: answers to questions, and what became of calls in doubt."""

from __future__ import annotations

from callsheet.machine.asking import Approval, Question, said_by, unanswered
from callsheet.machine.calls import deliver_again, give_back, launch
from callsheet.machine.commands import Command, Probe
from callsheet.machine.doubt import FAILED_BY_A_PERSON, FAILED_BY_POLICY, may_redeliver, next_about
from callsheet.machine.endings import fail, failed, succeeded
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
from callsheet.machine.notes import NoteKind
from callsheet.machine.program import Kind
from callsheet.machine.run import Run


def doubted(run: Run, event: Doubted, out: list[Command]) -> None:
    """A call that falls into doubt stays open until it is decided."""
    if event.spent is not None and run.is_open(event.key):
        run.budget.spend(event.spent)
    attempt = run.attempts.get(event.key)
    if attempt is None or attempt.frame.code.kind is Kind.MODEL:
        return
    following = next_about(attempt)
    attempt.is_probing = isinstance(following, Probe)
    if isinstance(following, Probe):
        out.append(following)
    elif following is Decision.RETRY:
        _deliver_again(run, event.key, out)
    elif following is Decision.FAIL:
        fail(run, run.attempts.pop(event.key), FAILED_BY_POLICY, out)


def decided(run: Run, event: Decided, out: list[Command]) -> None:
    """A probe, or a person, says what became of a call in doubt, or what is to become of it."""
    attempt = run.attempts.get(event.key)
    if attempt is None:
        return
    attempt.is_probing = False
    if event.by:
        found = "had taken place" if isinstance(event.decision, TookPlace) else "had not taken place"
        run.tell(NoteKind.FACT, attempt.frame.code.id, f"{event.by}: the call {found}")
    match event.decision:
        case Decision.RETRY if event.by and not may_redeliver(attempt):
            pass  # found again and again not to have taken place: a person has to look
        case Decision.RETRY:
            _deliver_again(run, event.key, out)
        case Decision.SKIP:
            succeeded(run, Succeeded(event.key, None), out)
        case Decision.FAIL:
            fail(run, run.attempts.pop(event.key), FAILED_BY_A_PERSON, out)
        case TookPlace(value=value):
            succeeded(run, Succeeded(event.key, value), out)


def answered(run: Run, event: Answered, out: list[Command]) -> None:
    """A person has answered: the call is made, or the step has its value, or it has failed."""
    found = run.asking.close(event.key, event.digest)
    if found is None:
        return
    attempt, asked = found
    verdict = event.verdict
    if run.observer is not None:
        run.tell(NoteKind.ANSWERED, attempt.frame.code.id, said_by(verdict, event.by, event.note))
    if isinstance(asked, Approval) and verdict in (Verdict.DENY, Verdict.EXPIRE):
        give_back(run, attempt)
    if verdict is Verdict.DENY:
        fail(run, attempt, said_by("denied", event.by, event.note), out)
    elif isinstance(asked, Approval) and verdict is Verdict.EXPIRE:
        fail(run, attempt, unanswered(asked), out)
    elif isinstance(asked, Approval):
        launch(run, attempt, out)
    else:
        run.attempts[event.key] = attempt
        _take_answer(run, event, asked, out)


def _take_answer(run: Run, event: Answered, asked: Question, out: list[Command]) -> None:
    """Go on with an answer to a question, or with what stands for one when its time is over."""
    if event.verdict is not Verdict.EXPIRE:
        value = True if event.verdict is Verdict.APPROVE and event.value is None else event.value
        succeeded(run, Succeeded(event.key, value), out)
    elif asked.has_default:
        succeeded(run, Succeeded(event.key, asked.default), out)
    else:
        failed(run, Failed(event.key, unanswered(asked)), out)


def _deliver_again(run: Run, key: str, out: list[Command]) -> None:
    if not deliver_again(run, run.attempts[key], out):
        fail(run, run.attempts.pop(key), "the run has no call left to make it again", out)
