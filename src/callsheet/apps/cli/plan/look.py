"""`callsheet plan list` and `callsheet plan show`: what the plan library holds."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import may_stay_unread, preview, print_json, print_text, say
from callsheet.apps.cli.plan.library import as_json as plan_json
from callsheet.apps.cli.plan.library import open_library, the_id

_PIPED_COLUMNS = 100
_MOST_TITLE = 60


@click.command("list")
@options.plans_folder
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of objects.")
def list_plans(plans_folder: Path | None, as_json: bool) -> int:
    """List the plans of the library: id, spelling, number of steps, title or goal."""
    library = open_library(plans_folder)
    plans = library.list()
    with may_stay_unread():
        if as_json:
            print_json(
                [{**plan._asdict(), "path": str(plan.path), "syntax": str(plan.syntax)} for plan in plans]
            )
            return Exit.OK
        width = max((len(plan.id) for plan in plans), default=0)
        for plan in plans:
            steps = "errors" if plan.steps is None else str(plan.steps)
            said = preview(plan.title or plan.goal or "", _MOST_TITLE)
            click.echo(f"{plan.id.ljust(width)}  {plan.syntax!s:<5}  {steps:>6}  {said}".rstrip())
    if not plans:
        say(f"no plans in {library.folder}; `callsheet plan save FILE` puts one there")
    return Exit.OK


@click.command()
@the_id
@click.option("--text", "as_text", is_flag=True, help="Print the text as it is kept.")
@options.plans_folder
@options.as_json
def show(plan_id: str, as_text: bool, plans_folder: Path | None, as_json: bool) -> int:
    """Draw the plan ID, or the one that begins so; --text prints its text."""
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - not for --help

    stored = open_library(plans_folder).load(plan_id)
    with may_stay_unread():
        if as_json:
            print_json(plan_json(stored))
        elif as_text:
            click.echo(stored.text.encode("utf-8", "backslashreplace"), nl=False)
        else:
            plan = stored.require()
            on_terminal = sys.stdout.isatty()
            columns = shutil.get_terminal_size().columns if on_terminal else _PIPED_COLUMNS
            drawn = terminal_graph(plan, ansi=on_terminal and "NO_COLOR" not in os.environ, columns=columns)
            print_text(f"{stored.id}  {preview(plan.title or plan.goal or '', _MOST_TITLE)}".rstrip())
            click.echo(f"\n{drawn.rstrip()}")
            say(f"run it with: callsheet plan run {stored.id}")
    return Exit.OK
