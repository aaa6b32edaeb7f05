"""The MCP tools that branch runs off others (rerun, fork), and the dry run.

What may change something outside once more is told first, and done after a yes: of the person at the client
where it can ask one, else by the argument `effects`.
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
from callsheet.apps.mcp.bench import Bench
from callsheet.apps.mcp.calling import Caller, Form
from callsheet.apps.mcp.carrying import CarriedRun, answered, begun, carried, plan_in
from callsheet.apps.mcp.offering import ACTS, LOOKS, Answer, Offer
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.mcp.replies import Reply, with_findings
from callsheet.apps.mcp.running import plan_given
from callsheet.apps.operations import schemas
from callsheet.apps.operations.predicting import Prediction, PredictionOptions, predict
from callsheet.diagnostics import CallsheetError
from callsheet.runtime import forking
from callsheet.runtime.forking import Edits

_ASKED = "effects"
"""The name of the question whether what changes something may happen."""
_MOST_EFFECTS = 20
_COLUMNS = 120

_Branch = Callable[[bool, ResumeOptions], Awaitable[Started]]
"""Branches a run off, told whether what changes something may happen, and on what terms it goes on."""


async def _dry_run(bench: Bench, args: given.DryRunGiven, caller: Caller) -> Reply:
    text = await asyncio.to_thread(plan_given, bench, args, "dry_run_plan")
    text.require()
    shelf = await bench.shelf_for(text)
    options = PredictionOptions(
        inputs=args.variables, assume=args.assume, policy=bench.policy, journal=bench.host.journal.path
    )
    told: Prediction = await asyncio.to_thread(predict, text, shelf, options)
    return Reply(with_findings(told.told.to_text(_COLUMNS), told.diagnostics, text.source), told.to_json())


async def _rerun(bench: Bench, args: given.RerunGiven, caller: Caller) -> Answer:
    parent = await _parent(bench, args.run_id)

    async def branch(agreed: bool, terms: ResumeOptions) -> Started:
        request = RerunRequest(place=args.step, effects=agreed, by=caller.name, terms=terms)
        return await bench.host.rerun(parent, request)

    return await _branched(bench, caller, parent, branch, agreed=args.effects, waits=args.wait)


async def _fork(bench: Bench, args: given.ForkGiven, caller: Caller) -> Answer:
    if (args.at is None) == (not args.before):
        raise CallsheetError.single("MCP001", "fork_run needs either before, a step, or at, an event")
    parent = await _parent(bench, args.run_id)
    journal, at = bench.host.journal, args.at
    if at is None:
        at = (await bench.host.beside(lambda: forking.rerun(journal, parent, args.before))).at
    arguments = {(each.step, each.name): each.value for each in args.arguments}
    edits = Edits(dict(args.variables), arguments, dict(args.steps), caller.name)
    event = at

    async def branch(agreed: bool, terms: ResumeOptions) -> Started:
        return await bench.host.fork(parent, ForkRequest(at=event, edits=edits, effects=agreed, terms=terms))

    return await _branched(bench, caller, parent, branch, agreed=args.effects, waits=args.wait)


async def _parent(bench: Bench, run: str) -> str:
    return (await bench.host.beside(lambda: bench.host.journal.find_run(run))).run_id


async def _branched(
    bench: Bench, caller: Caller, parent: str, branch: _Branch, *, agreed: bool, waits: bool
) -> Answer:
    """A run that branches off, after a yes where one is needed, and carried as far as the call waits."""
    if caller.state is not None:
        if _ASKED not in json.loads(caller.state):
            return await answered(bench, caller)
        agreed = _says_yes(caller.answers.get(_ASKED))
    progress = Progress(plan_in(bench, parent))
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
    progress.follow(plan_in(bench, started.run_id))
    run = CarriedRun(bench, caller, started.run_id, progress, started.diagnostics)
    return await carried(run) if waits else begun(run)


def _says_yes(said: ElicitResult | None) -> bool:
    return said is not None and said.action == "accept" and (said.content or {}).get("agree") is True


def _form(made: forking.Forking) -> Form:
    told = [f"A new run from {made.parent.run_id}, up to event {made.at}, may change something outside:"]
    told += [f"  {each.step} @{each.tool} ({each.effect})" for each in made.effects[:_MOST_EFFECTS]]
    left = len(made.effects) - _MOST_EFFECTS
    told += [f"  and {left} more"] if left > 0 else []
    field = {"type": "boolean", "title": "Let it happen"}
    return Form("\n".join(told), {"type": "object", "properties": {"agree": field}, "required": ["agree"]})


BRANCHING: tuple[Offer[Any], ...] = (
    Offer(
        "dry_run_plan",
        "Say what a plan would do",
        "Say what a plan would do, step by step: the calls with their arguments as far as they are known, "
        "what changes something outside, what a person is asked, what the policy refuses. Nothing is run.",
        given.DryRunGiven,
        schemas.PREDICTION,
        LOOKS,
        _dry_run,
    ),
    Offer(
        "rerun_run",
        "Run again from a step",
        "Run a plan again from a step, as a new run that keeps the results of what came before it. What "
        "changes something outside needs a yes.",
        given.RerunGiven,
        schemas.OUTCOME,
        ACTS,
        _rerun,
    ),
    Offer(
        "fork_run",
        "Go another way",
        "Go on in a new run from where another one was, with a variable, an argument or a step edited. The "
        "old run stays as it is. What changes something outside needs a yes.",
        given.ForkGiven,
        schemas.OUTCOME,
        ACTS,
        _fork,
    ),
)
"""The tools that make runs out of others, and the one that runs nothing."""
