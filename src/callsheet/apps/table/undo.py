"""Operations that take back what a run did: what that takes, and the run that does it.

The run of the inverse calls is one like any other: it is watched, resumed and decided about as such.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from callsheet.api.run_branches import UndoResult, undo_json
from callsheet.apps.hosting import ResumeOptions, UndoRequest
from callsheet.apps.table.arguments import Line, RunArguments, WaitArguments
from callsheet.apps.table.operation import HTTP_ONLY, Context, Operation, in_mcp, run_endpoint
from callsheet.apps.table.starts import (
    Recorded,
    StartedResult,
    location_of,
    recorded_run,
    starting_tool,
    tell_plan,
)

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
    Operation(
        work=foresee_undo,
        arguments=ForeseenArguments,
        result=UndoResult,
        http=run_endpoint("GET", "/undo", "What undoing a run takes", {200: "What it takes."}, 503),
    ),
    Operation(
        work=undo,
        arguments=UndoArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
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
