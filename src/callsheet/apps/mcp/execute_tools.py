"""The MCP tools that run plans, to their end or until a person has to answer.

A call that is cancelled, or whose client disconnects, interrupts its run, which can be resumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from callsheet.apps.hosting import RunRequest
from callsheet.apps.hosting.requests import Listeners
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.extent import Extent
from callsheet.apps.mcp.plan_tools import create_plan
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.mcp.replies import with_left_out
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import DESTRUCTIVE, Answer, ToolDefinition
from callsheet.apps.mcp.waiting import (
    ToolRun,
    continue_run,
    plan_in,
    resume_if_stopped,
    started_reply,
    wait_for_run,
)
from callsheet.apps.operations import schemas
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax


async def _execute(
    server_context: ServerContext, args: given.ExecuteArguments, caller: ClientRequest
) -> Answer:
    if caller.state is not None:
        return await continue_run(server_context, caller, Extent.of(args.show_variables))
    text = await asyncio.to_thread(plan_from_arguments, server_context, args, "plan_execute")
    to_run = _PlanToRun(text, args.variables, args.secrets, _state(server_context, args.state))
    extent = Extent.of(args.show_variables)
    return await _start_run(server_context, caller, to_run, extent, waits=args.wait)


async def _create_and_execute(
    server_context: ServerContext, args: given.CreateAndExecuteArguments, caller: ClientRequest
) -> Answer:
    if caller.state is not None:
        return await continue_run(server_context, caller, Extent.of(args.show_variables))
    stored = await create_plan(server_context, args.goal, args.context)
    text = await asyncio.to_thread(text_of_stored, stored, args.variables)
    to_run = _PlanToRun(text, args.variables, ())
    extent = Extent.of(args.show_variables)
    return await _start_run(server_context, caller, to_run, extent, waits=args.wait)


async def _resume(
    server_context: ServerContext, args: given.ResumeArguments, caller: ClientRequest
) -> Answer:
    if caller.state is not None:
        return await continue_run(server_context, caller, Extent.of(args.show_variables))
    info = await server_context.host.beside(lambda: server_context.host.journal.find_run(args.run_id))
    progress, extent = Progress(plan_in(server_context, info.run_id)), Extent.of(args.show_variables)
    run = ToolRun(server_context, caller, info.run_id, progress, extent)
    await resume_if_stopped(run, as_recorded=args.as_recorded)
    return await wait_for_run(run) if args.wait else started_reply(run)


@dataclass(frozen=True, slots=True)
class _PlanToRun:
    """A plan to run, with its variables, the names of secret ones, and the state of another program."""

    text: PlanText
    variables: dict[str, Any]
    secrets: Iterable[str]
    state: str | None = None


def _state(server_context: ServerContext, state: str) -> str | None:
    """The state that the arguments give, None for none. Raises CallsheetError (PLN028) under a policy.

    Its results would count as those of the tools, and may be invented by a model that was deceived.
    """
    if state and server_context.policy is not None:
        raise CallsheetError.single(
            "PLN028",
            "the run cannot be taken over: this server has a policy, and results that a client names are not"
            " those of its tools",
            help="a person can run it: callsheet run PLAN --state FILE --policy POLICY",
        )
    return state or None


def plan_from_arguments(
    server_context: ServerContext, args: given.ExecuteArguments | given.DryRunArguments, tool: str
) -> PlanText:
    """The plan that the arguments name; raises CallsheetError (MCP001) unless they name exactly one."""
    if bool(args.plan_id) == bool(args.ltp_text):
        message = f"{tool} needs either plan_id or ltp_text"
        raise CallsheetError.single("MCP001", message, help="list_plans lists the ids of plans")
    if args.plan_id:
        return text_of_stored(server_context.library.load(args.plan_id), args.variables)
    syntax = None if args.syntax == "auto" else Syntax(args.syntax)
    return plan_text(args.ltp_text, syntax=syntax, variables=args.variables)


async def _start_run(
    server_context: ServerContext, caller: ClientRequest, to_run: _PlanToRun, extent: Extent, *, waits: bool
) -> Answer:
    progress = Progress(to_run.text.require())
    request = RunRequest(
        text=to_run.text,
        inputs=to_run.variables,
        secrets=frozenset(to_run.secrets),
        state=to_run.state,
        listeners=Listeners(progress.note if waits else None),
    )
    started = await server_context.host.start(request)
    run = ToolRun(server_context, caller, started.run_id, progress, extent, started.diagnostics)
    return await wait_for_run(run) if waits else started_reply(run)


EXECUTE_TOOLS: tuple[ToolDefinition[Any], ...] = (
    ToolDefinition(
        "plan_execute",
        "Run a plan",
        "Run a plan of the library by its id, or a plan as text. It is checked and proved against the policy "
        "first. Returns the answer, the usage, and the variables that are asked for; for a run that waits "
        "for a person, the questions.",
        given.ExecuteArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE,
        _execute,
    ),
    ToolDefinition(
        "plan_create_and_execute",
        "Compile a goal and run its plan",
        "Create a plan for a goal that takes several coordinated tool calls, and run it. For a single call "
        "use the tool itself. Returns the answer, the usage, and the variables that are asked for.",
        given.CreateAndExecuteArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE,
        _create_and_execute,
    ),
    ToolDefinition(
        "resume_run",
        "Resume a run",
        "Resume a run that was interrupted, or that waited and was answered. Finished calls are not "
        "repeated; for a run that has ended, its result is returned.",
        given.ResumeArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE,
        _resume,
    ),
)
"""The tools that run plans."""
