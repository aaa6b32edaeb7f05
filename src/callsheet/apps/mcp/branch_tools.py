"""The MCP tools that branch runs off others (rerun, fork), and the dry run.

Effects outside need consent: from the person at the client if it can ask one, else by the argument `effects`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import ElicitResult, InputRequiredResult

from callsheet.apps.hosting import ForkRequest, RerunRequest, ResumeOptions, Started
from callsheet.apps.hosting.requests import Listeners
from callsheet.apps.hosting.revising import NeedsConsent
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import Caller, Form
from callsheet.apps.mcp.execute_tools import plan_given
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.mcp.replies import Reply, with_findings
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import ACTS, LOOKS, Answer, ToolDefinition
from callsheet.apps.mcp.waiting import ToolRun, continue_run, plan_in, started_reply, wait_for_run
from callsheet.apps.operations import schemas
from callsheet.apps.operations.predicting import Prediction, PredictionOptions, predict
from callsheet.diagnostics import CallsheetError
from callsheet.runtime import forking
from callsheet.runtime.forking import Edits

_ASKED = "effects"
"""The name of the question for consent to effects."""
_MOST_EFFECTS = 20
_COLUMNS = 120

_Branch = Callable[[bool, ResumeOptions], Awaitable[Started]]
"""Branches a run; takes whether effects are allowed, and the options of the resumption."""


async def _dry_run(server_context: ServerContext, args: given.DryRunArguments, caller: Caller) -> Reply:
    text = await asyncio.to_thread(plan_given, server_context, args, "dry_run_plan")
    text.require()
    declared = await server_context.shelf_for(text)
    options = PredictionOptions(
        inputs=args.variables,
        assume=args.assume,
        policy=server_context.policy,
        journal=server_context.host.journal.path,
    )
    prediction: Prediction = await asyncio.to_thread(predict, text, declared, options)
    return Reply(
        with_findings(prediction.dry_run.to_text(_COLUMNS), prediction.diagnostics, text.source),
        prediction.to_json(),
    )


async def _rerun(server_context: ServerContext, args: given.RerunArguments, caller: Caller) -> Answer:
    parent = await _parent(server_context, args.run_id)

    async def branch(agreed: bool, terms: ResumeOptions) -> Started:
        request = RerunRequest(place=args.step, effects=agreed, by=caller.name, terms=terms)
        return await server_context.host.rerun(parent, request)

    return await _branched(server_context, caller, parent, branch, agreed=args.effects, waits=args.wait)


async def _fork(server_context: ServerContext, args: given.ForkArguments, caller: Caller) -> Answer:
    if (args.at is None) == (not args.before):
        raise CallsheetError.single("MCP001", "fork_run needs either before, a step, or at, an event")
    parent = await _parent(server_context, args.run_id)
    journal, at = server_context.host.journal, args.at
    if at is None:
        at = (await server_context.host.beside(lambda: forking.rerun(journal, parent, args.before))).at
    arguments = {(each.step, each.name): each.value for each in args.arguments}
    edits = Edits(dict(args.variables), arguments, dict(args.steps), caller.name)
    event = at

    async def branch(agreed: bool, terms: ResumeOptions) -> Started:
        return await server_context.host.fork(
            parent, ForkRequest(at=event, edits=edits, effects=agreed, terms=terms)
        )

    return await _branched(server_context, caller, parent, branch, agreed=args.effects, waits=args.wait)


async def _parent(server_context: ServerContext, run: str) -> str:
    return (await server_context.host.beside(lambda: server_context.host.journal.find_run(run))).run_id


async def _branched(
    server_context: ServerContext, caller: Caller, parent: str, branch: _Branch, *, agreed: bool, waits: bool
) -> Answer:
    """Branch a run, with consent if needed, and wait for it if the call waits."""
    if caller.state is not None:
        if _ASKED not in json.loads(caller.state):
            return await continue_run(server_context, caller)
        agreed = _says_yes(caller.answers.get(_ASKED))
    progress = Progress(plan_in(server_context, parent))
    terms = ResumeOptions(listeners=Listeners(progress.note if waits else None))
    try:
        started = await branch(agreed, terms)
    except NeedsConsent as needed:
        if caller.state is not None or not caller.can_be_asked:
            raise
        form = _form(needed.forking)
        if caller.is_modern:
            requests: dict[str, Any] = {_ASKED: form.request()}
            return InputRequiredResult(input_requests=requests, request_state=json.dumps({_ASKED: True}))
        if not _says_yes(await caller.ask(form)):
            raise
        started = await branch(True, terms)
    progress.follow(plan_in(server_context, started.run_id))
    run = ToolRun(server_context, caller, started.run_id, progress, started.diagnostics)
    return await wait_for_run(run) if waits else started_reply(run)


def _says_yes(result: ElicitResult | None) -> bool:
    return result is not None and result.action == "accept" and (result.content or {}).get("agree") is True


def _form(made: forking.Forking) -> Form:
    lines = [f"A new run from {made.parent.run_id}, up to event {made.at}, may change something outside:"]
    lines += [f"  {each.step} @{each.tool} ({each.effect})" for each in made.effects[:_MOST_EFFECTS]]
    left = len(made.effects) - _MOST_EFFECTS
    lines += [f"  and {left} more"] if left > 0 else []
    field = {"type": "boolean", "title": "Allow it"}
    return Form("\n".join(lines), {"type": "object", "properties": {"agree": field}, "required": ["agree"]})


BRANCH_TOOLS: tuple[ToolDefinition[Any], ...] = (
    ToolDefinition(
        "dry_run_plan",
        "Dry-run a plan",
        "Predict what a plan would do, step by step: calls with their known arguments, effects outside, "
        "questions to people, refusals by the policy. Nothing is run.",
        given.DryRunArguments,
        schemas.PREDICTION,
        LOOKS,
        _dry_run,
    ),
    ToolDefinition(
        "rerun_run",
        "Rerun from a step",
        "Rerun a plan from a step as a new run, which keeps the earlier results. Effects outside need "
        "consent.",
        given.RerunArguments,
        schemas.OUTCOME,
        ACTS,
        _rerun,
    ),
    ToolDefinition(
        "fork_run",
        "Fork a run",
        "Continue a run from one of its events in a new run, with a changed variable, argument or step. The "
        "old run is not changed. Effects outside need consent.",
        given.ForkArguments,
        schemas.OUTCOME,
        ACTS,
        _fork,
    ),
)
"""The tools that make runs out of others, and the one that runs nothing."""
