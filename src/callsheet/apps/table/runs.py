"""Operations on recorded runs: list, show, explain, compare, undo, delete."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, cast

from pydantic import Field

from callsheet.api.explaining import Explanation, RunMoment, explain_value, run_at
from callsheet.api.run_branches import UndoResult, undo_json
from callsheet.apps.hosting import ResumeOptions, UndoRequest
from callsheet.apps.hosting.recorded import delete_run
from callsheet.apps.operations.lineage import (
    DifferenceResult,
    LineageResult,
    MomentResult,
    diff_json,
    run_at_event_json,
    slice_json,
)
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import (
    RunDetails,
    RunDetailsResult,
    RunRow,
    Status,
    run_details,
    run_details_json,
    run_row,
)
from callsheet.apps.operations.schema import DiagnosticRow, ProblemRow, diagnostic_rows
from callsheet.apps.rendering.values import utc, without_controls
from callsheet.apps.table.arguments import (
    Amount,
    Line,
    Number,
    RunArguments,
    RunId,
    ShownArguments,
    WaitArguments,
)
from callsheet.apps.table.extent import Extent, LeftOut, cut_text, extent_lines
from callsheet.apps.table.operation import (
    HTTP_ONLY,
    MCP_ONLY,
    Arguments,
    Context,
    Face,
    Hint,
    HttpFace,
    Operation,
    Reply,
    ToolFace,
    in_mcp,
    operation,
    run_endpoint,
    with_diagnostics,
)
from callsheet.apps.table.starts import (
    Recorded,
    location_of,
    recorded_run,
    starting_tool,
    tell_plan,
)
from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.store.listing import RunQuery, listed_runs, run_counts
from callsheet.store.runs import RunFilter, RunSort, moment_of

# ---------------------------------------------------------------- list


Words = Annotated[str, Field(max_length=200)]


class FilterArguments(Arguments):
    """Which runs are meant: those that fit all that is given. The names are those of `RunFilter`."""

    status: Annotated[Status | None, in_mcp(unset="", description="Only runs with this status.")] = Field(
        None,
        description="Those that are done include those done_with_failures, which can be asked for alone.",
    )
    text: Annotated[Words | None, HTTP_ONLY] = Field(
        None,
        description="A part of the run's id, of its plan's name or goal, of its tags or of the status; "
        "case-insensitive, as all parts are.",
    )
    plan: Annotated[Words | None, HTTP_ONLY] = Field(None, description="A part of the plan's name.")
    goal: Annotated[Words | None, HTTP_ONLY] = Field(None, description="A part of the plan's goal.")
    plan_hash: Annotated[Annotated[str, Field(pattern="^[0-9a-f]{4,64}$")] | None, HTTP_ONLY] = Field(
        None, description="The version of the plan: its hash, or at least 4 characters of its beginning."
    )
    failed_step: Annotated[Words | None, HTTP_ONLY] = Field(
        None, description="The id of the step it failed at, else of the first that failed."
    )
    waits_for: Annotated[Words | None, HTTP_ONLY] = Field(
        None, description="A part of what a run that has stopped waits for, such as the name of a tool."
    )
    tag: Annotated[Line | None, HTTP_ONLY] = Field(
        None, description="A tag, as name or name=value; several, separated by commas, all have to be there."
    )
    since: Annotated[Words | None, HTTP_ONLY] = Field(
        None,
        description="The earliest start: a time (ISO 8601), an age such as 12h or 2d, `today`, `yesterday`.",
    )
    until: Annotated[Words | None, HTTP_ONLY] = Field(None, description="The latest start, exclusive.")
    ended_since: Annotated[Words | None, HTTP_ONLY] = Field(None, description="The earliest end.")
    ended_until: Annotated[Words | None, HTTP_ONLY] = Field(None, description="The latest end, exclusive.")
    least_cost: Annotated[Amount | None, HTTP_ONLY] = None
    most_cost: Annotated[Amount | None, HTTP_ONLY] = None
    least_tokens: Annotated[Number | None, HTTP_ONLY] = None
    most_tokens: Annotated[Number | None, HTTP_ONLY] = None

    def wanted(self, context: Context) -> RunFilter:
        """The filter; raises CallsheetError for a time that is none."""
        now, names = time.time(), FilterArguments.model_fields
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        for name in ("since", "until", "ended_since", "ended_until"):
            if name in given:
                try:
                    given[name] = moment_of(given[name], now)
                except ValueError as error:
                    raise context.wrong(f"{name}: {error}") from None
        tags = str(given.pop("tag", "")).split(",")
        return RunFilter(**given, tags=tuple(tag for each in tags if (tag := each.strip())))


class ListArguments(FilterArguments):
    """Which runs are listed, and how."""

    sort: Annotated[Literal["created", "ended", "duration", "cost", "tokens"], HTTP_ONLY] = "created"
    order: Annotated[Literal["falling", "rising"], HTTP_ONLY] = "falling"
    count: Annotated[bool, HTTP_ONLY] = Field(
        False, description="Whether all runs that fit are counted, by outcome, those beyond the limit too."
    )
    limit: Annotated[
        int, Field(ge=1, le=500), in_mcp(kind=Annotated[int, Field(ge=1, le=500)], default=20)
    ] = 50
    before: Annotated[RunId | None, HTTP_ONLY] = Field(
        None, description="Only runs after this one in the list; by default, older ones."
    )


class RunList(TypedDict):
    """Runs, newest first."""

    runs: list[RunRow]
    more: Annotated[bool, "whether more of them follow"]
    counts: NotRequired[Annotated[dict[str, int], "if asked for: how many runs fit, by outcome"]]


async def list_runs(context: Context, args: ListArguments) -> RunList:
    """The runs, newest first unless sorted otherwise; `more` tells whether more follow."""
    wanted = args.wanted(context)
    rows = await context.host.beside(lambda: _rows(context, args, wanted))
    listed: RunList = {"runs": rows[: args.limit], "more": len(rows) > args.limit}
    if args.count:
        host = context.host
        listed["counts"] = await host.beside(lambda: run_counts(host.journal, wanted, host.status))
    return listed


def _rows(context: Context, args: ListArguments, wanted: RunFilter) -> list[RunRow]:
    """The requested runs, plus one if there are more."""
    host, has_doubts = context.host, context.face is Face.MCP
    query = RunQuery(
        wanted=wanted,
        sort=RunSort(args.sort),
        rises=args.order == "rising",
        limit=args.limit + 1,
        before=None if args.before is None else host.info(args.before),
    )
    found = listed_runs(host.journal, query, host.status)
    return [
        run_row(host.journal, info, status, host.under_way, has_doubts=has_doubts) for info, status in found
    ]


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


RUN_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        list_runs,
        http=HttpFace(
            method="GET",
            path="/v1/runs",
            summary="List runs",
            tag="runs",
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
    operation(
        show_run,
        result=ShownRunResult,
        to_json=lambda run: run.data,
        http=run_endpoint("GET", "", "Show a run", {200: "The run."}),
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
    operation(
        why,
        result=LineageResult,
        to_json=slice_json,
        http=run_endpoint("GET", "/why", "Show the lineage of a value", {200: "The slice."}, tag="explained"),
    ),
    operation(
        at,
        result=MomentResult,
        to_json=run_at_event_json,
        http=run_endpoint(
            "GET", "/at/{seq}", "Show the state at an event", {200: "The state."}, tag="explained"
        ),
    ),
    operation(
        diff,
        http=run_endpoint("GET", "/diff", "Compare two runs", {200: "The differences."}, tag="explained"),
    ),
    operation(delete, http=run_endpoint("DELETE", "", "Delete a run", {204: "The run was deleted."}, 503)),
    operation(
        delete_runs,
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
"""The operations on recorded runs."""


_Step = Annotated[str, Field(max_length=1_000)]
_STEP = "The step from which on calls are taken back; default: all."


class ForeseenArguments(RunArguments):
    """What of a run is looked at."""

    step: _Step = Field("", description=_STEP)


async def foresee_undo(context: Context, args: ForeseenArguments) -> UndoResult:
    """What undoing a run takes: first what cannot be undone, then the calls, newest first."""
    run_id, host = (await context.run(args.run_id)).run_id, context.host
    undoing = await host.foresee_undo(run_id, args.step)
    host.masker.add_secrets(undoing.known)
    told: UndoResult = host.masker.value(undo_json(undoing))
    return told


class UndoArguments(RunArguments, WaitArguments):
    """From which step on a run is undone, and who has agreed."""

    step: _Step = Field("", description=_STEP)
    effects: Annotated[
        bool,
        in_mcp(
            description="Whether these calls are allowed; otherwise they are listed. Set it only if the user "
            "has agreed."
        ),
    ] = Field(False, description="Whether the inverse calls are allowed.")
    consent: Annotated[Line, HTTP_ONLY] = Field(
        "", description="The code of the refusal whose calls are allowed: exactly those."
    )


async def undo(context: Context, args: UndoArguments) -> Recorded:
    """Take back what the calls of a run did, newest first, as a run of its own.

    `effects` must be true; otherwise the response is 409, has as `undo` what cannot be undone and the calls,
    and a `consent`, the code that allows exactly these calls. An earlier undoing that has not ended goes on.
    """
    run_id = (await context.run(args.run_id)).run_id
    tell_plan(context, run_id)
    terms = ResumeOptions(listeners=context.listeners)
    request = UndoRequest(place=args.step, effects=args.effects or args.consent, terms=terms)
    return recorded_run(context, await context.host.undo(run_id, request))


UNDO_OPERATIONS: tuple[Operation[Any, Any], ...] = (
    operation(
        foresee_undo,
        http=run_endpoint("GET", "/undo", "What undoing a run takes", {200: "What it takes."}, 503),
    ),
    operation(
        undo,
        http=run_endpoint(
            "POST",
            "/undo",
            "Undo a run",
            {202: "The run that undoes it is in the journal."},
            503,
            needs_body=False,
            location=location_of,
        ),
        mcp=starting_tool(
            "undo_run",
            "Undo a run",
            "Take back what the calls of an ended run did: the inverse of each, newest first, as a run of "
            "its own. Effects outside need consent; an undoing that was interrupted goes on.",
        ),
    ),
)
"""The operations that take back what a run did."""
