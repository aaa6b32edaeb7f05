"""The MCP tools that branch runs off others (rerun, fork), and the dry run.

Effects outside need consent: from the person at the client if it can ask one, else by the argument `effects`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import ElicitResult, InputRequiredResult

from callsheet.api.run_service import begins_at
from callsheet.apps.hosting import ForkRequest, RerunRequest, ResumeOptions, Started
from callsheet.apps.hosting.requests import Listeners
from callsheet.apps.masking import Masker
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import ClientRequest, Form
from callsheet.apps.mcp.execute_tools import plan_from_arguments
from callsheet.apps.mcp.extent import Extent
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.mcp.replies import Reply, with_diagnostics, with_left_out
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import DESTRUCTIVE, READ_ONLY, Answer, ToolDefinition
from callsheet.apps.mcp.waiting import ToolRun, continue_run, plan_in, started_reply, wait_for_run
from callsheet.apps.operations import schemas
from callsheet.apps.operations.predicting import Prediction, PredictionOptions, predict
from callsheet.diagnostics import CallsheetError
from callsheet.runtime.forking import Edits, Forking, NeedsConsent

_ASKED = "effects"
"""The name of the question for consent to effects."""
_MOST_EFFECTS = 20
_COLUMNS = 120

_Branch = Callable[[bool | str, ResumeOptions], Awaitable[Started]]
"""Branches a run, given which effects are allowed and the options for the new run."""


async def _dry_run(
    server_context: ServerContext, args: given.DryRunArguments, caller: ClientRequest
) -> Reply:
    text = await asyncio.to_thread(plan_from_arguments, server_context, args, "dry_run_plan")
    text.require()
    declared = await server_context.declared_tools_for(text)
    options = PredictionOptions(
        inputs=args.variables,
        assume=args.assume,
        policy=server_context.policy,
        journal=server_context.host.journal.path,
    )
    prediction: Prediction = await asyncio.to_thread(predict, text, declared, options)
    return Reply(
        with_diagnostics(prediction.dry_run.to_text(_COLUMNS), prediction.diagnostics, text.source),
        prediction.to_json(),
    )


async def _rerun(server_context: ServerContext, args: given.RerunArguments, caller: ClientRequest) -> Answer:
    parent = await _parent(server_context, args.run_id)

    async def branch(agreed: bool | str, terms: ResumeOptions) -> Started:
        request = RerunRequest(place=args.step, effects=agreed, by=caller.client_name, terms=terms)
        return await server_context.host.rerun(parent, request)

    return await _branch_and_wait(server_context, caller, parent, branch, args)


async def _fork(server_context: ServerContext, args: given.ForkArguments, caller: ClientRequest) -> Answer:
    if (args.at is None) == (not args.before):
        raise CallsheetError.single("MCP001", "fork_run needs either before, a step, or at, an event")
    parent = await _parent(server_context, args.run_id)
    journal, at = server_context.host.journal, args.at
    if at is None:
        at = await server_context.host.beside(lambda: begins_at(journal, parent, args.before))
    arguments = {(each.step, each.name): each.value for each in args.arguments}
    edits = Edits(dict(args.variables), arguments, dict(args.steps), caller.client_name)
    event = at

    async def branch(agreed: bool | str, terms: ResumeOptions) -> Started:
        return await server_context.host.fork(
            parent, ForkRequest(at=event, edits=edits, effects=agreed, terms=terms)
        )

    return await _branch_and_wait(server_context, caller, parent, branch, args)


async def _parent(server_context: ServerContext, run: str) -> str:
    return (await server_context.host.beside(lambda: server_context.host.journal.find_run(run))).run_id


async def _branch_and_wait(
    server_context: ServerContext,
    caller: ClientRequest,
    parent: str,
    branch: _Branch,
    args: given.RerunArguments | given.ForkArguments,
) -> Answer:
    """Branch a run, with consent if needed, and wait for it if the call waits.

    The consent is to the calls that the form shows: if others lie ahead by then, the call is refused.
    """
    agreed: bool | str = args.effects
    waits, extent = args.wait, Extent.of(args.show_variables)
    if caller.state is not None:
        state = json.loads(caller.state)
        if _ASKED not in state:
            return await continue_run(server_context, caller, extent)
        agreed = _has_consent(caller.answers.get(_ASKED)) and str(state[_ASKED])
    progress = Progress(plan_in(server_context, parent))
    listeners = Listeners(progress.note if waits else None)
    terms = ResumeOptions(as_recorded=args.as_recorded, listeners=listeners)
    try:
        started = await branch(agreed, terms)
    except NeedsConsent as needed:
        if caller.state is not None or not caller.supports_forms:
            raise
        form = _consent_form(needed.forking, server_context.host.masker)
        if caller.has_input_required:
            requests: dict[str, Any] = {_ASKED: form.request()}
            state = json.dumps({_ASKED: needed.forking.consent})
            return InputRequiredResult(input_requests=requests, request_state=state)
        if not _has_consent(await caller.elicit(form)):
            raise
        started = await branch(needed.forking.consent, terms)
    progress.set_plan(plan_in(server_context, started.run_id))
    run = ToolRun(server_context, caller, started.run_id, progress, extent, started.diagnostics)
    return await wait_for_run(run) if waits else started_reply(run)


def _has_consent(result: ElicitResult | None) -> bool:
    return result is not None and result.action == "accept" and (result.content or {}).get("agree") is True


def _consent_form(forking_plan: Forking, masker: Masker) -> Form:
    parent, at = forking_plan.parent.run_id, forking_plan.at
    lines = [f"A new run from {parent}, up to event {at}, may change something outside:"]
    for effect in forking_plan.effects[:_MOST_EFFECTS]:
        lines += [f"  {effect.title}", *(f"      {line}" for line in effect.lines())]
    remaining = len(forking_plan.effects) - _MOST_EFFECTS
    lines += [f"  and {remaining} more steps"] if remaining > 0 else []
    field = {"type": "boolean", "title": "Allow it"}
    schema = {"type": "object", "properties": {"agree": field}, "required": ["agree"]}
    return Form("\n".join(map(masker.value, lines)), schema)


BRANCH_TOOLS: tuple[ToolDefinition[Any], ...] = (
    ToolDefinition(
        "dry_run_plan",
        "Dry-run a plan",
        "Predict what a plan would do, step by step: calls with their known arguments, effects outside, "
        "questions to people, refusals by the policy. Nothing is run.",
        given.DryRunArguments,
        schemas.PREDICTION,
        READ_ONLY,
        _dry_run,
    ),
    ToolDefinition(
        "rerun_run",
        "Rerun from a step",
        "Rerun a plan from a step as a new run, which keeps the earlier results. Effects outside need "
        "consent.",
        given.RerunArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE,
        _rerun,
    ),
    ToolDefinition(
        "fork_run",
        "Fork a run",
        "Continue a run from one of its events in a new run, with a changed variable, argument or step. The "
        "old run is not changed. Effects outside need consent.",
        given.ForkArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE,
        _fork,
    ),
)
"""The tools that branch runs, and the dry run."""
