"""`callsheet runs cancel|rerun|delete`: one action on all runs that fit, after a preview and consent."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.output import ignoring_broken_pipe, is_terminal, print_json, to_stderr
from callsheet.apps.cli.runs import conditions
from callsheet.apps.operations.bulk import (
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


def _in_bulk(
    action: BulkAction,
    wanted: RunFilter,
    journal: Path | None,
    do: Callable[[Journal, Target], str],
    *,
    assume_yes: bool,
    as_json: bool,
) -> int:
    """Show the runs that an action is for, ask, and do it to each. Returns the exit status.

    `do` returns the id of a new run, else "", and raises CallsheetError if it could not be done.
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
        for target in chosen.targets:
            try:
                made = do(opened, target)
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
    return Exit.FAILED if failed else Exit.OK


_PAST = {BulkAction.CANCEL: "cancelled", BulkAction.RERUN: "run again", BulkAction.DELETE: "deleted"}


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
        try:
            with (
                redirect_stdout(TextIOWrapper(BytesIO())) if as_json else nullcontext()
            ):  # one document for all
                status = rerun.main([*line, *(["--json"] if as_json else [])], standalone_mode=False)
        except click.ClickException as error:
            raise CallsheetError.single("RUN022", error.format_message()) from error
        if status:
            raise CallsheetError.single("RUN022", f"its new run {new} ended with exit status {int(status)}")
        return new

    return _in_bulk(BulkAction.RERUN, wanted, journal, do, assume_yes=assume_yes, as_json=as_json)
