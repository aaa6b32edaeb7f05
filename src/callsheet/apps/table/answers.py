"""Operations that stop a run or answer it: cancel, pause, decide, approve, answer, list what waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from callsheet.apps.operations.asks import ask_json
from callsheet.apps.operations.outcomes import (
    CallsInDoubt,
    OutcomeResult,
    PausedResult,
    doubts_json,
    outcome_json,
)
from callsheet.apps.operations.runs import AskRow, Inbox, pause_json, run_doubt_json
from callsheet.apps.rendering.runs import question_lines
from callsheet.apps.rendering.values import without_controls
from callsheet.apps.table.arguments import AnyJson, Line, RunArguments, VerdictArguments
from callsheet.apps.table.extent import Extent, LimitedOutcome
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    Context,
    Face,
    Hint,
    HttpFace,
    NoArguments,
    Operation,
    Reply,
    ToolFace,
    in_mcp,
    operation,
    run_endpoint,
)
from callsheet.apps.table.runs import details_of
from callsheet.machine import Decision, TookPlace, Verdict
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import Resolution, RunOutcome, unfinished
from callsheet.runtime.inbox import calls_in_doubt, inbox
from callsheet.store.pauses import RunPause


class CancelArguments(RunArguments):
    """Why a run is cancelled."""

    reason: Annotated[
        Line, in_mcp(kind=Annotated[str, Field(max_length=1_000)], default="cancelled by the client")
    ] = "cancelled"
    patience: Annotated[float, Field(ge=0, le=30), HTTP_ONLY] = Field(
        10.0, description="Seconds to wait for its end."
    )


class OpenRun(NamedTuple):
    """What has come of a run, masked; `outcome` is None as long as its process has not ended it."""

    run_id: str
    status: str
    outcome: RunOutcome | None

    def to_json(self) -> CallsInDoubt:
        """Its status and its calls in doubt, as data."""
        return doubts_json(self.run_id, self.status, () if self.outcome is None else self.outcome.in_doubt)


async def cancel(context: Context, args: CancelArguments) -> OpenRun:
    """Cancel a run and return its calls in doubt; status 202 if its process has not ended it yet."""
    host, run_id = context.host, (await context.run(args.run_id)).run_id
    who = context.named("")
    reason = f"{args.reason}, by {who}" if who else args.reason
    outcome = await host.cancel(run_id, reason, args.patience)
    return await _open(context, run_id, outcome)


async def _open(context: Context, run_id: str, outcome: RunOutcome | None) -> OpenRun:
    host = context.host
    state = await host.beside(lambda: host.state(run_id))
    return OpenRun(run_id, state.status, None if outcome is None else host.masker.outcome(outcome))


def _cancelled_reply(context: Context, args: CancelArguments, run: OpenRun) -> Reply:
    run_id, result = run.run_id, None if run.outcome is None else run.outcome.result
    text = f"run {run_id} was requested to end and has not ended yet; explain_run shows its status"
    if result is not None:
        why = "" if result.error in (None, str(result.status)) else f": {result.error}"
        text = f"run {run_id} has ended: {result.status}{why}"
    return Reply(without_controls(text), run.to_json(), run_id=run_id)


class PauseArguments(RunArguments):
    """Why a run is paused."""

    reason: Line = ""
    by: Annotated[Line, HTTP_ONLY] = Field("", description="Who pauses it, where people are not signed in.")
    patience: Annotated[float, Field(ge=0, le=30), HTTP_ONLY] = Field(
        10.0, description="Seconds to wait for the calls under way."
    )


class PausedRun(NamedTuple):
    """A run that was paused; `pause` is None as long as its process awaits calls."""

    run_id: str
    status: str
    pause: RunPause | None

    def to_json(self) -> PausedResult:
        """Its status, and who has paused it, as data."""
        return {"run_id": self.run_id, "status": self.status, "pause": pause_json(self.pause)}


async def pause(context: Context, args: PauseArguments) -> PausedRun:
    """Send no further call of a run until it is resumed; status 202 while calls under way are awaited.

    They end, and their outcomes are kept. No server, worker or schedule takes a paused run up by itself.
    """
    host, run_id = context.host, (await context.run(args.run_id)).run_id
    by = context.named(args.by) if context.face is Face.HTTP else context.by
    made = await host.pause(run_id, by, args.reason, args.patience)
    return PausedRun(run_id, (await host.beside(lambda: host.state(run_id))).status, made)


def _paused_reply(context: Context, args: PauseArguments, run: PausedRun) -> Reply:
    words = "to be paused when the calls under way have ended" if run.pause is None else run.pause.words
    return Reply(f"run {run.run_id} is {without_controls(words)}", run.to_json(), run_id=run.run_id)


def running_data(context: Context, run_id: str) -> dict[str, Any]:
    """The data of a run that goes on, of which nothing else is looked at."""
    data = Extent().limited(outcome_json(RunOutcome(run_id, None), context.journal_path))
    return data | {"status": "running", "outcome": "running"}


class DecideArguments(RunArguments):
    """The decision on single calls in doubt."""

    decision: Literal["retry", "skip", "fail", "value"]
    value: JsonValue = None
    calls: Annotated[list[Line], Field(min_length=1)] = Field(description="Keys of calls, or steps.")
    every: bool = Field(False, description="Whether a step selects all of its calls in doubt.")
    resume: bool = Field(True, description="Whether the run is resumed if no call is in doubt any more.")


async def decide(context: Context, args: DecideArguments) -> OpenRun:
    """Decide on calls in doubt: those that were sent and have no outcome."""
    host, run_id = context.host, args.run_id
    verdict = VerdictArguments(decision=args.decision, value=args.value).resolution()
    outcome = await host.decide(run_id, args.calls, verdict, every=args.every)
    if args.resume and outcome.result is None and not outcome.in_doubt:
        await host.resume(run_id)
    return await _open(context, run_id, outcome)


class ApproveArguments(RunArguments):
    """The answer of a person: approval, denial (`deny`), or the answer to a question."""

    key: Line | None = Field(
        None, description="The key or the step; optional if only one question is pending."
    )
    deny: bool = False
    answer: JsonValue = Field(None, description="The answer to a question.")
    by: Line = ""
    note: Line = ""
    digest: Line | None = Field(
        None, description="The digest of the question that was read; another one is not answered."
    )
    for_plan: bool = Field(
        False,
        description="Approve further calls of this step in this run too, if all that decides them is equal.",
    )
    program: Line = Field(
        "", description="Approve also the further calls of the plan that were listed with this hash."
    )


async def approve(context: Context, args: ApproveArguments) -> PendingAsk:
    """Answer a question of a run, and resume the run if it waits for the answer."""
    has_answer, by = "answer" in args.model_fields_set, context.named(args.by)
    if args.deny and has_answer:
        raise context.wrong("deny and answer cannot be combined", "use one of them")

    def said(ask: PendingAsk) -> Answer:
        if args.deny:
            return Answer.deny(by=by, note=args.note)
        if has_answer:
            return Answer.of(args.answer, by=by, note=args.note)
        return Answer.approve(by=by, note=args.note, for_plan=args.for_plan, for_program=args.program)

    if (args.for_plan or args.program) and (args.deny or has_answer):
        raise context.wrong("only an approval can be for the plan", "leave for_plan and program out")
    roles = context.roles
    return await context.host.answer(args.run_id, said, args.key, digest=args.digest, roles=roles)


class AnswerArguments(RunArguments):
    """The answer of a person, which a model passes on."""

    key: str = Field(description="The key of the question or call, from waiting or in_doubt.")
    verdict: Literal["approve", "deny", "answer", "retry", "skip", "fail", "took_place"] = Field(
        description="For an approval: approve or deny. For a question: answer, with value. For a "
        "call in doubt: retry, skip, fail, or took_place with the value that it returned."
    )
    value: AnyJson = Field(None, description="The answer, or the result of the call in doubt.")
    note: Line = Field("", description="A note recorded with the answer.")


async def answer_run(context: Context, args: AnswerArguments) -> RunOutcome:
    """Answer a question of a run, or decide on a call in doubt; what it still waits for."""
    host, run_id = context.host, (await context.run(args.run_id)).run_id
    if args.verdict in ("retry", "skip", "fail", "took_place"):
        took_place = args.verdict == "took_place"
        resolution: Resolution = TookPlace(args.value) if took_place else Decision(args.verdict)
        await host.decide(run_id, [args.key], resolution)
    else:
        answer = Answer(Verdict(args.verdict), args.value, context.by, args.note)
        await host.answer(run_id, answer, args.key)
    details = await host.beside(lambda: details_of(context, run_id))
    asks = tuple(ask for ask in details.asks if not ask.is_answered)
    return host.masker.outcome(unfinished(run_id, details.account.folded, details.in_doubt, asks))


def _answered_reply(context: Context, args: AnswerArguments, outcome: RunOutcome) -> Reply:
    data = Extent().limited(outcome_json(outcome, context.journal_path))
    still_open = "\n".join(pending_lines(outcome, context.hint))
    text = f"recorded; resume_run continues run {outcome.run_id}" + (
        f"\nit still waits for:\n{still_open}" if still_open else ""
    )
    return Reply(without_controls(text), data, run_id=outcome.run_id)


def pending_lines(outcome: RunOutcome, hint: str) -> Iterator[str]:
    """The open questions of a run, with the commands that answer them."""
    for ask in outcome.waiting:
        yield from question_lines(ask, hint)


async def list_asks(context: Context, args: NoArguments) -> Inbox:
    """The unanswered questions and the calls in doubt of all runs, oldest first."""
    host = context.host
    asks = await host.beside(lambda: inbox(host.journal))
    programs = await host.beside(lambda: host.program_questions.of(host.journal, asks))
    doubts = await host.beside(lambda: calls_in_doubt(host.journal, context.doubts))
    return {
        "asks": [ask_json(ask, programs.get(ask.digest)) for ask in asks if not ask.is_answered],
        "in_doubt": [run_doubt_json(run_id, call) for run_id, calls in doubts.items() for call in calls],
    }


def _pause_status(run: PausedRun) -> int:
    return 202 if run.pause is None else 200


def _cancel_status(run: OpenRun) -> int:
    return 202 if run.outcome is None else 200


ANSWER_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        cancel,
        http=run_endpoint(
            "POST",
            "/cancel",
            "End a run for good",
            {
                200: "The run has ended; with its calls in doubt.",
                202: "Its process was asked to end it, but has not done so yet.",
            },
            503,
            needs_body=False,
            status=_cancel_status,
        ),
        mcp=ToolFace(
            name="cancel_run",
            title="Cancel a run",
            description="Cancel a run, whether it is running, waiting or interrupted. It cannot be resumed "
            "afterwards.",
            hint=Hint.DESTRUCTIVE_IDEMPOTENT,
            reply=_cancelled_reply,
        ),
    ),
    Operation(
        work=pause,
        arguments=PauseArguments,
        result=PausedResult,
        to_json=PausedRun.to_json,
        http=run_endpoint(
            "POST",
            "/pause",
            "Pause a run",
            {
                200: "The run is paused.",
                202: "It sends no further call; those under way have not ended yet.",
            },
            503,
            needs_body=False,
            status=_pause_status,
        ),
        mcp=ToolFace(
            name="pause_run",
            title="Pause a run",
            description="Make no further call of a run until it is resumed; those under way end.",
            hint=Hint.DESTRUCTIVE_IDEMPOTENT,
            reply=_paused_reply,
        ),
    ),
    operation(
        decide,
        http=run_endpoint(
            "POST", "/decide", "Decide on calls in doubt", {200: "The calls still in doubt."}, 503
        ),
    ),
    operation(
        approve,
        result=AskRow,
        to_json=ask_json,
        http=run_endpoint(
            "POST",
            "/approve",
            "Answer a question of a run",
            {200: "The question that was answered."},
            503,
            needs_body=False,
        ),
    ),
    operation(
        answer_run,
        result=OutcomeResult,
        mcp=ToolFace(
            name="answer_run",
            title="Answer for a person",
            description="Answer an open question of a run for a person: approve or deny a call, answer a "
            "question, or resolve a call in doubt. Give only answers that a person has told you.",
            hint=Hint.DESTRUCTIVE,
            reply=_answered_reply,
            result=LimitedOutcome,
            is_for_answers=True,
        ),
    ),
    operation(
        list_asks,
        http=HttpFace(
            method="GET",
            path="/v1/inbox",
            summary="List pending questions and calls in doubt",
            tag="runs",
            responses={200: "The questions and calls."},
            problems=(409,),
        ),
    ),
)
"""The operations that stop a run or answer it."""
