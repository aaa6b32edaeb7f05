"""`callsheet graph`: draws a plan for the terminal or as Mermaid."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import print_json
from callsheet.apps.cli.terminal import columns, is_coloured
from callsheet.apps.operations.drawing import DrawingFormat, draw

_PIPED_COLUMNS = 120


@click.command()
@options.plan
@click.option(
    "--format",
    "shape",
    type=click.Choice([str(shape) for shape in DrawingFormat]),
    default="terminal",
    show_default=True,
    help="Lines for a terminal, or a Mermaid flow chart.",
)
@options.as_json
def graph(plan: options.NamedPlan, shape: str, as_json: bool) -> None:
    """Draw PLAN, a file or - for standard input. Tools are not looked at."""
    drawing = draw(plan.read(), DrawingFormat(shape), ansi=is_coloured(), columns=columns(_PIPED_COLUMNS))
    if as_json:
        print_json({"plan": drawing.text.source.name, "format": shape, "graph": drawing.drawn})
    else:
        click.echo(drawing.drawn.rstrip("\n"))
