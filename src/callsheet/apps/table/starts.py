"""Operations that start or continue a run: start, call one tool, resume, rerun, fork; how one began."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from callsheet.api.policies import load_policy
from callsheet.api.run_branches import begins_at
from callsheet.apps.hosting import ForkRequest, RerunRequest, RunRequest, Started
from callsheet.apps.operations.beginnings import BeginningRow, beginning_of, one_call
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.apps.operations.runs import StatusWord
from callsheet.apps.operations.schema import DiagnosticRow, diagnostic_rows
from callsheet.apps.table.arguments import (
    MOST_CHARACTERS,
    Amount,
    AnyJson,
    BranchArguments,
    GoalArguments,
    LimitArguments,
    Line,
    Name,
    NamedPlanArguments,
    Number,
    Part,
    PlacedName,
    PolicyName,
    RunArguments,
    RunId,
    TermArguments,
    Values,
    VerdictArguments,
    WaitArguments,
)
from callsheet.apps.table.extent import LimitedOutcome
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Face,
    Hint,
    HttpFace,
    Operation,
    ToolFace,
    in_http,
    in_mcp,
    operation,
    run_endpoint,
)
from callsheet.apps.table.plans import CreateArguments, create_plan
from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.ir import Plan
from callsheet.machine.questions import ApprovalTimeout, approval_timeouts
from callsheet.runtime.forking import Edits
from callsheet.store import Journal
from callsheet.store.run_index import STARTED_BY, check_tags

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


def recorded_run(context: Context, started: Started, source: Source | None = None) -> Recorded:
    """A run that a host has recorded, as an operation gives it."""
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
    tags: Annotated[dict[str, str], HTTP_ONLY] = Field(
        {}, description="Tags that lists of runs show and find it by; they are not encrypted."
    )
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

    def answers(self) -> bool:
        """Whether they approve steps, decide on calls in doubt, or accept changed tools."""
        return bool(self.approved) or self.on_in_doubt == "retry" or self.accept_changed_tools


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
        tags=_tags(context, args.tags),
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
    return recorded_run(context, await context.host.start(request), text.source)


def _tags(context: Context, given: dict[str, str]) -> dict[str, str]:
    """The tags, with who starts the run; raises CallsheetError for some that no run can have."""
    who = context.by if context.face is Face.HTTP else ""
    try:
        return check_tags({**given, **({STARTED_BY: who} if who else {})}.items())
    except ValueError as error:
        raise context.wrong(f"tags: {error}") from None


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
    return recorded_run(context, await context.host.start(request), text.source)


# ---------------------------------------------------------------- resume and branch

_EDITED = (
    "The text of an edited plan with blocks: it runs as a new run, which keeps the finished calls that are "
    "unchanged in it."
)


class ResumeArguments(TermArguments, WaitArguments):
    """How a run is resumed."""

    plan: Annotated[str | None, in_mcp(kind=Annotated[str, Field(max_length=MOST_CHARACTERS)], unset="")] = (
        Field(None, description=_EDITED)
    )
    effects: bool = Field(
        False, description="With a plan: whether calls that change something outside are allowed."
    )
    consent: Annotated[Line, HTTP_ONLY] = Field("", description="With a plan: the code of the refusal.")
    new_id: Annotated[RunId | None, HTTP_ONLY, in_http("run_id")] = None
    in_doubt: Annotated[VerdictArguments | None, HTTP_ONLY] = Field(
        None, description="The decision on all calls in doubt."
    )

    def answers(self) -> bool:
        """Whether they decide on calls in doubt, or accept changed tools."""
        return self.in_doubt is not None or super().answers()


async def resume(context: Context, args: ResumeArguments) -> Recorded:
    """Resume a run where its journal ends."""
    run_id = (await context.run(args.run_id)).run_id
    if args.plan is not None:
        tell_plan(context, run_id)
        request = RerunRequest(
            plan=await _edited(context, args.plan),
            ends_parent=True,
            effects=args.effects or args.consent,
            run_id=args.new_id,
            by=context.by,
            terms=args.terms(context),
        )
        return recorded_run(context, await context.host.rerun(run_id, request))
    verdict = None if args.in_doubt is None else args.in_doubt.resolution()
    tell_plan(context, run_id)
    if context.face is Face.HTTP or context.host.hosted(run_id) is None:
        await context.host.resume(run_id, args.terms(context, verdict))
    return recorded_run(context, Started(run_id))


def tell_plan(context: Context, run_id: str) -> None:
    """Tell who waits for a run its plan."""
    if context.face is Face.MCP:
        context.runs(plan_in(context.host.journal, run_id))


def plan_in(journal: Journal, run_id: str) -> Plan:
    """The plan of a run of the journal."""
    return journal.plan(journal.find_run(run_id).plan_hash)[0]


async def _edited(context: Context, text: str) -> PlanText:
    """The edited plan in a text."""
    return await context.host.beside(lambda: plan_text(text, "plan"))


class RerunArguments(BranchArguments):
    """A rerun from a step of another run."""

    step: Annotated[str, Field(max_length=1_000)] = Field(
        "",
        description="The step to rerun from: S3, or S3@2 for its second visit. This, a plan or failed_items.",
    )
    plan: Annotated[str | None, in_mcp(kind=Annotated[str, Field(max_length=MOST_CHARACTERS)], unset="")] = (
        Field(None, description=_EDITED)
    )
    failed_items: bool = Field(
        False,
        description="Run only failed items of loops again, and what reads their list; the run has ended.",
    )


async def rerun(context: Context, args: RerunArguments) -> Recorded:
    """Rerun a plan from a step as a new run, which keeps the earlier results.

    If later steps may change something outside, `effects` must be true; otherwise the response is 409, lists
    the calls as `effects`, and has a `consent`, the code that allows exactly these calls.
    """
    parent = (await context.run(args.run_id)).run_id
    tell_plan(context, parent)
    if not args.step and args.plan is None and not args.failed_items:
        raise context.wrong("a rerun needs a step, an edited plan, or failed_items")
    if args.step and args.failed_items:
        raise context.wrong("a rerun is from a step or of the failed items, not both")
    request = RerunRequest(
        place=args.step,
        failed_items=args.failed_items,
        plan=None if args.plan is None else await _edited(context, args.plan),
        effects=args.effects or args.consent,
        run_id=args.new_id,
        by=context.named(args.by) or context.by,
        terms=args.terms(context),
    )
    return recorded_run(context, await context.host.rerun(parent, request))


class ChangedArgument(Part):
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
    variables: Annotated[dict[PlacedName, JsonValue], in_mcp(kind=dict[str, Any])] = Field(
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
    tell_plan(context, parent)
    arguments = {(each.step, each.name): each.value for each in args.arguments}
    if len(arguments) < len(args.arguments):
        raise context.wrong("arguments: an argument of a step occurs twice")
    if at is None:
        at = await host.beside(lambda: begins_at(host.journal, parent, args.before))
    request = ForkRequest(
        at=at,
        edits=Edits(dict(args.variables), arguments, dict(args.steps), context.named(args.by) or context.by),
        effects=args.effects or args.consent,
        run_id=args.new_id,
        terms=args.terms(context),
    )
    return recorded_run(context, await host.fork(parent, request))


def location_of(run: Recorded) -> str:
    """The address of a run that was recorded."""
    return f"/v1/runs/{run.run_id}"


def starting_tool(name: str, title: str, description: str) -> ToolFace[Any, Recorded]:
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


START_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        start,
        http=HttpFace(
            method="POST",
            path="/v1/runs",
            summary="Start a run",
            tag="runs",
            responses=_QUEUED,
            location=location_of,
            problems=(403, 404, 409, 503),
        ),
        mcp=starting_tool(
            "plan_execute",
            "Run a plan",
            "Run a plan of the library by its id, or a plan as text. It is checked and proved against the "
            "policy first. Returns the answer, the usage, and the variables that are asked for; for a run "
            "that waits for a person, the questions.",
        ),
    ),
    operation(
        create_and_start,
        mcp=starting_tool(
            "plan_create_and_execute",
            "Compile a goal and run its plan",
            "Create a plan for a goal that takes several coordinated tool calls, and run it. For a single "
            "call use the tool itself. Returns the answer, the usage, and the variables that are asked for.",
        ),
    ),
    operation(
        resume,
        http=run_endpoint(
            "POST", "/resume", "Resume a run", _QUEUED, 503, needs_body=False, location=location_of
        ),
        mcp=starting_tool(
            "resume_run",
            "Resume a run",
            "Resume a run that was interrupted, that waited and was answered, or, if the user agrees, that "
            "was paused. Finished calls are not repeated; for a run that has ended, its result is returned.",
        ),
    ),
    operation(
        rerun,
        http=run_endpoint("POST", "/rerun", "Rerun from a step", _NEW, 503, location=location_of),
        mcp=starting_tool(
            "rerun_run",
            "Rerun from a step",
            "Rerun a plan from a step as a new run, which keeps the earlier results. Effects outside need "
            "consent.",
        ),
    ),
    operation(
        fork,
        http=run_endpoint("POST", "/fork", "Fork from an event with edits", _NEW, 503, location=location_of),
        mcp=starting_tool(
            "fork_run",
            "Fork a run",
            "Continue a run from one of its events in a new run, with a changed variable, argument or step. "
            "The old run is not changed. Effects outside need consent.",
        ),
    ),
)
"""The operations that start or continue a run."""


async def run_beginning(context: Context, args: RunArguments) -> BeginningRow:
    """The plan and the inputs that a run was started with, to start another like it.

    Secret inputs are named only.
    """
    info = await context.run(args.run_id)
    return await context.host.beside(
        lambda: beginning_of(context.host.journal, info, context.host.config.limits)
    )


class CallArguments(Arguments):
    """A tool and what it is called with."""

    tool: Line = Field(description="The tool, as plans call it.")
    arguments: Values = Field({}, description="Its arguments by name.")
    secrets: dict[Name, str] = Field({}, description="Arguments whose values are encrypted in the journal.")


async def call_tool(context: Context, args: CallArguments) -> Recorded:
    """Call one tool, as `callsheet call` does: a run of a plan with one step.

    So the tool is checked, a policy and approvals guard the call, and the journal has it.
    """
    plan = one_call(args.tool, (*args.arguments, *args.secrets))
    given = {"plan": plan.text, "name": plan.name, "inputs": args.arguments, "secrets": args.secrets}
    return await start(context, StartArguments.model_validate(given))


BEGINNING_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        run_beginning,
        http=run_endpoint(
            "GET", "/beginning", "Get the plan and inputs of a run", {200: "What it was started with."}
        ),
    ),
    operation(
        call_tool,
        http=HttpFace(
            method="POST",
            path="/v1/tools/{tool}/call",
            summary="Call a tool",
            tag="runs",
            responses={202: "The run is recorded in the journal and queued."},
            location=location_of,
            problems=(403, 409, 503),
        ),
    ),
)
"""The operations for the next run."""
