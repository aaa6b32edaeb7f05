"""The methods of `Runtime` by which recorded runs go on: playback, branches, undoing, answers, adoption.

In: recorded runs, edits. Out: what happened, event by event; or the result of the new run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.api.arguments import InDoubt, RunInputs, answer_of, id_of_run, values_of
from callsheet.api.events import RunEvent
from callsheet.api.handle import Observers, actions_of, event_of_note
from callsheet.api.loops import blocking
from callsheet.api.plan import Plan as EditedPlan
from callsheet.api.plan import PlanLike, as_plan
from callsheet.api.recorded_runs import RecordedRuns
from callsheet.api.result import RunResult, StepLog
from callsheet.api.run_service import ResumeTerms
from callsheet.api.session import Session, resume_terms
from callsheet.api.texts import file_note
from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wrong
from callsheet.ir import JSON, Plan
from callsheet.lazy import dataclass, deferred
from callsheet.machine import Limits
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.runtime.launch import Watch

if TYPE_CHECKING:
    from callsheet.api import run_branches
    from callsheet.runtime import edits as edits_of_run
    from callsheet.runtime import inbox
    from callsheet.runtime.edits import Edits
    from callsheet.runtime.effects import EffectAhead
    from callsheet.runtime.forking import Forking
    from callsheet.runtime.undo import Undoing
    from callsheet.trace import replay
    from callsheet.trace.replay import Moment
else:
    run_branches = deferred("callsheet.api.run_branches")
    edits_of_run = deferred("callsheet.runtime.edits")
    replay = deferred("callsheet.trace.replay")
    inbox = deferred("callsheet.runtime.inbox")


_HOW_TO_ALLOW = "allow it: effects=True, or a function that takes the steps and returns True"

Consent: TypeAlias = "bool | Callable[[Sequence[EffectAhead]], bool]"
"""Whether calls with effects may be made: a bool, or a function that is shown them and decides."""


@dataclass(frozen=True, slots=True)
class Played:
    """An event of a run that was played back.

    `seq` is the number of the journal event that caused it, `time` its time in seconds since 1970.
    """

    seq: int
    time: float
    event: RunEvent


class Branching(RecordedRuns):
    """The part of `Runtime` that plays runs back and branches new runs off them."""

    # ------------------------------------------------------------ nothing runs

    async def playback(self, run_id: str, start: int = 1, end: int | None = None) -> list[Played]:
        """What happened in a run between the journal events `start` and `end`, inclusive; nothing is run.

        `run_id` is an id, a prefix of one, or `last`. The end of the run is not included; `resume` gives its
        result. Raises CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events
        cannot be read; ValueError for a runtime without a journal.
        """
        self._require_journal()
        wanted("start", start, int, "the number of an event")
        if end is not None:
            wanted("end", end, int, "the number of an event")
        async with self._opened() as session:
            journal = session.recorded
            info = journal.find_run(run_id)
            plan = journal.plan_of(info.plan_hash)
            actions, played = actions_of(plan), list[Played]()

            def plan_of(digest: str) -> Plan:
                new = journal.plan_of(digest)
                actions.update(actions_of(new))
                return new

            def take(moment: Moment) -> bool:
                row = moment.event
                if row.seq >= start and (end is None or row.seq <= end):
                    for note, _ in moment.notes:
                        action = actions.get(note.step, "")
                        event = event_of_note(info.run_id, len(played) + 1, note, action)
                        if event is not None:
                            played.append(Played(row.seq, row.ts, event))
                return end is None or row.seq < end

            replay.play(plan, journal.events(info.run_id), plan_of, take)
            return played

    playback_sync = blocking(playback)

    # ------------------------------------------------------------ new runs

    async def rerun(  # noqa: PLR0913 - on what terms the new run goes on
        self,
        run_id: str,
        step: str = "",
        *,
        plan: PlanLike | None = None,
        failed_items: bool = False,
        effects: Consent = False,
        new_id: str | None = None,
        by: str = "",
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a plan again from a step, as a new run that keeps the earlier results.

        With `plan`, an edited plan with blocks, that one is run, and each finished call that it makes too is
        kept; with `step` as well, that step and those behind it in the text keep nothing. With
        `failed_items`, instead of a step, the failed items of the loops of a run that has ended are run
        again: the calls of the other items are kept, and what follows runs again where it asks for other
        things.

        `step` is an id, or one of its visits such as `S3@2`. `effects` allows calls that may change something
        outside: True, or a function that is shown them and returns True; otherwise they are refused (JRN083).
        `new_id` is the id of the new run, `by` the person who asks; the other arguments are those of
        `resume`. Raises CallsheetError: JRN002 for an unknown run, JRN022 for one of another version, JRN081
        for a step that the run has not reached, JRN087 for a run without failed items, and what `resume`
        raises.
        """
        self._require_journal()
        wanted("step", step, str, "the id of a step")
        wanted("failed_items", failed_items, bool, "True or False")
        if failed_items and step:
            raise ValueError("either name the step to start from, or let the failed items run again")
        if not step and plan is None and not failed_items:
            raise ValueError(
                "name the step to start from, give an edited plan, or let the failed items run again: "
                "failed_items=True"
            )
        edited = None if plan is None else as_plan(plan, ())
        _check_names(new_id, effects, by)
        terms = resume_terms(in_doubt, accept_changed_tools, limits, as_recorded=as_recorded)
        async with self._opened() as session:
            if edited is None and not failed_items:
                what = run_branches.Rerun(step, by, terms.limits)
            else:
                text, origin = ("", {}) if edited is None else _recorded_text(edited)
                what = run_branches.Revised(
                    None if edited is None else edited.ir,
                    text, origin, step, by, failed_items=failed_items, limits=terms.limits,
                )  # fmt: skip
            made = await session.branch_off(run_id, what, terms)
            return await _run_branch(session, made, effects, new_id, terms)

    rerun_sync = blocking(rerun)

    async def fork(  # noqa: PLR0913 - what may be edited, and on what terms the new run goes on
        self,
        run_id: str,
        at: int,
        *,
        variables: Mapping[str, Any] | None = None,
        arguments: Mapping[tuple[str, str], JSON] | None = None,
        steps: Mapping[str, str] | None = None,
        effects: Consent = False,
        new_id: str | None = None,
        by: str = "",
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
    ) -> RunResult:
        """Continue from the event `at` of a run in a new run, with edits.

        `variables` maps names to new values, `arguments` maps (step, name) to new argument values, `steps`
        maps steps to the plan lines that replace them (JSON objects in a dependency plan). The other
        arguments are those of `rerun`. Raises CallsheetError: JRN041 for an event that the run does not have,
        JRN082 for an edit that comes too late, JRN084 for an edit of something that does not exist; PlanError
        and PolicyRefused for an edited plan.
        """
        self._require_journal()
        wanted("at", at, int, "the number of an event")
        edits = _edits_of(variables, arguments, steps, by)
        _check_names(new_id, effects, by)
        terms = resume_terms(in_doubt, accept_changed_tools, limits, as_recorded=as_recorded)
        async with self._opened() as session:
            made = await session.branch_off(run_id, run_branches.Fork(at, edits), terms)
            return await _run_branch(session, made, effects, new_id, terms)

    fork_sync = blocking(fork)

    async def undo(
        self,
        run_id: str,
        *,
        start: str = "",
        effects: bool | Callable[[Undoing], bool] = False,
        in_doubt: InDoubt | None = None,
    ) -> RunResult:
        """Take back what the calls of a run did, newest first, as a run of its own.

        The inverse of a tool is declared with it (`@tool(undo=…)`). With `start`, the id of a step, only what
        was called from that step on is taken back. `effects` allows the calls: True, or a function that is
        shown what can and what cannot be undone and returns True; else they are refused (JRN083). The new run
        is under the policy of the old one. What earlier undoings have taken back is not taken back
        again, and one that has not ended goes on; `in_doubt` decides about its calls, as in `resume`.

        Raises CallsheetError: JRN002 for an unknown run, JRN081 for a step that made no call, JRN086 for a
        run that has not ended, that undoes another, or of which nothing is left to undo; PolicyRefused;
        ValueError for a runtime without a journal.
        """
        self._require_journal()
        wanted("start", start, str, "the id of a step")
        if not (isinstance(effects, bool) or callable(effects)):
            raise wrong("effects", effects, "True, False or a function")
        terms = resume_terms(in_doubt, False, None)
        async with self._opened() as session:
            name = await session.begin_undo(run_id, start, effects)
            session.learn(name)
            log = StepLog(None)
            outcome = await session.resume(name, terms, Observers(log=log), Watch())
            return RunResult.of(outcome, log.results(), session.hides)

    undo_sync = blocking(undo)


def _edits_of(
    variables: Mapping[str, Any] | None,
    arguments: Mapping[tuple[str, str], JSON] | None,
    steps: Mapping[str, str] | None,
    by: str,
) -> Edits:
    """The validated edits of a run; raises TypeError for arguments of other types."""
    wanted("arguments", arguments or {}, Mapping, "a dict of values by step and name")
    for place in arguments or {}:
        if not (isinstance(cast("object", place), tuple) and [*map(type, place)] == [str, str]):
            raise TypeError(f"arguments must have (step, name) for keys, and not {place!r}")
    wanted("steps", steps or {}, Mapping, "a dict of lines by step")
    for line in wanted_names("steps", steps or {}).values():
        wanted("steps", line, str, "a dict of lines by step")
    values = values_of(variables, "variables", placed=True)
    return edits_of_run.Edits(values, dict(arguments or {}), dict(steps or {}), by)


def _check_names(new_id: object, effects: object, by: object) -> None:
    if new_id is not None:
        wanted("new_id", new_id, str, "the id of a new run")
    wanted("by", by, str, "a text")
    if not (isinstance(effects, bool) or callable(effects)):
        raise wrong("effects", effects, "True, False or a function")


async def _run_branch(
    session: Session, forking: Forking, effects: Consent, new_id: str | None, terms: ResumeTerms
) -> RunResult:
    """Create the new run, if the effects ahead of it are allowed, and run it."""
    ahead, journal = forking.effects, session.recorded
    agreed = not ahead or bool(effects(ahead) if callable(effects) else effects)
    name = id_of_run(new_id)
    ended = await run_branches.record_branch(journal, forking, name, consent=agreed, hint=_HOW_TO_ALLOW)
    session.learn(name)
    if ended is not None:
        return RunResult.of(ended, hides=session.hides)
    log = StepLog(None)
    outcome = await session.resume(name, terms, Observers(log=log), Watch())
    return RunResult.of(outcome, log.results(), session.hides)


class Answering(Branching):
    """The part of `Runtime` that lists and answers the questions of runs."""

    async def inbox(self) -> list[PendingAsk]:
        """The unanswered questions of all runs in the journal, oldest first.

        Raises ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            return [ask for ask in inbox.inbox(session.recorded) if not ask.is_answered]

    inbox_sync = blocking(inbox)

    async def calls_in_doubt(self) -> dict[str, tuple[DoubtfulCall, ...]]:
        """The calls in doubt of all runs that no process executes, by the ids of the runs, oldest first.

        `decide` decides about one. Raises ValueError for a runtime without a journal.
        """
        self._require_journal()
        async with self._opened() as session:
            return dict(inbox.calls_in_doubt(session.recorded))

    calls_in_doubt_sync = blocking(calls_in_doubt)

    async def answer(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
        msg_id: str | None = None,
    ) -> PendingAsk:
        """Answer a question of a run and return that question; `resume` continues the run.

        `run_id` is an id, a prefix of one, or `last`. `key` is the question's key or its step; it may be
        left out if the run asks only one question. `answer` is True or False for a yes or a no, or an
        `Answer`. With `digest`, that of the `PendingAsk` that was shown, the answer counts only if the
        question is still the same. `msg_id` is the sender's id for the answer: a second answer with that
        id is refused. Raises CallsheetError: RUN030 if no such question is pending, RUN031 for an answer
        that does not fit; ValueError for a runtime without a journal.
        """
        self._require_journal()
        given_answer = answer_of(answer)
        async with self._opened() as session:
            name = session.find(run_id)
            return inbox.answer_run(session.recorded, name, given_answer, key, digest=digest, msg_id=msg_id)

    answer_sync = blocking(answer)

    async def answer_ahead(self, run_id: str, key: str, answer: Answer, *, msg_id: str | None = None) -> None:
        """Answer a question before the run asks it under this key; calls cannot be approved this way.

        The answer is used when the question is asked, if it fits. Raises CallsheetError (RUN030) for a run
        that has ended.
        """
        self._require_journal()
        given_answer = answer_of(answer)
        async with self._opened() as session:
            inbox.answer_ahead(session.recorded, session.find(run_id), key, given_answer, msg_id)


class Adopting(Answering):
    """The part of `Runtime` that takes over runs from other programs."""

    async def adopt(
        self,
        plan: PlanLike,
        done: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
    ) -> str:
        """Record a run some of whose steps were done elsewhere, and return its id; `resume` continues it.

        `plan` is a dependency plan; `done` maps the id of each finished step to its result. Those steps are
        not run again and do not count against the limits. Nothing is run here. Raises PlanError as `run`
        does; CallsheetError (PLN028) for a step that does not exist, that depends on an unfinished step, or
        that is a loop or not a call of a tool or model; ValueError for a runtime without a journal.
        """
        self._require_journal()
        values = values_of(inputs)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        wanted("done", done, Mapping, "a dict of results by step")
        outcomes = {str(step): _outcome(step, value) for step, value in done.items()}
        async with self._opened() as session:
            await session.adopt(read, RunInputs(values), outcomes, name, limits)
        return name


def _recorded_text(plan: EditedPlan) -> tuple[str, dict[str, JSON]]:
    """The text with which a plan is recorded, and the note of the file that it is from."""
    text = "" if plan.source is None else plan.source.text
    return text, {} if plan.path is None else {"file": file_note(plan.path, text, None)}


def _outcome(step: str, value: Any) -> Any:
    try:
        return to_json(value)
    except ToolFailed as error:
        raise CallsheetError.single(
            "PLN028", f"the result of step {step} cannot be used: {error}", help="give JSON data"
        ) from error
