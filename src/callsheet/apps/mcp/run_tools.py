"""The MCP tools on existing runs: explain, list, cancel, answer, delete."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from callsheet.apps.hosting.recorded import delete_run
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.client_request import ClientRequest
from callsheet.apps.mcp.elicitation import pending_lines
from callsheet.apps.mcp.extent import Extent, cut_text
from callsheet.apps.mcp.replies import Reply, run_links, with_diagnostics, with_left_out
from callsheet.apps.mcp.server_context import ServerContext
from callsheet.apps.mcp.tool import DESTRUCTIVE, DESTRUCTIVE_IDEMPOTENT, READ_ONLY, ToolDefinition
from callsheet.apps.mcp.waiting import extent_lines, running_data
from callsheet.apps.operations import json_schema, schemas
from callsheet.apps.operations.outcomes import outcome_json
from callsheet.apps.operations.run_details import RunDetails, run_details, run_details_json
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import found_runs, run_row
from callsheet.apps.rendering.values import utc, without_controls
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.machine import Decision, TookPlace, Verdict
from callsheet.runtime.answers import Answer
from callsheet.runtime.doubt import Resolution, unfinished


def details_of(server_context: ServerContext, run: str) -> RunDetails:
    """The details of a run by its id, the beginning of one, or `last`; raises JournalError as `find_run`."""
    journal = server_context.host.journal
    info = journal.find_run(run)
    return run_details(journal, info, journal.verify(info.run_id))


async def _explain(
    server_context: ServerContext, args: given.ExplainArguments, caller: ClientRequest
) -> Reply:
    details = await server_context.host.beside(lambda: details_of(server_context, args.run_id))
    data = await asyncio.to_thread(run_details_json, details)
    run_id, extent = details.info.run_id, Extent.of(args.show_variables, args.from_character)
    shown = extent.limited(data)
    if args.from_character:
        lines = [] if args.show_variables else [shown["response"] or ""]
    else:
        lines = [cut_text("\n".join(run_detail_lines(details, server_context.hint)), run_id)]
    lines += extent_lines(extent, data, shown, run_id)
    text = "\n".join(map(without_controls, "\n".join(lines).split("\n")))
    state = server_context.host.state(details.info.run_id).status
    outcome = details.outcome if state == details.status else state
    return Reply(text, shown | {"status": state, "outcome": outcome}, links=run_links(details.info.run_id))


async def _list(server_context: ServerContext, args: given.ListRunsArguments, caller: ClientRequest) -> Reply:
    journal = server_context.host.journal

    def look() -> list[dict[str, Any]]:
        found = found_runs(journal, args.status or None, args.limit)
        return [run_row(journal, info, shown) for info, shown in found]

    rows = await server_context.host.beside(look)
    lines = [
        f"{row['run_id']}  {row['outcome'].replace('_', ' ')}  {utc(row['created'])}  {row['plan']}"
        for row in rows
    ]
    return Reply("\n".join(map(without_controls, lines)) or "there are no such runs", {"runs": rows})


async def _cancel(server_context: ServerContext, args: given.CancelArguments, caller: ClientRequest) -> Reply:
    info = await server_context.host.beside(lambda: server_context.host.journal.find_run(args.run_id))
    outcome = await server_context.host.cancel(info.run_id, args.reason)
    if outcome is None:
        text = f"run {info.run_id} was requested to end and has not ended yet; explain_run shows its status"
        data = running_data(info.run_id, server_context.host.journal.path)
        return Reply(text, data, links=run_links(info.run_id))
    whole = outcome_json(server_context.host.masker.outcome(outcome), server_context.host.journal.path)
    data = Extent().limited(whole)
    return Reply(f"run {info.run_id} has ended: {data['status']}", data, links=run_links(info.run_id))


async def _answer(server_context: ServerContext, args: given.AnswerArguments, caller: ClientRequest) -> Reply:
    host = server_context.host
    info = await host.beside(lambda: host.journal.find_run(args.run_id))
    if args.verdict in ("retry", "skip", "fail", "took_place"):
        took_place = args.verdict == "took_place"
        verdict: Resolution = TookPlace(args.value) if took_place else Decision(args.verdict)
        await host.decide(info.run_id, [args.key], verdict)
    else:
        answer = Answer(Verdict(args.verdict), args.value, caller.client_name, args.note)
        await host.answer(info.run_id, answer, args.key)
    details = await host.beside(lambda: details_of(server_context, info.run_id))
    asks = tuple(ask for ask in details.asks if not ask.is_answered)
    outcome = host.masker.outcome(unfinished(info.run_id, details.account.folded, details.in_doubt, asks))
    data = Extent().limited(outcome_json(outcome, host.journal.path))
    still_open = "\n".join(pending_lines(outcome, server_context.hint))
    text = f"recorded; resume_run continues run {info.run_id}" + (
        f"\nit still waits for:\n{still_open}" if still_open else ""
    )
    return Reply(without_controls(text), data, links=run_links(info.run_id))


async def _delete(
    server_context: ServerContext, args: given.DeleteRunsArguments, caller: ClientRequest
) -> Reply:
    host, deleted, errors = server_context.host, list[str](), list[Diagnostic]()

    def delete(run_id: str) -> None:
        delete_run(host.journal, host.info(run_id))

    for run_id in dict.fromkeys(args.run_ids):
        try:
            await host.beside(partial(delete, run_id))
            deleted.append(run_id)
        except CallsheetError as error:
            errors += error.diagnostics
    text = f"deleted: {', '.join(deleted)}" if deleted else "no run was deleted"
    data = {"deleted": deleted, "diagnostics": to_json(errors)}
    return Reply(with_diagnostics(text, errors, None), data, is_error=bool(errors))


RUN_TOOLS: tuple[ToolDefinition[Any], ...] = (
    ToolDefinition(
        "explain_run",
        "Explain a run",
        "Report what happened in a run, from its journal: each step with its outcome and duration, open "
        "questions, the answer or the error, and the variables that are asked for.",
        given.ExplainArguments,
        with_left_out(schemas.RUN_DETAILS),
        READ_ONLY,
        _explain,
    ),
    ToolDefinition(
        "list_runs",
        "List the runs",
        "List the runs of the journal, the newest first, with their status.",
        given.ListRunsArguments,
        json_schema.table({"runs": json_schema.rows(schemas.RUN_ROW)}),
        READ_ONLY,
        _list,
    ),
    ToolDefinition(
        "cancel_run",
        "Cancel a run",
        "Cancel a run, whether it is running, waiting or interrupted. It cannot be resumed afterwards.",
        given.CancelArguments,
        with_left_out(schemas.OUTCOME),
        DESTRUCTIVE_IDEMPOTENT,
        _cancel,
    ),
    ToolDefinition(
        "delete_runs",
        "Delete runs",
        "Delete runs that have ended, with all their events. This cannot be undone.",
        given.DeleteRunsArguments,
        json_schema.table(
            {"deleted": json_schema.rows(json_schema.text()), "diagnostics": schemas.DIAGNOSTICS}
        ),
        DESTRUCTIVE_IDEMPOTENT,
        _delete,
    ),
)
"""The tools on runs."""

ANSWER_TOOL: ToolDefinition[Any] = ToolDefinition(
    "answer_run",
    "Answer for a person",
    "Answer an open question of a run for a person: approve or deny a call, answer a question, or resolve a "
    "call in doubt. Give only answers that a person has told you.",
    given.AnswerArguments,
    with_left_out(schemas.OUTCOME),
    DESTRUCTIVE,
    _answer,
)
"""The tool for clients without forms, if the operator allows it."""
