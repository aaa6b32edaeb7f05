"""`callsheet decide`: records decisions about calls in doubt in the journal. Nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text, to_stderr
from callsheet.apps.cli.resolutions import DECISIONS, ResolutionType
from callsheet.apps.cli.runs import shown_status
from callsheet.apps.operations.outcomes import doubt_json
from callsheet.apps.rendering.in_doubt import doubt_lines

if TYPE_CHECKING:
    from callsheet.runtime.doubt import RunOutcome


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("calls", nargs=-1, metavar=f"[CALL... {DECISIONS}]")
@click.option("--all", "all_calls", is_flag=True, help="Apply the decision to all calls in doubt of a step.")
@journals.journal_path
@options.as_json
def decide(run: str, calls: tuple[str, ...], all_calls: bool, journal: Path | None, as_json: bool) -> int:
    """Decide about calls of RUN that are in doubt: sent, but without a recorded answer.

    RUN is a run id, a unique prefix of one, or `last`. CALL is a key as `callsheet show` prints it, or a step
    with one call in doubt. Without CALL the calls in doubt are listed.

    \b
    retry       make the call again
    skip        continue as if the call had returned null
    fail        treat the call as failed
    value=JSON  continue with this result of the call

    No tool is called and no server is started: `callsheet resume RUN` continues the run. The exit status is 4
    as long as calls are undecided.

    \b
    Examples:
      callsheet decide last
      callsheet decide last S3 retry
      callsheet decide last S3.0.1 'value={"id": 7}'
    """
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - not for --help

    if not calls:
        temporal_runs.refresh_copies(journal, run)
        return _list(run, journal, as_json=as_json)
    if len(calls) == 1:
        raise click.UsageError(f"give a call and a decision: decide RUN CALL {DECISIONS}")
    verdict = ResolutionType().convert(calls[-1], None, None)
    if temporal_runs.runs_on_temporal(journal, run):
        outcome = temporal_runs.decide_on_temporal(journal, run, calls[:-1], verdict, all_calls=all_calls)
    else:
        from callsheet.api import run_service  # noqa: PLC0415 - not for --help
        from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - as above

        with journals.open_journal(journal) as opened:
            run_id = opened.find_run(run).run_id
            outcome = run_async(run_service.decide(opened, run_id, calls[:-1], verdict, every=all_calls))
    return _report(outcome, journals.journal_hint(journal), as_json=as_json)


def _list(run: str, path: Path | None, *, as_json: bool) -> Exit:
    from callsheet.runtime.doubt import RunOutcome, doubtful_calls, fold_run  # noqa: PLC0415 - as above

    with journals.open_to_read(path) as opened:
        info = opened.find_run(run)
        status = shown_status(opened, info)
        folded = fold_run(opened, info.run_id, opened.plan_of(info.plan_hash))
        waits = folded.machine.result is None and status != "running"
        outcome = RunOutcome(info.run_id, folded.machine.result, doubtful_calls(folded) if waits else ())
    if status == "running" and not as_json:
        to_stderr(
            "a process executes the run; calls that it leaves in doubt can be decided after it has stopped"
        )
        return Exit.OK
    return _report(outcome, journals.journal_hint(path), as_json=as_json)


def _report(outcome: RunOutcome, hint: str, *, as_json: bool) -> Exit:
    """Print the status of the run and return the exit status."""
    result, undecided = outcome.result, outcome.in_doubt
    with ignoring_broken_pipe():
        if as_json:
            status = "in_doubt" if undecided else "interrupted" if result is None else str(result.status)
            print_json(
                {"run_id": outcome.run_id, "status": status, "in_doubt": [doubt_json(c) for c in undecided]}
            )
        elif undecided:
            for line in doubt_lines(undecided, outcome.run_id, hint):
                print_text(line)
        elif result is None:
            to_stderr(f"no call is in doubt; continue the run: callsheet resume {outcome.run_id}{hint}")
        else:
            to_stderr(f"the run has ended: {result.status}; callsheet show {outcome.run_id}{hint}")
    return Exit.UNDECIDED if undecided else Exit.OK
