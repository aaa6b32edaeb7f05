"""`callsheet runs cancel|pause|resume|rerun|delete`: one action on all runs that fit, after consent."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, is_terminal, print_json, to_stderr
from callsheet.apps.cli.runs import conditions
from callsheet.apps.operations.bulk import (
    STILL_UNDER_WAY,
    BulkAction,
    Selection,
    Skipped,
    Target,
    bulk_row,
    reason_in,
    selected_for,
)
from callsheet.diagnostics import CallsheetError

if TYPE_CHECKING:
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunFilter

_SHOWN = 10
_assume_yes = click.option("--yes", "assume_yes", is_flag=True, help="Do not ask for confirmation.")


class _Interrupted(Exception):
    """A signal has interrupted what was done to a run; `status` is the exit status that says so."""

    def __init__(self, status: Exit) -> None:
        super().__init__("it was interrupted")
        self.status = status


def _in_bulk(
    action: BulkAction,
    wanted: RunFilter,
    journal: Path | None,
    do: Callable[[Journal, Target], str],
    *,
    assume_yes: bool,
    as_json: bool,
    first: Callable[[Journal, Target], None] | None = None,
) -> int:
    """Show the runs that an action is for, ask, and do it to each, `first` to all. Returns the exit status.

    `do` returns the id of a new run, else "", and raises CallsheetError if it could not be done. A signal
    ends it: nothing is done to the runs that are left.
    Raises click.UsageError without any condition: `--status` or another one has to say which runs are meant.
    """
    from callsheet.store.runs import ALL_RUNS  # noqa: PLC0415 - imports the store

    if wanted == ALL_RUNS:
        raise click.UsageError(f"say which runs to {action}: --status, --since, --tag or another condition")
    with journals.open_recorded(journal) as opened, ignoring_broken_pipe():
        chosen = selected_for(opened, action, wanted)
        if not as_json:
            _print_preview(action, chosen)
        if not chosen.targets or not _is_confirmed(action, chosen, assume_yes=assume_yes, as_json=as_json):
            if as_json:
                _print_result(action, chosen, [], [], [], needs=bool(chosen.targets))
            return Exit.OK if not chosen.targets else Exit.UNDECIDED
        done, failed, new = list[Target](), list[Skipped](), list[str]()
        if first is not None:
            for target in chosen.targets:
                with suppress(CallsheetError):
                    first(opened, target)
        stop: _Interrupted | None = None
        for target in chosen.targets:
            if stop is not None:
                failed.append(Skipped(target.run_id, "not begun: an earlier one was interrupted"))
                continue
            try:
                made = do(opened, target)
            except _Interrupted as error:
                stop = error
                failed.append(Skipped(target.run_id, str(error)))
            except CallsheetError as error:
                failed.append(Skipped(target.run_id, reason_in(error)))
            else:
                done.append(target)
                new += [made] if made else []
    if as_json:
        _print_result(action, chosen, done, failed, new, needs=False)
    else:
        for each in failed:
            to_stderr(f"{each.run_id}: {each.why}")
        to_stderr(f"{_PAST[action]}: {len(done):,} of {_counted(chosen.targets)}")
    return stop.status if stop is not None else Exit.FAILED if failed else Exit.OK


_PAST = {
    BulkAction.CANCEL: "cancelled",
    BulkAction.PAUSE: "paused",
    BulkAction.RESUME: "resumed",
    BulkAction.RERUN: "run again",
    BulkAction.DELETE: "deleted",
}


def _print_preview(action: BulkAction, chosen: Selection) -> None:
    counts = Counter(target.outcome.replace("_", " ") for target in chosen.targets)
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common())
    to_stderr(f"{_counted(chosen.targets)} to {action}{f': {told}' if told else ''}")
    for target in chosen.targets[:_SHOWN]:
        to_stderr(f"  {target.run_id}{f'  from {target.step}' if target.step else ''}")
    if len(chosen.targets) > _SHOWN:
        to_stderr(f"  and {len(chosen.targets) - _SHOWN:,} more")
    why = Counter(skipped.why for skipped in chosen.skipped)
    for reason, count in why.most_common():
        to_stderr(f"  {count:,} that fit are left out: {reason}")
    if chosen.more:
        to_stderr(
            f"  more runs fit: only the newest {len(chosen.targets) + len(chosen.skipped):,} are taken now"
        )


def _counted(runs: Sequence[Target]) -> str:
    return f"{len(runs):,} run{'' if len(runs) == 1 else 's'}"


def _is_confirmed(action: BulkAction, chosen: Selection, *, assume_yes: bool, as_json: bool) -> bool:
    if assume_yes:
        return True
    if as_json:
        return False
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        return click.confirm(f"{str(action).capitalize()} {_counted(chosen.targets)}?", err=True)
    to_stderr("no terminal for a confirmation: nothing was done; use --yes to continue")
    return False


def _print_result(
    action: BulkAction,
    chosen: Selection,
    done: list[Target],
    failed: list[Skipped],
    new: list[str],
    *,
    needs: bool,
) -> None:
    shown = chosen._replace(skipped=(*chosen.skipped, *failed))
    print_json({**bulk_row(action, shown, len(done), new), **({"needs": "--yes"} if needs else {})})


@click.command("cancel")
@conditions
@click.option("--reason", default="cancelled", metavar="TEXT", help="The reason, which is recorded.")
@_assume_yes
@journals.journal_path
@options.as_json
def cancel_runs(wanted: RunFilter, reason: str, assume_yes: bool, journal: Path | None, as_json: bool) -> int:
    """Cancel all runs that fit the conditions, after a preview and a confirmation.

    \b
    Example:
      callsheet runs cancel --status waiting --until 30d
    """
    from callsheet.api import run_service  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio

    def do(opened: Journal, target: Target) -> str:
        if run_async(run_service.cancel(opened, target.run_id, reason)) is None:
            raise CallsheetError.single("JRN004", "its process has not ended it yet; it still will")
        return ""

    return _in_bulk(BulkAction.CANCEL, wanted, journal, do, assume_yes=assume_yes, as_json=as_json)


@click.command("pause")
@conditions
@click.option("--reason", default="", metavar="TEXT", help="The reason, which is recorded and shown.")
@click.option("--by", metavar="NAME", help="The name of the person who pauses; default: the current user.")
@_assume_yes
@journals.journal_path
@options.as_json
def pause_runs(
    wanted: RunFilter, reason: str, by: str | None, assume_yes: bool, journal: Path | None, as_json: bool
) -> int:
    """Pause all runs that fit the conditions, after a preview and a confirmation.

    None makes a further call until a person resumes it. The exit status is 1 if some still await calls
    after ten seconds.

    \b
    Example:
      callsheet runs pause --status running --plan invoices --reason "the prices look wrong"
    """
    from callsheet.api import run_service  # noqa: PLC0415 - imports the runtime
    from callsheet.apps.cli.arguments import actor_name  # noqa: PLC0415 - as above
    from callsheet.apps.cli.event_loop import run_async  # noqa: PLC0415 - imports asyncio
    from callsheet.runtime.cancelling import PATIENCE  # noqa: PLC0415 - imports the runtime

    name, until = actor_name(by), 0.0

    def ask(opened: Journal, target: Target) -> None:
        nonlocal until
        run_async(run_service.pause(opened, target.run_id, name, reason, patience=0))
        until = time.monotonic() + PATIENCE

    def do(opened: Journal, target: Target) -> str:
        left = max(0.0, until - time.monotonic())
        if run_async(run_service.pause(opened, target.run_id, name, reason, left)) is None:
            raise CallsheetError.single("JRN004", STILL_UNDER_WAY)
        return ""

    return _in_bulk(BulkAction.PAUSE, wanted, journal, do, assume_yes=assume_yes, as_json=as_json, first=ask)


@click.command("resume")
@conditions
@_assume_yes
@journals.journal_path
@options.as_json
def resume_runs(wanted: RunFilter, assume_yes: bool, journal: Path | None, as_json: bool) -> int:
    """Let all paused runs that fit the conditions go on, one after the other.

    `callsheet resume RUN` resumes a run that was not paused.

    \b
    Example:
      callsheet runs resume --status paused --plan invoices
    """
    from callsheet.apps.cli.resume import resume  # noqa: PLC0415 - imports much

    def do(opened: Journal, target: Target) -> str:
        line = [target.run_id, "--journal", str(opened.path)]
        status, ended = _run_command(resume, line, as_json=as_json)
        if status not in (Exit.OK, Exit.UNDECIDED):
            raise CallsheetError.single("RUN022", f"it {ended}")
        return ""

    return _in_bulk(BulkAction.RESUME, wanted, journal, do, assume_yes=assume_yes, as_json=as_json)


def _run_command(command: click.Command, line: list[str], *, as_json: bool) -> tuple[int, str]:
    """Run a command for one of many runs; returns its exit status, and how it ended as words.

    With `as_json` it prints nothing, and the words have the error. Raises _Interrupted after a signal.
    """
    printed = TextIOWrapper(BytesIO())
    try:
        with redirect_stdout(printed) if as_json else nullcontext():  # one document for all
            status = int(command.main([*line, *(["--json"] if as_json else [])], standalone_mode=False) or 0)
    except click.ClickException as error:
        raise CallsheetError.single("RUN022", error.format_message()) from error
    if status in (Exit.HUNG_UP, Exit.INTERRUPTED, Exit.TERMINATED):
        raise _Interrupted(Exit(status))
    printed.seek(0)
    error = json.loads(printed.read() or "{}").get("error")
    return status, f"ended with exit status {status}{f': {error}' if error else ''}"


@click.command("delete")
@conditions
@_assume_yes
@journals.journal_path
@options.as_json
def delete_runs(wanted: RunFilter, assume_yes: bool, journal: Path | None, as_json: bool) -> int:
    """Delete all runs that fit the conditions and have ended, after a preview and a confirmation.

    `callsheet runs prune` deletes what has expired instead.

    \b
    Example:
      callsheet runs delete --tag env=test --until 7d
    """
    from callsheet.apps.hosting.recorded import delete_run  # noqa: PLC0415 - imports the runtime

    def do(opened: Journal, target: Target) -> str:
        delete_run(opened, opened.find_run(target.run_id))
        return ""

    return _in_bulk(BulkAction.DELETE, wanted, journal, do, assume_yes=assume_yes, as_json=as_json)


@click.command("rerun")
@conditions
@_assume_yes
@journals.journal_path
@options.as_json
def rerun_runs(wanted: RunFilter, assume_yes: bool, journal: Path | None, as_json: bool) -> int:
    """Run all runs that fit the conditions and have ended again, one after the other, as new runs.

    Each begins with the step it failed at and keeps the results before it, else with its first step. The
    confirmation also allows calls that change something outside.

    \b
    Example:
      callsheet runs rerun --status failed --since 1d --failed-step S3
    """
    from callsheet.apps.cli.time_travel import rerun  # noqa: PLC0415 - imports much
    from callsheet.store.journal_paths import new_run_id  # noqa: PLC0415 - imports the store

    def do(opened: Journal, target: Target) -> str:
        new = new_run_id()
        line = [target.run_id, "--from", target.step, "--run-id", new, "--yes", "--journal", str(opened.path)]
        status, ended = _run_command(rerun, line, as_json=as_json)
        if status:
            raise CallsheetError.single("RUN022", f"its new run {new} {ended}")
        return new

    return _in_bulk(BulkAction.RERUN, wanted, journal, do, assume_yes=assume_yes, as_json=as_json)
