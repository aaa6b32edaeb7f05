"""Waits for a run within a tool call, until it ends or has a question for the person at the client.

In: a run, the request of a client. Out: the result of the call. A call that is cancelled, or whose client
disconnects, interrupts its run, which can be resumed from the journal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp_types import InputRequiredResult

from callsheet.apps.hosting import ResumeOptions
from callsheet.apps.hosting.requests import Listeners
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.elicitation import forms_of, pending_lines, record_answers
from callsheet.apps.mcp.extent import Extent, left_out_lines
from callsheet.apps.mcp.progress import Progress
from callsheet.apps.mcp.replies import Reply, run_links, with_diagnostics
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import Answer
from callsheet.apps.operations.outcomes import outcome_json
from callsheet.apps.rendering.runs import doubt_lines, failures_line, unanswered_lines
from callsheet.apps.rendering.values import without_controls
from callsheet.diagnostics import Diagnostic, to_json
from callsheet.ir import JSON, Plan
from callsheet.machine import Status
from callsheet.runtime.doubt import RunOutcome


@dataclass(frozen=True, slots=True)
class ToolRun:
    """The run of a tool call, with the request, the progress reports, and diagnostics for the result."""

    server_context: ServerContext
    caller: ClientRequest
    run_id: str
    progress: Progress
    extent: Extent
    diagnostics: tuple[Diagnostic, ...] = ()


def plan_in(server_context: ServerContext, run_id: str) -> Plan:
    """The plan of a run of the journal."""
    journal = server_context.host.journal
    return journal.plan(journal.find_run(run_id).plan_hash)[0]


# ---------------------------------------------------------------- waiting


async def continue_run(server_context: ServerContext, caller: ClientRequest, extent: Extent) -> Answer:
    """Continue the run of an earlier result of this call, with the answers of the person."""
    state = json.loads(caller.state or "{}")
    run_id = str(state["run_id"])
    has_recorded, diagnostics = await record_answers(
        server_context.host, run_id, caller.answers, caller.client_name
    )
    run = ToolRun(
        server_context,
        caller,
        run_id,
        Progress(plan_in(server_context, run_id), int(state["told"])),
        extent,
        diagnostics,
    )
    if has_recorded:
        await resume_if_stopped(run)
        return await wait_for_run(run)
    return _reply(run, await server_context.host.outcome(run_id))


async def wait_for_run(run: ToolRun) -> Answer:
    """Wait for a run and pass its questions to the person at the client, as long as they answer."""
    async with run.progress.reporting(run.caller):
        while True:
            outcome = await _wait_until_stopped(run)
            forms = forms_of(outcome) if outcome.result is None and run.caller.supports_forms else {}
            if not forms:
                return _reply(run, outcome)
            if run.caller.has_input_required:
                requests = {name: form.request() for name, form in forms.items()}
                state = json.dumps({"run_id": run.run_id, "told": run.progress.reported})
                return InputRequiredResult(input_requests=dict(requests), request_state=state)
            results = {name: await run.caller.elicit(form) for name, form in forms.items()}
            has_recorded, diagnostics = await record_answers(
                run.server_context.host, run.run_id, results, run.caller.client_name
            )
            if not has_recorded:
                return _reply(run, await run.server_context.host.outcome(run.run_id), diagnostics)
            await resume_if_stopped(run)


async def resume_if_stopped(run: ToolRun, *, as_recorded: bool = True) -> None:
    """Resume a run, unless it is running; unless `as_recorded`, a run whose plan was edited is refused."""
    host = run.server_context.host
    if host.hosted(run.run_id) is None:
        run.progress.restart()
        options = ResumeOptions(as_recorded=as_recorded, listeners=Listeners(run.progress.note))
        await host.resume(run.run_id, options)


async def _wait_until_stopped(run: ToolRun) -> RunOutcome:
    """Wait until the run has stopped; cancelling the wait interrupts the run."""
    host = run.server_context.host
    try:
        await host.wait(run.run_id)
    except asyncio.CancelledError:
        hosted = host.hosted(run.run_id)
        if hosted is not None:
            with anyio.CancelScope(shield=True):
                await hosted.interrupt()
        raise
    return await host.outcome(run.run_id)


# ---------------------------------------------------------------- replies


def running_data(run_id: str, journal: Path) -> dict[str, Any]:
    """The data of a run that goes on, of which nothing else is looked at."""
    data = Extent().limited(outcome_json(RunOutcome(run_id, None), journal))
    return data | {"status": "running", "outcome": "running"}


def started_reply(run: ToolRun) -> Reply:
    """The reply of a call that does not wait for its run."""
    data = running_data(run.run_id, run.server_context.host.journal.path)
    data["diagnostics"] = to_json(run.diagnostics)
    text = f"run {run.run_id} is running; explain_run shows its state, cancel_run cancels it"
    return Reply(with_diagnostics(text, run.diagnostics, None), data, links=run_links(run.run_id))


def _reply(run: ToolRun, outcome: RunOutcome, further: tuple[Diagnostic, ...] = ()) -> Reply:
    """The reply with the state of a run; an error if its plan has failed."""
    diagnostics = (*run.diagnostics, *further)
    whole = outcome_json(outcome, run.server_context.host.journal.path, to_json(diagnostics))
    data = run.extent.limited(whole)
    lines = [
        *_result_lines(run, outcome, data["response"]),
        *extent_lines(run.extent, whole, data, run.run_id),
    ]
    text = "\n".join(map(without_controls, lines))
    has_failed = outcome.result is not None and outcome.result.status is not Status.DONE
    return Reply(with_diagnostics(text, diagnostics, None), data, has_failed, run_links(run.run_id))


def extent_lines(
    extent: Extent, whole: Mapping[str, Any], data: Mapping[str, Any], run_id: str
) -> Iterator[str]:
    """The variables as asked for, one a line, and what is left out."""
    variables: Mapping[str, JSON] = data["variables"] or {}
    for name, value in variables.items():
        yield f"${name} = {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    yield from left_out_lines(data, run_id)
    for name in extent.unknown(whole):
        yield f"the run has no variable ${name}"


def _result_lines(run: ToolRun, outcome: RunOutcome, response: str | None) -> Iterator[str]:
    result, hint = outcome.result, run.server_context.hint
    if result is None:
        yield from _pending_lines(run, outcome)
        return
    if response:
        yield response
    if result.status is Status.DONE:
        if result.failed_steps:
            yield failures_line(result.failed_steps)
        yield f"run {run.run_id}: {result.outcome.words}, used {outcome.usage.describe()}"
        return
    where = f" at {result.ended_at}" if result.ended_at else ""
    why = f": {result.error}" if result.error and result.error != result.response else ""
    yield f"run {run.run_id}: {result.status}{where}{why}"
    if result.objection is not None and result.objection.help is not None:
        yield f"help: {result.objection.help}"
    yield f"explain_run shows what happened; on the command line: callsheet show {run.run_id}{hint}"


def _pending_lines(run: ToolRun, outcome: RunOutcome) -> Iterator[str]:
    hint = run.server_context.hint
    if outcome.waiting:
        yield f"run {run.run_id} waits for a person:"
        yield from pending_lines(outcome, hint)
    if outcome.in_doubt:
        yield f"run {run.run_id} has calls in doubt:"
        yield from doubt_lines(outcome.in_doubt, run.run_id, hint)
    if outcome.unanswered:
        yield from unanswered_lines(outcome.unanswered, run.run_id, hint)
    if not (outcome.waiting or outcome.in_doubt or outcome.unanswered):
        yield f"run {run.run_id} was interrupted"
    answer = "answer_run records answers; then " if run.server_context.clients_may_answer else ""
    yield f"{answer}resume_run continues it"
