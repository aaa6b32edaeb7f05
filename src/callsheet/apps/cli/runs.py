"""`callsheet runs`: lists the runs of a journal, newest first."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from callsheet.apps.cli import journals
from callsheet.apps.cli.options import DECISIONS
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json
from callsheet.apps.operations.runs import (
    INTERRUPTED,
    STATUSES,
    RunRow,
    found_runs,
    plan_name,
    run_row,
    shown_status,
)
from callsheet.apps.rendering.values import preview, utc

__all__ = ["INTERRUPTED", "plan_name", "runs", "shown_status"]


class _Runs(click.Group):
    """The list of runs, with subcommands that are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand of this name, imported now."""
        place = _COMMANDS.get(cmd_name)
        return None if place is None else getattr(import_module(place[0]), place[1])


_PACKAGE = "callsheet.apps.cli"
_COMMANDS = {
    "verify": (f"{_PACKAGE}.maintenance", "verify"),
    "heads": (f"{_PACKAGE}.maintenance", "heads"),
    "prune": (f"{_PACKAGE}.maintenance", "prune"),
    "export": (f"{_PACKAGE}.transfer", "export_runs"),
    "import": (f"{_PACKAGE}.transfer", "import_runs"),
    "salvage": (f"{_PACKAGE}.transfer", "salvage"),
    "diff": (f"{_PACKAGE}.inspection", "diff_of_runs"),
}


@click.group(cls=_Runs, invoke_without_command=True)
@click.pass_context
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="The maximum number of runs."
)
@click.option("--status", type=click.Choice(STATUSES), help="Only runs with this status.")
@journals.journal_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def runs(ctx: click.Context, limit: int, status: str | None, journal: Path | None, as_json: bool) -> None:
    """List runs, newest first. A run whose process has ended is shown as interrupted.

    Subcommands verify, compare, prune, export, import and salvage runs.
    """
    if ctx.invoked_subcommand is None:
        from callsheet.apps.cli.engines.temporal_runs import refresh_copies  # noqa: PLC0415 - not for --help

        refresh_copies(journal)
        with ignoring_broken_pipe():
            _print(_rows(journal, status, limit), status, journals.journal_hint(journal), as_json=as_json)


def _rows(path: Path | None, status: str | None, limit: int) -> list[RunRow]:
    """The runs as JSON objects; none if the default journal does not exist yet."""
    from callsheet.store.journal_paths import default_journal_path, is_absent  # noqa: PLC0415 - imports the store

    if path is None and is_absent(default_journal_path()):
        return []
    with journals.open_to_read(path) as opened:
        return [run_row(opened, info, shown) for info, shown in found_runs(opened, status, limit)]


def _print(rows: list[RunRow], status: str | None, hint: str, *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("no runs" + (f" with status {status}" if status else "") + " in this journal")
    else:
        for row in rows:
            outcome = row["outcome"].replace("_", " ")
            head = f"{row['run_id']:<22} {outcome:<18} {utc(row['created'])}"
            origin = f"  (from {row['parent']} at event {row['forked_at']})" if row["parent"] else ""
            click.echo(f"{head}  {preview(row['plan'], 50)}{origin}")
            for call in row.get("in_doubt", []):
                args = ", ".join(f"{name}={preview(value, 40)}" for name, value in call["args"].items())
                click.echo(f"  in doubt since {call['since']}: {call['key']}  @{call['tool']} ({args})")
            if row.get("in_doubt", []):
                command = f"callsheet decide {row['run_id']} KEY"
                click.echo(f"  decide: {command} {DECISIONS}{hint}")
