"""`callsheet decide`: records decisions on calls in doubt in the journal; nothing is run."""

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
from callsheet.apps.wording.doubts import doubt_lines

if TYPE_CHECKING:
    from callsheet.runtime.doubt import RunOutcome


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("calls", nargs=-1, metavar=f"[CALL... {DECISIONS}]")
@click.option("--all", "all_calls", is_flag=True, help="A step stands for all of its calls in doubt.")
@journals.journal_path
@options.as_json
def decide(run: str, calls: tuple[str, ...], all_calls: bool, journal: Path | None, as_json: bool) -> int:
    """Decide what becomes of calls of RUN that left and gave no answer.

    CALL is a key as `show` prints it, or a step with one call in doubt. retry makes the call again,
    skip goes on as if it had given null, fail takes it as failed, value=JSON says what it gave. No
    tool is called and no server opened: `callsheet resume RUN` goes on. Without CALL the calls in
    doubt are listed. The exit status is 4 while something is left to decide.
    """
    from callsheet.apps.cli.engines import temporal_runs  # noqa: PLC0415 - not for --help

    if not calls:
        temporal_runs.refresh_copies(journal, run)
        return _list(run, journal, as_json=as_json)
    if len(calls) == 1:
        raise click.UsageError(f"name a call and what becomes of it: decide RUN CALL {DECISIONS}")
    verdict = ResolutionType().convert(calls[-1], None, None)
    from callsheet.runtime.doubt import decide_calls  # noqa: PLC0415 - not for --help

    if temporal_runs.runs_on_temporal(journal, run):
        outcome = temporal_runs.decide_on_temporal(journal, run, calls[:-1], verdict, all_calls=all_calls)
    else:
        with journals.open_journal(journal) as opened:
            run_id = opened.find_run(run).run_id
            outcome = decide_calls(opened, run_id, calls[:-1], verdict, every=all_calls)
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
        to_stderr("a process carries the run on; what it leaves in doubt can be decided when it has stopped")
        return Exit.OK
    return _report(outcome, journals.journal_hint(path), as_json=as_json)


def _report(outcome: RunOutcome, hint: str, *, as_json: bool) -> Exit:
    """Print where the run stands now, and give the exit status."""
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
            to_stderr(f"nothing is in doubt; continue the run: callsheet resume {outcome.run_id}{hint}")
        else:
            to_stderr(f"the run has ended: {result.status}; callsheet show {outcome.run_id}{hint}")
    return Exit.UNDECIDED if undecided else Exit.OK
