"""The MCP tools on existing runs: explain, list, cancel, answer, delete."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from callsheet.apps.hosting.deleting import delete_run
from callsheet.apps.mcp import arguments as given
from callsheet.apps.mcp.asking import waits_for
from callsheet.apps.mcp.bench import Bench
from callsheet.apps.mcp.calling import Caller
from callsheet.apps.mcp.offering import ACTS, ENDS, LOOKS, Offer
from callsheet.apps.mcp.replies import Reply, run_links, with_findings
from callsheet.apps.operations import schemas
from callsheet.apps.operations.outcomes import outcome_json
from callsheet.apps.operations.run_details import RunDetails, run_details, run_details_json
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import found_runs, run_row
from callsheet.apps.wording.values import without_controls
from callsheet.diagnostics import CallsheetError, Diagnostic, to_json
from callsheet.machine import Decision, TookPlace, Verdict
from callsheet.runtime.answers import Answer
from callsheet.runtime.doubt import Resolution, RunOutcome


def details_of(bench: Bench, run: str) -> RunDetails:
    """The details of a run by its id, the beginning of one, or `last`; raises JournalError as `find_run`."""
    journal = bench.host.journal
    info = journal.find_run(run)
    return run_details(journal, info, journal.verify(info.run_id))


async def _explain(bench: Bench, args: given.RunGiven, caller: Caller) -> Reply:
    details = await bench.host.beside(lambda: details_of(bench, args.run_id))
    data = await asyncio.to_thread(run_details_json, details)
    text = "\n".join(map(without_controls, run_detail_lines(details, bench.hint)))
    state = bench.host.state(details.info.run_id).status
    return Reply(text, data | {"status": state}, links=run_links(details.info.run_id))


async def _list(bench: Bench, args: given.ListRunsGiven, caller: Caller) -> Reply:
    journal = bench.host.journal

    def look() -> list[dict[str, Any]]:
        found = found_runs(journal, args.status or None, args.limit)
        return [run_row(journal, info, shown) for info, shown in found]

    told = await bench.host.beside(look)
    lines = [f"{row['run_id']}  {row['status']}  {row['created'][:19]}  {row['plan']}" for row in told]
    return Reply("\n".join(map(without_controls, lines)) or "there are no such runs", {"runs": told})


async def _cancel(bench: Bench, args: given.CancelGiven, caller: Caller) -> Reply:
    info = await bench.host.beside(lambda: bench.host.journal.find_run(args.run_id))
    outcome = await bench.host.cancel(info.run_id, args.reason)
    if outcome is None:
        said = f"run {info.run_id} was asked to end and has not yet; explain_run tells when it has"
        data = outcome_json(RunOutcome(info.run_id, None), bench.host.journal.path) | {"status": "running"}
        return Reply(said, data, links=run_links(info.run_id))
    data = outcome_json(bench.host.veil.outcome(outcome), bench.host.journal.path)
    return Reply(f"run {info.run_id} has ended: {data['status']}", data, links=run_links(info.run_id))


async def _answer(bench: Bench, args: given.AnswerGiven, caller: Caller) -> Reply:
    host = bench.host
    info = await host.beside(lambda: host.journal.find_run(args.run_id))
    if args.verdict in ("retry", "skip", "fail", "took_place"):
        is_told = args.verdict == "took_place"
        verdict: Resolution = TookPlace(args.value) if is_told else Decision(args.verdict)
        await host.decide(info.run_id, [args.key], verdict)
    else:
        answer = Answer(Verdict(args.verdict), args.value, caller.name, args.note)
        await host.answer(info.run_id, answer, args.key)
    details = await host.beside(lambda: details_of(bench, info.run_id))
    outcome = RunOutcome(
        info.run_id, None, details.in_doubt, tuple(a for a in details.asks if not a.is_answered)
    )
    data = outcome_json(outcome, host.journal.path)
    left = "\n".join(waits_for(outcome, bench.hint))
    text = f"taken; resume_run carries run {info.run_id} on" + (
        f"\nit still waits for:\n{left}" if left else ""
    )
    return Reply(without_controls(text), data, links=run_links(info.run_id))


async def _delete(bench: Bench, args: given.DeleteRunsGiven, caller: Caller) -> Reply:
    host, gone, wrong = bench.host, list[str](), list[Diagnostic]()

    def delete(run_id: str) -> None:
        delete_run(host.journal, host.info(run_id))

    for run_id in dict.fromkeys(args.run_ids):
        try:
            await host.beside(partial(delete, run_id))
            gone.append(run_id)
        except CallsheetError as error:
            wrong += error.diagnostics
    text = f"deleted: {', '.join(gone)}" if gone else "no run was deleted"
    data = {"deleted": gone, "diagnostics": to_json(wrong)}
    return Reply(with_findings(text, wrong, None), data, is_error=bool(wrong))


LOOKING: tuple[Offer[Any], ...] = (
    Offer(
        "explain_run",
        "Explain a run",
        "Tell what happened in a run, from its journal: each step with its outcome and time, what it "
        "waits for, "
        "the variables, the answer or the error.",
        given.RunGiven,
        schemas.RUN_DETAILS,
        LOOKS,
        _explain,
    ),
    Offer(
        "list_runs",
        "List the runs",
        "List the runs of the journal, the newest first, with their status.",
        given.ListRunsGiven,
        schemas.table({"runs": schemas.rows(schemas.RUN_ROW)}),
        LOOKS,
        _list,
    ),
    Offer(
        "cancel_run",
        "End a run",
        "End a run for good, wherever it is: under way, waiting, interrupted. It cannot be resumed "
        "afterwards.",
        given.CancelGiven,
        schemas.OUTCOME,
        ENDS,
        _cancel,
    ),
    Offer(
        "delete_runs",
        "Delete runs",
        "Delete runs that have ended, with all that their journal knows of them. There is no way back.",
        given.DeleteRunsGiven,
        schemas.table({"deleted": schemas.rows(schemas.text()), "diagnostics": schemas.DIAGNOSTICS}),
        ENDS,
        _delete,
    ),
)
"""The tools on runs."""

ANSWERING: Offer[Any] = Offer(
    "answer_run",
    "Answer for a person",
    "Answer what a run asks a person: yes or no to a call, the answer to a question, what becomes of a "
    "call in "
    "doubt. Answer only what a person has told you to.",
    given.AnswerGiven,
    schemas.OUTCOME,
    ACTS,
    _answer,
)
"""The tool of clients that cannot ask a person with a form, where the operator allows it."""
