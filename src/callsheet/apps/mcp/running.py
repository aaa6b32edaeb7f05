"""The MCP tools that run plans, to their end or until a person has to answer.

A call that is cancelled, or whose client goes away, interrupts its run: the journal carries it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from callsheet.apps.hosting import RunRequest
from callsheet.apps.hosting.requests import Listeners
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.bench import Bench
from callsheet.apps.mcp.calling import Caller
from callsheet.apps.mcp.carrying import CarriedRun, answered, begun, carried, go_on, plan_in
from callsheet.apps.mcp.offering import ACTS, Answer, Offer
from callsheet.apps.mcp.planning import made_plan
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.operations import schemas
from callsheet.apps.operations.library import text_of_stored
from callsheet.apps.operations.reading import PlanText, plan_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax


async def _execute(bench: Bench, args: given.ExecuteGiven, caller: Caller) -> Answer:
    if caller.state is not None:
        return await answered(bench, caller)
    text = await asyncio.to_thread(plan_given, bench, args, "plan_execute")
    to_run = _PlanToRun(text, args.variables, args.secrets)
    return await _started(bench, caller, to_run, waits=args.wait)


async def _create_and_execute(bench: Bench, args: given.CreateAndExecuteGiven, caller: Caller) -> Answer:
    if caller.state is not None:
        return await answered(bench, caller)
    stored = await made_plan(bench, args.goal, args.context)
    text = await asyncio.to_thread(text_of_stored, stored, args.variables)
    return await _started(bench, caller, _PlanToRun(text, args.variables, ()), waits=args.wait)


async def _resume(bench: Bench, args: given.ResumeGiven, caller: Caller) -> Answer:
    if caller.state is not None:
        return await answered(bench, caller)
    info = await bench.host.beside(lambda: bench.host.journal.find_run(args.run_id))
    run = CarriedRun(bench, caller, info.run_id, Progress(plan_in(bench, info.run_id)))
    await go_on(run)
    return await carried(run) if args.wait else begun(run)


@dataclass(frozen=True, slots=True)
class _PlanToRun:
    """A plan that is to be run, and what it is given."""

    text: PlanText
    variables: dict[str, Any]
    secrets: Iterable[str]


def plan_given(bench: Bench, args: given.ExecuteGiven | given.DryRunGiven, tool: str) -> PlanText:
    """The plan that a call of a tool names; raises CallsheetError (MCP001) where it names none, or two."""
    if bool(args.plan_id) == bool(args.ltp_text):
        message = f"{tool} needs either plan_id or ltp_text"
        raise CallsheetError.single("MCP001", message, help="list_plans has the ids of plans")
    if args.plan_id:
        return text_of_stored(bench.library.load(args.plan_id), args.variables)
    syntax = None if args.syntax == "auto" else Syntax(args.syntax)
    return plan_text(args.ltp_text, syntax=syntax, variables=args.variables)


async def _started(bench: Bench, caller: Caller, to_run: _PlanToRun, *, waits: bool) -> Answer:
    progress = Progress(to_run.text.require())
    request = RunRequest(
        text=to_run.text,
        inputs=to_run.variables,
        secrets=frozenset(to_run.secrets),
        listeners=Listeners(progress.note if waits else None),
    )
    started = await bench.host.start(request)
    run = CarriedRun(bench, caller, started.run_id, progress, started.diagnostics)
    return await carried(run) if waits else begun(run)


RUNNING: tuple[Offer[Any], ...] = (
    Offer(
        "plan_execute",
        "Run a plan",
        "Run a plan of the library by its id, or a plan as text: checked, proved against the policy, "
        "then step by "
        "step. Gives the answer, the variables, and what it used. A run that waits for a person says for "
        "what.",
        given.ExecuteGiven,
        schemas.OUTCOME,
        ACTS,
        _execute,
    ),
    Offer(
        "plan_create_and_execute",
        "Make a plan and run it",
        "Make a plan for a goal that takes several coordinated tool calls, and run it at once. For a "
        "single call "
        "use the tool itself. Gives the answer, the variables, and what it used.",
        given.CreateAndExecuteGiven,
        schemas.OUTCOME,
        ACTS,
        _create_and_execute,
    ),
    Offer(
        "resume_run",
        "Carry a run on",
        "Carry on a run that was interrupted, or that waited and was answered. No finished call is made "
        "again; a "
        "run that has ended gives its result again.",
        given.ResumeGiven,
        schemas.OUTCOME,
        ACTS,
        _resume,
    ),
)
"""The tools that run plans."""
