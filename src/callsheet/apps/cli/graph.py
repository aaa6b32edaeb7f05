"""`callsheet graph`: a plan as a picture, for the terminal or as Mermaid."""

from __future__ import annotations

import os
import shutil
import sys

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import print_json
from callsheet.ir import Plan

_PIPED_COLUMNS = 120


@click.command()
@options.plan
@click.option(
    "--format",
    "shape",
    type=click.Choice(["terminal", "mermaid"]),
    default="terminal",
    show_default=True,
    help="Lines for a terminal, or a Mermaid flow chart.",
)
@options.as_json
def graph(plan: options.NamedPlan, shape: str, as_json: bool) -> None:
    """Draw PLAN, a file or - for standard input. Tools are not looked at."""
    text = plan.read()
    drawn = _terminal(text.require()) if shape == "terminal" else _mermaid(text.require())
    if as_json:
        print_json({"plan": text.source.name, "format": shape, "graph": drawn})
    else:
        click.echo(drawn.rstrip("\n"))


def _terminal(plan: Plan) -> str:
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - one of two

    on_terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if on_terminal else _PIPED_COLUMNS
    return terminal_graph(plan, ansi=on_terminal and "NO_COLOR" not in os.environ, columns=columns)


def _mermaid(plan: Plan) -> str:
    from callsheet.views.mermaid import mermaid  # noqa: PLC0415 - one of two

    return mermaid(plan)
