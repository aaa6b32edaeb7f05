"""Open questions and calls in doubt of all runs, and answers to runs that this process does not own.

In: a journal. Out: the questions; or a message in the inbox, which the run's owner takes now or on
resumption. An answer is checked here against its question, so that a misfit is reported at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.lazy import deferred
from callsheet.machine import Answered, Approval, Question, Verdict
from callsheet.machine.keys import parse_key
from callsheet.machine.questions import Asked, asked_from_json
from callsheet.runtime.answers import (
    Answer,
    PendingAsk,
    answers,
    may_answer,
    message_payload,
    misfit,
    pending,
    sealed_in,
)
from callsheet.runtime.asking import role_in, site_in
from callsheet.runtime.doubt import DoubtfulCall, doubtful_calls, fold_run
from callsheet.store import EventType, Journal, JournalError, RunStatus, RunWriter
from callsheet.store.events import Event as Row
from callsheet.store.listing import INTERRUPTED, check_here, found_runs
from callsheet.store.mailbox import Message
from callsheet.store.records import recorded_event
from callsheet.store.replay import start_from
from callsheet.store.snapshots import AskTimes
from callsheet.store.start import policy_in

if TYPE_CHECKING:
    from callsheet.policy.model import Policy
    from callsheet.runtime import precedents
    from callsheet.runtime.program_question import ProgramQuestion
else:
    precedents = deferred("callsheet.runtime.precedents")

_OPEN = (RunStatus.WAITING, RunStatus.RUNNING, RunStatus.IN_DOUBT, RunStatus.PAUSED)
_FITS = "`callsheet inbox` shows what is asked; `callsheet approve RUN --answer …` takes JSON, or else text"


def inbox(journal: Journal) -> list[PendingAsk]:
    """The unanswered questions of all runs in a journal, oldest first."""
    asks = [
        ask
        for status in _OPEN
        for info in journal.runs(None, status)
        for ask in asks_of(journal, info.run_id)
    ]
    return sorted(asks, key=lambda ask: (ask.since, ask.run_id, ask.key))


Doubts: TypeAlias = "Mapping[str, tuple[DoubtfulCall, ...]]"
"""Calls in doubt by the ids of their runs."""


def calls_in_doubt(
    journal: Journal, known: dict[tuple[str, int], tuple[DoubtfulCall, ...]] | None = None
) -> Doubts:
    """The calls in doubt of all runs that no process executes, by run, the oldest run first.

    Runs whose events cannot be read are left out, as `callsheet show` reports that. `known` keeps the calls
    of each run by its id and number of events, so that asking again costs little.
    """
    stopped = [info for info, _ in found_runs(journal, INTERRUPTED, None)]
    stopped += journal.runs(None, RunStatus.IN_DOUBT) + journal.runs(None, RunStatus.PAUSED)
    before = dict(known or {})
    now = {(info.run_id, info.events): before.get((info.run_id, info.events)) for info in stopped}
    calls = {run: doubts_of(journal, run[0]) if found is None else found for run, found in now.items()}
    if known is not None:
        known.clear()
        known.update(calls)
    ordered = sorted(stopped, key=lambda info: (info.created, info.run_id))
    by_run = ((info.run_id, calls[info.run_id, info.events]) for info in ordered)
    return {run_id: found for run_id, found in by_run if found}


def doubts_of(journal: Journal, run_id: str) -> tuple[DoubtfulCall, ...]:
    """The calls in doubt of a run that no process executes; none if its events cannot be read."""
    try:
        return doubtful_calls(fold_run(journal, run_id, journal.plan_of(journal.find_run(run_id).plan_hash)))
    except JournalError:
        return ()


def asks_of(journal: Journal, run_id: str) -> list[PendingAsk]:
    """The open questions of a run, in the order of asking.

    Those with an answer in the inbox are included, marked `is_answered`. Raises JournalError: JRN002 for an
    unknown run, JRN020 if its events cannot be read.
    """
    messages = journal.mailbox.unread(run_id)
    return _asks(journal, run_id, lambda key, asked: any(may_answer(le, key, asked) for le in messages))


def _asks(journal: Journal, run_id: str, is_answered: Callable[[str, Asked], bool]) -> list[PendingAsk]:
    plans = cache(journal.plan)
    return [
        pending(
            run_id,
            row.key or "",
            row.step or "",
            asked,
            posed,
            is_answered=is_answered(row.key or "", asked),
            role=str((row.body or {}).get("role", "")),
            site=site_in(plans, row.key or "", asked),
        )
        for row, asked, posed in _open_rows(journal, run_id)
    ]


def _open_rows(journal: Journal, run_id: str) -> list[tuple[Row, Asked, AskTimes]]:
    """A run's open questions by its events; after a policy change or an edit it repeats the open ones."""
    questions: dict[str, tuple[Row, Asked, AskTimes]] = {}
    for row in journal.question_events(run_id):
        body = row.body or {}
        try:
            if row.type is EventType.SERVER_ASKS and body["due"] <= time.time():
                continue  # the server has been told that nobody answered, or is gone
            if row.type in (EventType.ASK, EventType.SERVER_ASKS):
                questions[body["digest"]] = row, asked_from_json(body), AskTimes(row.ts, body["due"])
            elif row.type in (EventType.SIGNAL, EventType.SERVER_TOLD):
                questions.pop(body["digest"], None)
            else:
                questions.clear()
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(
                "JRN020", f"event {row.seq} ({row.type}) of run {run_id} cannot be read: {error!r}"
            ) from error
    return list(questions.values())


def answer_run(
    journal: Journal,
    run_id: str,
    answer: Answer | Callable[[PendingAsk], Answer],
    place: str | None = None,
    *,
    digest: str | None = None,
    msg_id: str | None = None,
    roles: frozenset[str] = frozenset(),
) -> PendingAsk:
    """Leave an answer for a run and return the question that it answers.

    `run_id` is the full id. `place` is the key or step of the question, optional if there is only one.
    `digest` is that of the question as it was seen: the answer is refused if it has changed. `msg_id` is the
    sender's id for this answer, so that an answer is never delivered twice. `roles` are those of whoever
    answers. Raises CallsheetError: JRN002 for an unknown run, RUN030 if no such question is open or the id
    was used before, RUN031 for an answer that does not fit, RUN039 if the policy demands another role.
    """
    check_here(journal, run_id)
    messages = Opening(journal, run_id)()
    ask, given_answer = fitting(journal, run_id, answer, place, digest, messages)
    check_role(journal, ask, roles)
    covered = _program(journal, ask, given_answer.for_program) if given_answer.for_program else []
    name = msg_id or _name(f"{ask.key}:{ask.digest[:32]}", messages)
    payload, sealed = message_payload(ask.digest, given_answer), sealed_in(given_answer, ask.options)
    if not journal.mailbox.post(run_id, ask.key, name, payload, sealed):
        raise not_asked(f"an answer named {name} was given to run {run_id} before")
    for number, call in enumerate(covered):
        shown = {precedents.PROGRAM: call, "by": given_answer.by, "at": ask.key}
        journal.mailbox.post(run_id, "", f"{precedents.PROGRAM}:{ask.key}:{ask.digest[:32]}:{number}", shown)
    if given_answer.for_plan:
        for_plan, _ = covered_by(journal, ask)
        standing = {precedents.STANDING: for_plan, "by": given_answer.by, "at": ask.key}
        journal.mailbox.post(run_id, "", f"{precedents.STANDING}:{ask.key}:{ask.digest[:32]}", standing)
    return replace(ask, is_answered=True)


def role_for(journal: Journal, ask: PendingAsk) -> str:
    """The role that the run's policy demands of whoever answers a question, as `role_in`."""
    return role_in(policy_of_run(journal, ask.run_id), ask)


class GivenAnswer(NamedTuple):
    """An answer that a run has taken: to which question, what, by whom, and when; not its value."""

    key: str
    verdict: str
    by: str
    note: str
    at: float

    def describe(self) -> str:
        """The answer as a line."""
        who = f" by {' '.join(self.by.split())}" if self.by else ""
        noted = f": {' '.join(self.note.split())}" if self.note else ""
        return f"{self.key} was {_PAST.get(self.verdict, self.verdict)}{who}{noted}"


_PAST = {"approve": "approved", "deny": "denied", "answer": "answered", "expire": "not answered in time"}


def given_answers(journal: Journal, run_id: str) -> Iterator[GivenAnswer]:
    """The answers of people that a run has taken, in their order."""
    for row in journal.question_events(run_id):
        body = row.body or {}
        if row.type is EventType.SIGNAL:
            by, note = str(body.get("by") or ""), body.get("note")
            yield GivenAnswer(
                row.key or "", str(body.get("verdict")), by, note if isinstance(note, str) else "", row.ts
            )


def check_role(journal: Journal, ask: PendingAsk, roles: frozenset[str]) -> None:
    """Raise CallsheetError (RUN039) if a question demands a role that is not among these."""
    role = role_for(journal, ask)
    if role and role not in roles:
        raise _not_allowed(f"{ask.key} of run {ask.run_id}", role)


def _not_allowed(what: str, role: str) -> CallsheetError:
    return CallsheetError.single(
        "RUN039",
        f"{what}: only somebody with the role {role} may answer this",
        help="answer it at `callsheet serve --people FILE`, signed in as a person who has the role",
    )


def _program(journal: Journal, ask: PendingAsk, shown: str) -> list[dict[str, JSON]]:
    """What a yes to the further calls of a plan covers; `shown` is the hash of what was shown of them."""
    from callsheet.runtime.program_question import program_questions  # noqa: PLC0415 - brings the proof

    question = program_questions(journal, ask.run_id, [(ask.key, ask.digest)]).get(ask.digest)
    if question is None or question.digest != shown:
        raise not_asked(
            f"the further calls of run {ask.run_id} have changed since they were shown",
            "look at them again: `callsheet inbox`",
        )
    return [call.to_json(ask.plan_hash) for call in question.covered]


def covered_by(journal: Journal, ask: PendingAsk) -> tuple[Mapping[str, object], str]:
    """What an approval of a call for the whole plan covers, as data and in words."""
    asked = asked_of(ask)
    assert isinstance(asked, Approval)
    covered = precedents.coverage(asked, ask.step, policy_of_run(journal, ask.run_id))
    return covered, precedents.in_words(covered, asked)


def approve_all(
    journal: Journal, run_id: str, answer: Answer, place: str | None = None, *, digest: str | None = None
) -> list[PendingAsk]:
    """Give the same answer to all open approvals of a run, or of one of its steps, and return them.

    `digest` is that of all of them together, as `digest_of_all` gives it: the answer counts only if they are
    still the same. Raises CallsheetError as `answer_run`.
    """
    asks = [
        ask
        for ask in asks_of(journal, run_id)
        if ask.kind == "approval" and not ask.is_answered and place in (None, ask.step, ask.key)
    ]
    if not asks:
        raise not_asked(f"{f'{place} of ' if place else ''}run {run_id} waits for no approval")
    if digest is not None and digest != digest_of_all(asks):
        raise not_asked(
            f"the calls that run {run_id} waits for have changed since they were shown",
            "look at them again: `callsheet inbox`",
        )
    return [answer_run(journal, run_id, answer, ask.key, digest=ask.digest) for ask in asks]


def digest_of_all(asks: Sequence[PendingAsk]) -> str:
    """A hash of several questions together."""
    return sha256("".join(sorted(ask.digest for ask in asks)).encode()).hexdigest()


def precedents_of(journal: Journal, asks: Sequence[PendingAsk]) -> dict[str, str]:
    """For each call that was approved for an earlier run of the same plan, by its digest: what differs.

    Where the plan is another than the one that was last approved, the first call of a run tells its changes.
    """
    found: dict[str, str] = {}
    told: set[str] = set()
    for ask in asks:
        asked = asked_of(ask)
        if isinstance(asked, Approval) and not asked.answer:
            precedent = precedents.precedent_of(journal, ask.run_id, ask.step, asked)
            if not isinstance(precedent, precedents.Precedent):
                is_told = ask.run_id in told
                told.add(ask.run_id)
                changed = None if is_told else precedents.changed_since_approval(journal, ask.run_id, asked)
                precedent = None if is_told else changed or precedent
            if precedent is not None:
                found[ask.digest] = str(precedent)
    return found


class ProgramQuestions:
    """The further calls of the runs of open questions, worked out again when a run has gone on.

    For a process that is asked for them again and again, such as a server with a page of open questions.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, dict[str, ProgramQuestion]]] = {}

    def of(self, journal: Journal, asks: Sequence[PendingAsk]) -> dict[str, ProgramQuestion]:
        """For each call that waits, by its digest: the further calls of its plan that will ask, if any."""
        from callsheet.runtime.program_question import program_questions  # noqa: PLC0415 - brings the proof

        found: dict[str, ProgramQuestion] = {}
        before, self._known = self._known, {}
        for run_id, asked in _open_calls(asks).items():
            try:
                state = journal.find_run(run_id).head_hash, tuple(asked)
            except JournalError:
                continue  # it was deleted meanwhile
            known = before.get(run_id)
            if known is None or known[0] != state:
                known = state, program_questions(journal, run_id, asked)
            self._known[run_id] = known
            found |= known[1]
        return found


def programs_of(journal: Journal, asks: Sequence[PendingAsk]) -> dict[str, ProgramQuestion]:
    """As `ProgramQuestions.of`, once."""
    return ProgramQuestions().of(journal, asks)


def _open_calls(asks: Sequence[PendingAsk]) -> dict[str, list[tuple[str, str]]]:
    """The keys and digests of the calls that wait, by run."""
    calls: dict[str, list[tuple[str, str]]] = {}
    for ask in asks:
        if ask.kind == "approval" and not ask.answer and not ask.is_answered:
            calls.setdefault(ask.run_id, []).append((ask.key, ask.digest))
    return calls


def policy_of_run(journal: Journal, run_id: str) -> Policy | None:
    """The policy that a run is under now; None without one, or if its events cannot be read.

    Only its first event and those that change the policy are read, however long the run is.
    """
    try:
        changes = [row.body or {} for row in journal.question_events(run_id) if row.type is EventType.POLICY]
        if changes:
            return policy_in(changes[-1])
        first = next(journal.events(run_id), None)
        return None if first is None else start_from(first.type, first.body).policy
    except (JournalError, KeyError, TypeError, ValueError):
        return None


def fitting(
    journal: Journal,
    run_id: str,
    answer: Answer | Callable[[PendingAsk], Answer],
    place: str | None = None,
    digest: str | None = None,
    messages: Sequence[Message] = (),
) -> tuple[PendingAsk, Answer]:
    """The question that an answer is for, and the answer; arguments and errors as for `answer_run`.

    Questions answered by one of the `messages` count as answered.
    """
    asks = _asks(
        journal,
        run_id,
        lambda key, asked: any(answers(message, key, asked) is not None for message in messages),
    )
    ask = _chosen(journal, run_id, asks, place)
    if digest is not None and digest != ask.digest:
        raise not_asked(
            f"the question {ask.key} of run {run_id} has changed since it was shown",
            "look at it again: `callsheet inbox`",
        )
    if ask.until is not None and time.time() >= ask.until:
        raise not_asked(
            f"the time to answer {ask.key} of run {run_id} has run out",
            f"continue the run without an answer: callsheet resume {run_id}",
        )
    if ask.is_answered:
        raise answered_already(run_id, ask.key)
    given_answer = answer if isinstance(answer, Answer) else answer(ask)
    wrong = misfit(asked_of(ask), given_answer)
    if wrong is not None:
        raise CallsheetError.single("RUN031", f"{ask.key} of run {run_id}: {wrong}", help=_FITS)
    return ask, given_answer


def answer_ahead(journal: Journal, run_id: str, key: str, answer: Answer, msg_id: str | None = None) -> None:
    """Leave the answer to a question that has not been asked yet.

    It is ignored if it does not fit the question then, and it approves no call: an approval is bound to
    arguments that are not known yet. Raises CallsheetError as `answer_run`.
    """
    try:
        parse_key(key)
    except (ValueError, IndexError):
        raise not_asked(
            f"{key[:80]!r} is not the key of a call", "a key is STEP.ITEM.ATTEMPT: S3.0.1"
        ) from None
    check_here(journal, run_id)
    if journal.find_run(run_id).status.is_final:
        raise not_asked(f"run {run_id} has ended")
    if answer.verdict is Verdict.EXPIRE:
        raise CallsheetError.single("RUN031", f"{key} of run {run_id}: a person can approve, deny or answer")
    role = role_in(policy_of_run(journal, run_id), Question(""))
    if role:
        raise _not_allowed(f"{key} of run {run_id}", role)
    name = msg_id or f"{key}:ahead"
    if not journal.mailbox.post(run_id, key, name, message_payload(None, answer), sealed_in(answer)):
        raise not_asked(f"an answer named {name} was given to run {run_id} before")


class Opening:
    """Reads and unseals the messages to a run; warns once about each that cannot be unsealed.

    For the `owner` of the run it raises Fenced once another process has taken that over: he would otherwise
    wait for answers that nobody gives him.
    """

    def __init__(self, journal: Journal, run_id: str, owner: RunWriter | None = None) -> None:
        self._journal = journal
        self._run_id = run_id
        self._owner = owner
        self._warned: set[str] = set()

    def __call__(self) -> list[Message]:
        """The messages as they are now."""
        if self._owner is not None:
            self._owner.require_ours()
        return self._journal.mailbox.opened(self._run_id, self._warn)

    def _warn(self, error: JournalError) -> None:
        (diagnostic,) = error.diagnostics
        if diagnostic.message not in self._warned:
            self._warned.add(diagnostic.message)
            self._journal.warn(f"{diagnostic.code}: {diagnostic.message} ({diagnostic.help})")


def _name(usual: str, messages: list[Message]) -> str:
    """A message id for a message: a new one if sealed messages with the usual id exist."""
    closed = sum(message.msg_id.partition("#")[0] == usual for message in messages)
    return f"{usual}#{closed + 1}" if closed else usual


def asked_of(ask: PendingAsk) -> Asked:
    """What a pending question asks, against which an answer is checked."""
    if ask.kind == "approval":
        call = ask.tool, ask.args or {}, ask.inputs, ask.plan_hash
        return Approval(*call, ask.labels or {}, ask.digest, why=ask.why, answer=ask.answer)
    return Question(ask.prompt, ask.options, ask.schema, digest=ask.digest)


def _chosen(journal: Journal, run_id: str, asks: list[PendingAsk], place: str | None) -> PendingAsk:
    """The question that is meant; answered ones count only if there are no others."""
    fitting = [ask for ask in asks if place is None or place in (ask.key, ask.step)]
    unanswered = [ask for ask in fitting if not ask.is_answered] or fitting
    if len(unanswered) == 1:
        return unanswered[0]
    if unanswered:
        keys = ", ".join(ask.key for ask in unanswered[:8]) + (", …" if len(unanswered) > 8 else "")
        raise not_asked(f"run {run_id} waits for more than one answer: {keys}", "name one of them")
    where = "" if place is None else f"{place} of "
    raise not_asked(f"{where}run {run_id} has no pending question{_why(journal, run_id, place)}")


def _why(journal: Journal, run_id: str, place: str | None) -> str:
    """Why there is nothing to answer, if the journal says so."""
    latest = next(reversed([*_answers(journal, run_id, place)]), None)
    if latest is not None and latest.verdict is Verdict.EXPIRE:
        return f": the time to answer {latest.key} has run out"
    if latest is not None:
        who = f" by {latest.by}" if latest.by else ""
        return f": {latest.key} was answered before ({latest.verdict}{who}), and an answer counts once"
    status = journal.find_run(run_id).status
    return f": it is {status}" if status.is_final else ""


def _answers(journal: Journal, run_id: str, place: str | None) -> Iterator[Answered]:
    for row in journal.question_events(run_id):
        if row.type is EventType.SIGNAL and (place is None or place in (row.key, row.step)):
            event = recorded_event(row, journal.plan_of)
            assert isinstance(event, Answered)
            yield event


def answered_already(run_id: str, key: str) -> CallsheetError:
    """The error for a question that has an answer (RUN030)."""
    return not_asked(
        f"{key} of run {run_id} has been answered already", f"continue the run: callsheet resume {run_id}"
    )


def not_asked(message: str, hint: str | None = None) -> CallsheetError:
    """The error for an answer to a question that is not open (RUN030)."""
    return CallsheetError.single(
        "RUN030", message, help=hint or "`callsheet inbox` lists the pending requests"
    )
