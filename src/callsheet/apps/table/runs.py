"""Operations on runs: start, resume, branch, end, answer, list, show, explain, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic_core import PydanticCustomError

from callsheet.api.explaining import Explanation, RunMoment, explain_value, run_at
from callsheet.api.policies import load_policy
from callsheet.api.run_branches import begins_at
from callsheet.apps.hosting import ForkRequest, Host, RerunRequest, ResumeOptions, RunRequest, Started
from callsheet.apps.hosting.recorded import delete_run
from callsheet.apps.hosting.requests import tightened
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.lineage import DifferenceResult, LineageResult, diff_json, slice_json
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import (
    AskRow,
    CallsInDoubt,
    Inbox,
    MomentResult,
    OutcomeResult,
    RunDetails,
    RunDetailsResult,
    RunRow,
    Status,
    StatusWord,
    ask_json,
    doubts_json,
    outcome_json,
    run_at_event_json,
    run_details,
    run_details_json,
    run_doubt_json,
    run_names,
    run_row,
    shown_outcome,
    stored_statuses,
)
from callsheet.apps.operations.schema import DiagnosticRow, ProblemRow, diagnostic_rows
from callsheet.apps.rendering.runs import question_lines
from callsheet.apps.rendering.values import utc, without_controls
from callsheet.apps.table.extent import Extent, LeftOut, cut_text, extent_lines
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Face,
    Hint,
    HttpFace,
    NoArguments,
    Operation,
    Reply,
    ToolFace,
    in_http,
    in_mcp,
    with_diagnostics,
)
from callsheet.apps.table.plans import CreateArguments, create_plan
from callsheet.apps.table.texts import (
    MOST_CHARACTERS,
    Amount,
    AnyJson,
    GoalArguments,
    Line,
    Lines,
    Name,
    NamedPlanArguments,
    PolicyName,
    Values,
)
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.ir import Plan
from callsheet.machine import Decision, Limits, TookPlace, Verdict
from callsheet.machine.approvals import ApprovalTimeout, approval_timeouts
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.doubt import Resolution, RunOutcome, unfinished
from callsheet.runtime.forking import Edits
from callsheet.runtime.inbox import calls_in_doubt, inbox, programs_of
from callsheet.store import Journal
from callsheet.store.runs import RunOutline

_TAG = "runs"
_STATUS_WORDS = tuple(word for status in get_args(Status) for word in (status, status.replace("_", " ")))
RUN_ID = r"^[a-z0-9][a-z0-9._-]{0,63}$"
RUN_ID_SPELLING = "an id is 1 to 64 of a-z, 0-9, dot, dash and underscore, with a letter or a digit first"
RunId = Annotated[str, Field(pattern=RUN_ID)]
Whole = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[int, Field(ge=1, le=2**53)]


# ---------------------------------------------------------------- arguments of several operations


class _Part(BaseModel):
    """A part of arguments."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LimitArguments(_Part):
    """Limits of a run; they can only tighten those of the server."""

    max_steps: Number | None = None
    max_calls: Whole | None = None
    max_calls_by_tool: dict[str, Whole] | None = None
    max_model_calls: Whole | None = None
    max_tokens: Whole | None = None
    max_cost: Amount | None = None
    max_bytes: Whole | None = None
    max_seconds: Amount | None = None
    max_items: Whole | None = None
    max_repeats: Whole | None = None
    max_replans: Whole | None = None
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    max_concurrency_by_tool: dict[str, Annotated[int, Field(ge=1, le=10_000)]] | None = None
    schedule: Literal["sequential", "auto"] | None = None

    def changes(self) -> Mapping[str, Any]:
        """The limits that are set."""
        return self.model_dump(exclude_none=True)


class VerdictArguments(_Part):
    """The decision on a call in doubt: retry, skip, fail, or that it took place and returned a value."""

    decision: Literal["retry", "skip", "fail", "value"]
    value: JsonValue = None

    def resolution(self) -> Resolution:
        """The decision."""
        return TookPlace(self.value) if self.decision == "value" else Decision(self.decision)


class RunArguments(Arguments):
    """A run."""

    run_id: str = Field(description="The id of a run, the beginning of one, or last.")


class ShownArguments(Arguments):
    """What a model gets of a run."""

    show_variables: Annotated[Lines, MCP_ONLY] = Field(
        [],
        description='The variables to return, by name, or "all"; default: only the answer, and which there '
        "are.",
    )


class WaitArguments(ShownArguments):
    """Whether a model waits for a run, and what it gets of it."""

    wait: Annotated[bool, MCP_ONLY] = Field(
        True, description="Wait for the run to end; false: return its id at once (see explain_run)."
    )


class TermArguments(RunArguments):
    """The terms on which a run is continued."""

    accept_changed_tools: Annotated[bool, HTTP_ONLY] = False
    as_recorded: Annotated[
        bool,
        in_mcp(
            description="Whether the recorded plan is continued although it has been edited since, in its "
            "file or the plan library; otherwise such a run is refused. Set it only if the user has agreed."
        ),
    ] = Field(
        False,
        description="Whether the recorded plan is continued although it has been edited since, in its file "
        "or the plan library.",
    )
    limits: Annotated[LimitArguments, HTTP_ONLY] = LimitArguments()

    def terms(self, context: Context, verdict: Resolution | None = None) -> ResumeOptions:
        """The options of a resumption."""
        changes = self.limits.changes()

        def change(own: Limits) -> Limits:
            return tightened(own, changes)

        return ResumeOptions(
            in_doubt=verdict,
            accepts_changed_tools=self.accept_changed_tools,
            as_recorded=self.as_recorded,
            limits=change if changes else None,
            listeners=context.listeners,
        )


# ---------------------------------------------------------------- start


class StartedResult(TypedDict):
    """A run that is recorded in the journal and queued."""

    run_id: str
    status: StatusWord
    diagnostics: list[DiagnosticRow]


class Recorded(NamedTuple):
    """A run that was recorded, with diagnostics, which point into the source."""

    run_id: str
    status: str
    diagnostics: tuple[Diagnostic, ...] = ()
    source: Source | None = None

    def to_json(self) -> StartedResult:
        """The run as data."""
        rows = diagnostic_rows(self.diagnostics, self.source)
        return {"run_id": self.run_id, "status": self.status, "diagnostics": rows}


def _recorded(context: Context, started: Started, source: Source | None = None) -> Recorded:
    status = context.host.state(started.run_id).status
    return Recorded(started.run_id, status, started.diagnostics, source)


def _is_time(given: object) -> object:
    """Validate a time, with one message instead of one for each of its forms."""
    try:
        approval_timeouts(cast("ApprovalTimeout | None", given))
    except (TypeError, ValueError, AttributeError):
        wanted = (
            "seconds or a text such as 45m, 12h or 3d, at most a year; or an object of such times by tool"
        )
        raise PydanticCustomError("time", wanted) from None
    return given


class StartArguments(NamedPlanArguments, WaitArguments):
    """A plan to run: its text, or the id of a plan of the library."""

    inputs: Values = Field({}, description="Variables of the plan by name; they override its own values.")
    secrets: Annotated[dict[Name, str], HTTP_ONLY] = Field(
        {}, description="Variables whose values are encrypted in the journal."
    )
    secret_names: Annotated[list[str], MCP_ONLY, in_mcp("secrets")] = Field(
        [], description="The names of secret variables: their values are encrypted in the journal."
    )
    new_id: Annotated[RunId | None, HTTP_ONLY, in_http("run_id")] = Field(
        None, description="The run's id; by default a new one."
    )
    limits: Annotated[LimitArguments, HTTP_ONLY] = LimitArguments()
    approve: Annotated[list[Line], HTTP_ONLY] = Field(
        [], description="Tools whose calls need approval by a person."
    )
    approval_timeout: Annotated[
        Amount | Line | dict[str, Amount | Line] | None, BeforeValidator(_is_time), HTTP_ONLY
    ] = Field(
        None,
        description="The time for an approval: seconds or a text such as 45m or 3d, for all calls"
        " or by tool; the name '' stands for all others.",
    )
    on_in_doubt: Annotated[Literal["ask", "fail", "retry"] | None, HTTP_ONLY] = None
    policy: Annotated[PolicyName, HTTP_ONLY] = None
    approved: Annotated[list[Line], HTTP_ONLY] = Field([])
    accept_changed_tools: Annotated[bool, HTTP_ONLY] = False
    state: Annotated[str | None, in_mcp(kind=Annotated[str, Field(max_length=MOST_CHARACTERS)], unset="")] = (
        Field(
            None,
            description="The text of a state file (ID_state.json) of another program: its completed steps "
            "are not executed again.",
        )
    )


async def start(context: Context, args: StartArguments) -> Recorded:
    """Check a plan and queue its run; errors of the plan are reported before anything runs."""
    twice = sorted(args.inputs.keys() & args.secrets.keys())
    if twice:
        raise CallsheetError.single(
            "SEC005", f"{twice[0]} is given twice", help="give it once: in inputs or in secrets"
        )
    if args.state is not None and context.policy is not None and context.face is Face.MCP:
        # its results would count as those of the tools, and may be invented by a model that was deceived
        raise CallsheetError.single(
            "PLN028",
            "the run cannot be taken over: this server has a policy, and results that a client names are not"
            " those of its tools",
            help="a person can run it: callsheet run PLAN --state FILE --policy POLICY",
        )
    given = {**args.inputs, **args.secrets}
    text = await args.text(context, given)
    context.runs(text.require())
    request = RunRequest(
        text=text,
        inputs=given,
        secrets=frozenset((*args.secrets, *args.secret_names)),
        run_id=args.new_id,
        limits=args.limits.changes(),
        approve=tuple(args.approve),
        approval_timeout=approval_timeouts(args.approval_timeout),
        on_in_doubt=args.on_in_doubt,
        policy=None if args.policy is None else load_policy(args.policy),
        approved=tuple(args.approved),
        accepts_changed_tools=args.accept_changed_tools,
        state=args.state,
        reads=context.reads,
        listeners=context.listeners,
    )
    return _recorded(context, await context.host.start(request), text.source)


class CreateAndStartArguments(GoalArguments, WaitArguments):
    """A goal to make a plan for, which is run."""

    inputs: Values = Field({}, description="Variables of the plan by name; they override its own values.")


async def create_and_start(context: Context, args: CreateAndStartArguments) -> Recorded:
    """Create a plan for a goal, save it and queue its run."""
    goal = CreateArguments(goal=args.goal, context=args.context, plan_id="")
    stored = await create_plan(context, goal)
    text = await asyncio.to_thread(text_of_stored, stored, args.inputs)
    context.runs(text.require())
    request = RunRequest(text=text, inputs=args.inputs, reads=context.reads, listeners=context.listeners)
    return _recorded(context, await context.host.start(request), text.source)


# ---------------------------------------------------------------- resume and branch


class ResumeArguments(TermArguments, WaitArguments):
    """How a run is resumed."""

    in_doubt: Annotated[VerdictArguments | None, HTTP_ONLY] = Field(
        None, description="The decision on all calls in doubt."
    )


async def resume(context: Context, args: ResumeArguments) -> Recorded:
    """Resume a run where its journal ends."""
    run_id = (await context.run(args.run_id)).run_id
    verdict = None if args.in_doubt is None else args.in_doubt.resolution()
    _tell_plan(context, run_id)
    if context.face is Face.HTTP or context.host.hosted(run_id) is None:
        await context.host.resume(run_id, args.terms(context, verdict))
    return _recorded(context, Started(run_id))


def _tell_plan(context: Context, run_id: str) -> None:
    """Tell who waits for a run its plan."""
    if context.face is Face.MCP:
        context.runs(plan_in(context.host.journal, run_id))


def plan_in(journal: Journal, run_id: str) -> Plan:
    """The plan of a run of the journal."""
    return journal.plan(journal.find_run(run_id).plan_hash)[0]


class BranchArguments(TermArguments, WaitArguments):
    """How a new run branches off from another one."""

    effects: Annotated[
        bool,
        in_mcp(
            description="Whether calls that change something outside are allowed; otherwise such a run is "
            "refused with a list of them. Set it only if the user has agreed."
        ),
    ] = Field(False, description="Whether calls that change something outside are allowed.")
    consent: Annotated[Line, HTTP_ONLY] = Field(
        "", description="The code of the refusal whose effects are allowed: exactly those calls."
    )
    new_id: Annotated[RunId | None, HTTP_ONLY, in_http("run_id")] = None
    by: Annotated[Line, HTTP_ONLY] = ""


class RerunArguments(BranchArguments):
    """A rerun from a step of another run."""

    step: Annotated[str, Field(min_length=1, max_length=1_000)] = Field(
        description="The step to rerun from: S3, or S3@2 for its second visit."
    )


async def rerun(context: Context, args: RerunArguments) -> Recorded:
    """Rerun a plan from a step as a new run, which keeps the earlier results.

    If later steps may change something outside, `effects` must be true; otherwise the response is 409, lists
    the calls as `effects`, and has a `consent`, the code that allows exactly these calls.
    """
    parent = (await context.run(args.run_id)).run_id
    _tell_plan(context, parent)
    request = RerunRequest(
        place=args.step,
        effects=args.effects or args.consent,
        run_id=args.new_id,
        by=args.by or context.by,
        terms=args.terms(context),
    )
    return _recorded(context, await context.host.rerun(parent, request))


class ChangedArgument(_Part):
    """A changed argument of a step that has not begun."""

    step: Line
    name: Line
    value: AnyJson


class ForkArguments(BranchArguments):
    """A fork of a run after one of its events."""

    before: Annotated[str, Field(max_length=1_000), MCP_ONLY] = Field(
        "", description="The step before which the new run diverges: S3, or S3@2. This or at."
    )
    at: Annotated[
        Number | None,
        in_http(kind=Number, default=..., description="The last event that the new run shares."),
    ] = Field(None, description="The last event that the new run shares. This or before.")
    variables: Annotated[dict[Name, JsonValue], in_mcp(kind=dict[str, Any])] = Field(
        {}, description="Changed variables, by name."
    )
    arguments: Annotated[list[ChangedArgument], Field(max_length=1_000)] = Field(
        [], description="Changed arguments of steps that have not begun."
    )
    steps: dict[str, str] = Field({}, description="Replaced plan lines, by step id.")


async def fork(context: Context, args: ForkArguments) -> Recorded:
    """Continue from an event in a new run, with edits; `effects` as for rerun."""
    host, at = context.host, args.at
    if (at is None) == (not args.before):
        raise context.wrong("a fork needs either before, a step, or at, an event")
    parent = (await context.run(args.run_id)).run_id
    _tell_plan(context, parent)
    arguments = {(each.step, each.name): each.value for each in args.arguments}
    if len(arguments) < len(args.arguments):
        raise context.wrong("arguments: an argument of a step occurs twice")
    if at is None:
        at = await host.beside(lambda: begins_at(host.journal, parent, args.before))
    request = ForkRequest(
        at=at,
        edits=Edits(dict(args.variables), arguments, dict(args.steps), args.by or context.by),
        effects=args.effects or args.consent,
        run_id=args.new_id,
        terms=args.terms(context),
    )
    return _recorded(context, await host.fork(parent, request))


# ---------------------------------------------------------------- end and answer


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
    outcome = await host.cancel(run_id, args.reason, args.patience)
    return await _open(context, run_id, outcome)


async def _open(context: Context, run_id: str, outcome: RunOutcome | None) -> OpenRun:
    host = context.host
    state = await host.beside(lambda: host.state(run_id))
    return OpenRun(run_id, state.status, None if outcome is None else host.masker.outcome(outcome))


def _cancelled_reply(context: Context, args: CancelArguments, run: OpenRun) -> Reply:
    run_id = run.run_id
    if run.outcome is None:
        text = f"run {run_id} was requested to end and has not ended yet; explain_run shows its status"
        return Reply(text, running_data(context, run_id), run_id=run_id)
    data = Extent().limited(outcome_json(run.outcome, context.journal_path))
    return Reply(f"run {run_id} has ended: {data['status']}", data, run_id=run_id)


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
    has_answer = "answer" in args.model_fields_set
    if args.deny and has_answer:
        raise context.wrong("deny and answer cannot be combined", "use one of them")

    def said(ask: PendingAsk) -> Answer:
        if args.deny:
            return Answer.deny(by=args.by, note=args.note)
        if has_answer:
            return Answer.of(args.answer, by=args.by, note=args.note)
        return Answer.approve(by=args.by, note=args.note, for_plan=args.for_plan, for_program=args.program)

    if (args.for_plan or args.program) and (args.deny or has_answer):
        raise context.wrong("only an approval can be for the plan", "leave for_plan and program out")
    return await context.host.answer(args.run_id, said, args.key, digest=args.digest)


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
    programs = await host.beside(lambda: programs_of(host.journal, asks))
    doubts = await host.beside(lambda: calls_in_doubt(host.journal, context.doubts))
    return {
        "asks": [ask_json(ask, programs.get(ask.digest)) for ask in asks if not ask.is_answered],
        "in_doubt": [run_doubt_json(run_id, call) for run_id, calls in doubts.items() for call in calls],
    }


# ---------------------------------------------------------------- list


class ListArguments(Arguments):
    """Which runs are listed."""

    status: Annotated[Status | None, in_mcp(unset="", description="Only runs with this status.")] = Field(
        None,
        description="Those that are done include those done_with_failures, which can be asked for alone.",
    )
    plan: Annotated[Annotated[str, Field(max_length=200)] | None, HTTP_ONLY] = Field(
        None, description="A part of the plan's name."
    )
    text: Annotated[Annotated[str, Field(max_length=200)] | None, HTTP_ONLY] = Field(
        None,
        description="A part of the run's id, of the plan's name or of the status; case-insensitive.",
    )
    limit: Annotated[
        int, Field(ge=1, le=500), in_mcp(kind=Annotated[int, Field(ge=1, le=500)], default=20)
    ] = 50
    before: Annotated[RunId | None, HTTP_ONLY] = Field(None, description="Only runs older than this one.")


class RunList(TypedDict):
    """Runs, newest first."""

    runs: list[RunRow]
    more: Annotated[bool, "whether there are older ones"]


async def list_runs(context: Context, args: ListArguments) -> RunList:
    """The runs, newest first; `more` tells whether there are older ones."""
    rows = await context.host.beside(lambda: _rows(context, args))
    return {"runs": rows[: args.limit], "more": len(rows) > args.limit}


def _rows(context: Context, args: ListArguments) -> list[RunRow]:
    """The requested runs, plus one if there are more."""
    host, has_doubts = context.host, context.face is Face.MCP
    before = None if args.before is None else host.info(args.before)
    statuses = None if args.status is None else stored_statuses(args.status)
    found = (run.run_id for run in host.journal.outlines(statuses, before) if _matches(host, run, args))
    infos = host.journal.infos(list(islice(found, args.limit + 1)))
    return [run_row(host.journal, info, host.status(info), has_doubts=has_doubts) for info in infos]


def _matches(host: Host, run: RunOutline, args: ListArguments) -> bool:
    """Whether a run is wanted. Its status may cost a look at a lock, so it comes last."""
    if args.status is not None:
        status = host.status(run)
        if args.status not in (status, shown_outcome(run, status)):
            return False
    wanted = (args.text or "").strip().lower()
    if args.plan is None and not wanted:
        return True
    names = run_names(host.journal, run)
    if args.plan is not None and args.plan.lower() not in names.name.lower():
        return False
    if any(wanted in part.lower() for part in (run.run_id, names.name, names.goal or "")):
        return True
    if not any(wanted in word for word in _STATUS_WORDS):
        return False
    outcome = shown_outcome(run, host.status(run))
    return wanted in outcome or wanted in outcome.replace("_", " ")


def _list_reply(context: Context, args: ListArguments, listed: RunList) -> Reply:
    lines = [
        f"{row['run_id']}  {row['outcome'].replace('_', ' ')}  {utc(row['created'])}  {row['plan']}"
        for row in listed["runs"]
    ]
    return Reply("\n".join(map(without_controls, lines)) or "there are no such runs", listed)


# ---------------------------------------------------------------- show and explain


class ShowArguments(RunArguments, ShownArguments):
    """A run, and what a model gets of it."""

    from_character: Annotated[int, Field(ge=0), MCP_ONLY] = Field(
        0, description="Where to continue a variable that was cut, or without one the answer."
    )


class ShownRunResult(RunDetailsResult):
    """A run: its steps with their results, pending questions, usage."""

    problem: Annotated[ProblemRow | None, "why the last attempt to run it on this server failed"]


class LimitedDetails(RunDetailsResult):
    """A run, of which long or unwanted parts are left out."""

    left_out: LeftOut


class LimitedOutcome(OutcomeResult):
    """What has come of a run, of which long or unwanted parts are left out."""

    left_out: LeftOut


class ShownRun(NamedTuple):
    """A run, with its details as data and as they are shown here."""

    details: RunDetails
    data: ShownRunResult


def details_of(context: Context, run: str) -> RunDetails:
    """The details of a run; a model may name it by the beginning of its id, or `last`."""
    host = context.host
    info = host.journal.find_run(run) if context.face is Face.MCP else host.info(run)
    return run_details(host.journal, info, host.journal.verify(info.run_id))


async def show_run(context: Context, args: ShowArguments) -> ShownRun:
    """A run: its steps with their results, pending questions, usage."""
    host = context.host

    def look() -> ShownRun:
        details = details_of(context, args.run_id)
        problem, status = host.problem(details.info.run_id), host.status(details.info)
        outcome = details.outcome if status == details.status else status
        told = cast("ProblemRow | None", None if problem is None else context.problem(problem))
        data: ShownRunResult = {**run_details_json(details), "problem": told}
        data["status"], data["outcome"] = status, outcome
        return ShownRun(details, data)

    return await host.beside(look)


def _shown_reply(context: Context, args: ShowArguments, run: ShownRun) -> Reply:
    run_id, extent = run.details.info.run_id, Extent.of(args.show_variables, args.from_character)
    data = {name: value for name, value in run.data.items() if name != "problem"}
    shown = extent.limited(data)
    if args.from_character:
        lines = [] if args.show_variables else [shown["response"] or ""]
    else:
        whole = f"the resource callsheet://runs/{run_id}/summary has all"
        lines = [cut_text("\n".join(run_detail_lines(run.details, context.hint)), whole)]
    lines += extent_lines(extent, data, shown, run_id)
    text = "\n".join(map(without_controls, "\n".join(lines).split("\n")))
    return Reply(text, shown, run_id=run_id)


class WhyArguments(RunArguments):
    """A place in a value, and the direction of its lineage."""

    variable: Annotated[str, Field(min_length=1, max_length=1_000)]
    forward: bool = False
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1_000, description="The maximum number of places, nearest first."
    )


async def why(context: Context, args: WhyArguments) -> Explanation:
    """The lineage of a value of a run, backward or forward, nearest places first."""
    journal, run_id = context.host.journal, (await context.run(args.run_id)).run_id
    return await context.host.beside(
        lambda: explain_value(journal, run_id, args.variable, forward=args.forward, most=args.limit)
    )


class MomentArguments(RunArguments):
    """An event of a run."""

    seq: int


async def at(context: Context, args: MomentArguments) -> RunMoment:
    """The state of a run after one of its events."""
    run_id = (await context.run(args.run_id)).run_id
    return await context.host.beside(lambda: run_at(context.host.journal, run_id, args.seq))


class DiffArguments(RunArguments):
    """The run to compare with."""

    other: RunId


async def diff(context: Context, args: DiffArguments) -> DifferenceResult:
    """Where two runs first diverge, and what follows from it."""
    a, b = await context.run(args.run_id), await context.run(args.other)
    return await context.host.beside(lambda: diff_json(context.host.journal, a, b))


# ---------------------------------------------------------------- delete


async def delete(context: Context, args: RunArguments) -> None:
    """Delete a run that has ended, with all of its events."""
    info = await context.run(args.run_id)
    await context.host.beside(lambda: delete_run(context.host.journal, info))


class DeleteArguments(Arguments):
    """Runs to delete."""

    run_ids: Annotated[list[str], Field(min_length=1, max_length=500)] = Field(
        description="Complete ids of runs that have ended."
    )


class Deleted(NamedTuple):
    """The runs that were deleted, and why others were not."""

    run_ids: list[str]
    errors: list[Diagnostic]


class DeletedResult(TypedDict):
    """The runs that were deleted."""

    deleted: list[str]
    diagnostics: list[DiagnosticRow]


async def delete_runs(context: Context, args: DeleteArguments) -> Deleted:
    """Delete runs that have ended."""
    host, done = context.host, Deleted([], [])

    def remove(run_id: str) -> None:
        delete_run(host.journal, host.info(run_id))

    for run_id in dict.fromkeys(args.run_ids):
        try:
            await host.beside(partial(remove, run_id))
            done.run_ids.append(run_id)
        except CallsheetError as error:
            done.errors.extend(error.diagnostics)
    return done


def _deleted_json(done: Deleted) -> DeletedResult:
    return {"deleted": done.run_ids, "diagnostics": diagnostic_rows(done.errors)}


def _deleted_reply(context: Context, args: DeleteArguments, done: Deleted) -> Reply:
    text = f"deleted: {', '.join(done.run_ids)}" if done.run_ids else "no run was deleted"
    return Reply(with_diagnostics(text, done.errors, None), _deleted_json(done), bool(done.errors))


# ---------------------------------------------------------------- the table


def _on_run(
    method: str, path: str, summary: str, responses: Mapping[int, str], *problems: int, **more: Any
) -> HttpFace[Any]:
    return HttpFace(
        method=method,
        path=f"/v1/runs/{{run_id}}{path}",
        summary=summary,
        tag=more.pop("tag", _TAG),
        responses=responses,
        problems=(404, 409, *problems),
        **more,
    )


def _cancel_status(run: OpenRun) -> int:
    return 202 if run.outcome is None else 200


def _location(run: Recorded) -> str:
    return f"/v1/runs/{run.run_id}"


def _starts(name: str, title: str, description: str) -> ToolFace[Any, Recorded]:
    """The face of an operation that starts a run: the tool waits for it."""
    return ToolFace(
        name=name,
        title=title,
        description=description,
        hint=Hint.DESTRUCTIVE,
        reply=None,
        result=LimitedOutcome,
    )


_QUEUED = {202: "The run is recorded in the journal and queued."}
_NEW = {202: "The new run is in the journal."}

RUN_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        work=list_runs,
        arguments=ListArguments,
        result=RunList,
        http=HttpFace(
            method="GET",
            path="/v1/runs",
            summary="List runs",
            tag=_TAG,
            responses={200: "The runs."},
            problems=(404,),
        ),
        mcp=ToolFace(
            name="list_runs",
            title="List the runs",
            description="List the runs of the journal, the newest first, with their status.",
            hint=Hint.READ_ONLY,
            reply=_list_reply,
        ),
    ),
    Operation(
        work=start,
        arguments=StartArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
        http=HttpFace(
            method="POST",
            path="/v1/runs",
            summary="Start a run",
            tag=_TAG,
            responses=_QUEUED,
            location=_location,
            problems=(403, 404, 409, 503),
        ),
        mcp=_starts(
            "plan_execute",
            "Run a plan",
            "Run a plan of the library by its id, or a plan as text. It is checked and proved against the "
            "policy first. Returns the answer, the usage, and the variables that are asked for; for a run "
            "that waits for a person, the questions.",
        ),
    ),
    Operation(
        work=create_and_start,
        arguments=CreateAndStartArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
        mcp=_starts(
            "plan_create_and_execute",
            "Compile a goal and run its plan",
            "Create a plan for a goal that takes several coordinated tool calls, and run it. For a single "
            "call use the tool itself. Returns the answer, the usage, and the variables that are asked for.",
        ),
    ),
    Operation(
        work=show_run,
        arguments=ShowArguments,
        result=ShownRunResult,
        to_json=lambda run: run.data,
        http=_on_run("GET", "", "Show a run", {200: "The run."}),
        mcp=ToolFace(
            name="explain_run",
            title="Explain a run",
            description="Report what happened in a run, from its journal: each step with its outcome and "
            "duration, open questions, the answer or the error, and the variables that are asked for.",
            hint=Hint.READ_ONLY,
            reply=_shown_reply,
            result=LimitedDetails,
        ),
    ),
    Operation(
        work=resume,
        arguments=ResumeArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
        http=_on_run("POST", "/resume", "Resume a run", _QUEUED, 503, needs_body=False, location=_location),
        mcp=_starts(
            "resume_run",
            "Resume a run",
            "Resume a run that was interrupted, or that waited and was answered. Finished calls are not "
            "repeated; for a run that has ended, its result is returned.",
        ),
    ),
    Operation(
        work=rerun,
        arguments=RerunArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
        http=_on_run("POST", "/rerun", "Rerun from a step", _NEW, 503, location=_location),
        mcp=_starts(
            "rerun_run",
            "Rerun from a step",
            "Rerun a plan from a step as a new run, which keeps the earlier results. Effects outside need "
            "consent.",
        ),
    ),
    Operation(
        work=fork,
        arguments=ForkArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
        http=_on_run("POST", "/fork", "Fork from an event with edits", _NEW, 503, location=_location),
        mcp=_starts(
            "fork_run",
            "Fork a run",
            "Continue a run from one of its events in a new run, with a changed variable, argument or step. "
            "The old run is not changed. Effects outside need consent.",
        ),
    ),
    Operation(
        work=cancel,
        arguments=CancelArguments,
        result=CallsInDoubt,
        to_json=OpenRun.to_json,
        http=_on_run(
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
            result=LimitedOutcome,
        ),
    ),
    Operation(
        work=decide,
        arguments=DecideArguments,
        result=CallsInDoubt,
        to_json=OpenRun.to_json,
        http=_on_run("POST", "/decide", "Decide on calls in doubt", {200: "The calls still in doubt."}, 503),
    ),
    Operation(
        work=approve,
        arguments=ApproveArguments,
        result=AskRow,
        to_json=ask_json,
        http=_on_run(
            "POST",
            "/approve",
            "Answer a question of a run",
            {200: "The question that was answered."},
            503,
            needs_body=False,
        ),
    ),
    Operation(
        work=answer_run,
        arguments=AnswerArguments,
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
    Operation(
        work=list_asks,
        arguments=NoArguments,
        result=Inbox,
        http=HttpFace(
            method="GET",
            path="/v1/inbox",
            summary="List pending questions and calls in doubt",
            tag=_TAG,
            responses={200: "The questions and calls."},
            problems=(409,),
        ),
    ),
    Operation(
        work=why,
        arguments=WhyArguments,
        result=LineageResult,
        to_json=slice_json,
        http=_on_run("GET", "/why", "Show the lineage of a value", {200: "The slice."}, tag="explained"),
    ),
    Operation(
        work=at,
        arguments=MomentArguments,
        result=MomentResult,
        to_json=run_at_event_json,
        http=_on_run("GET", "/at/{seq}", "Show the state at an event", {200: "The state."}, tag="explained"),
    ),
    Operation(
        work=diff,
        arguments=DiffArguments,
        result=DifferenceResult,
        http=_on_run("GET", "/diff", "Compare two runs", {200: "The differences."}, tag="explained"),
    ),
    Operation(
        work=delete,
        arguments=RunArguments,
        result=None,
        http=_on_run("DELETE", "", "Delete a run", {204: "The run was deleted."}, 503),
    ),
    Operation(
        work=delete_runs,
        arguments=DeleteArguments,
        result=DeletedResult,
        to_json=_deleted_json,
        mcp=ToolFace(
            name="delete_runs",
            title="Delete runs",
            description="Delete runs that have ended, with all their events. This cannot be undone.",
            hint=Hint.DESTRUCTIVE_IDEMPOTENT,
            reply=_deleted_reply,
        ),
    ),
)
"""The operations on runs."""
