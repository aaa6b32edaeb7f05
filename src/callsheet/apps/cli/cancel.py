"""`callsheet cancel`: cancels a run, in the process that executes it if there is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.options import FiniteRange
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, to_stderr

if TYPE_CHECKING:
    from callsheet.runtime.doubt import RunOutcome


@click.command()
@click.argument("run", metavar="RUN")
@click.option(
    "--reason", default="cancelled", metavar="TEXT", help="The reason, which is recorded in the journal."
)
@click.option(
    "--patience",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the process that executes the run.",
)
@journals.journal_path
@options.as_json
def cancel(run: str, reason: str, patience: float, journal: Path | None, as_json: bool) -> int:
    """Cancel RUN: its status becomes `cancelled`, and no further call is made.

    RUN is a run id, a unique prefix of one, or `last`. It may be running, waiting for people, in doubt or
    interrupted. If it is running, its process stops the pending calls and ends the run, usually within a
    second. Completed calls are not undone. Calls that were sent without an answer are listed, since they may
    have taken place.

    The exit status is 1 if the process has not ended the run within --patience. It still will, or the next
    `callsheet resume` does. A run on Temporal needs a worker to be cancelled; the server keeps the request.
    """
    from callsheet.api import run_service  # noqa: PLC0415
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - imports the store
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio, as below

    on_server = temporal_runs.runs_on_temporal(journal, run)
    if on_server:
        outcome, run_id = temporal_runs.cancel_on_temporal(journal, run, reason, patience)
    else:
        with journals.open_recorded(journal) as opened:
            run_id = opened.find_run(run).run_id
            outcome = run_async(run_service.cancel(opened, run_id, reason, patience))
    hint = journals.journal_hint(journal)
    with ignoring_broken_pipe():
        return _report(run_id, outcome, hint, as_json=as_json, on_server=on_server)


def _report(run_id: str, outcome: RunOutcome | None, hint: str, *, as_json: bool, on_server: bool) -> Exit:
    """Print the outcome and return the exit status; `on_server` says that the run is on Temporal."""
    from callsheet.apps.operations.runs import doubts_json  # noqa: PLC0415 - as above
    from callsheet.apps.rendering.runs import pending_call_lines  # noqa: PLC0415 - imports the runtime
    from callsheet.machine import Status  # noqa: PLC0415 - as above

    result = None if outcome is None else outcome.result
    is_cancelled = result is not None and result.status is Status.CANCELLED
    left = () if outcome is None else outcome.in_doubt
    if as_json:
        status = "asked" if result is None else str(result.status)
        print_json(doubts_json(run_id, status, left))
    elif result is None and on_server:
        to_stderr(
            "the request is on the Temporal server, and no worker has carried it out yet: the run is"
            f" cancelled as soon as one runs (callsheet worker); then: callsheet show {run_id}{hint}"
        )
    elif result is None:
        to_stderr(
            "the process that executes the run was asked to cancel it and has not done so yet;"
            f" if that process ends first, run: callsheet resume {run_id}{hint}"
        )
    elif not is_cancelled:
        to_stderr(f"the run ended before it could be cancelled: {result.status}")
    else:
        for line in pending_call_lines(left):
            to_stderr(line)
        why = "" if result.error == str(result.status) else f": {result.error}"
        to_stderr(f"the run is cancelled{why}; callsheet show {run_id}{hint}")
    return Exit.OK if is_cancelled else Exit.FAILED
