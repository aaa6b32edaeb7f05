"""Operations for the next run: what a run was started with, and a run that calls one tool."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from callsheet.apps.operations.beginnings import BeginningRow, beginning_of, one_call
from callsheet.apps.table.arguments import Line, Name, RunArguments, Values
from callsheet.apps.table.operation import Arguments, Context, HttpFace, Operation, run_endpoint
from callsheet.apps.table.starts import Recorded, StartArguments, StartedResult, location_of, start


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
    Operation(
        work=run_beginning,
        arguments=RunArguments,
        result=BeginningRow,
        http=run_endpoint(
            "GET", "/beginning", "Get the plan and inputs of a run", {200: "What it was started with."}
        ),
    ),
    Operation(
        work=call_tool,
        arguments=CallArguments,
        result=StartedResult,
        to_json=Recorded.to_json,
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
