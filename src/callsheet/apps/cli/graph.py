"""`callsheet graph`: draws a plan for the terminal or as Mermaid."""

from __future__ import annotations

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.output import print_json
from callsheet.apps.cli.terminal import columns, is_coloured
from callsheet.apps.operations.texts import DrawingFormat, draw

_PIPED_COLUMNS = 120


@click.command()
@options.plan
@click.option(
    "--format",
    "shape",
    type=click.Choice([str(shape) for shape in DrawingFormat]),
    default="terminal",
    show_default=True,
    help="The output format: text for a terminal, a Mermaid flow chart, or the layout as JSON.",
)
@options.as_json
def graph(plan: options.NamedPlan, shape: str, as_json: bool) -> None:
    """Draw PLAN as a graph.

    PLAN is a file, - for standard input, or a plan of the library: its id, or ID@N for version N. Tools are
    not checked.

    \b
    Examples:
      callsheet graph plan.ltp
      callsheet graph plan.ltp --format mermaid > plan.mmd
    """
    drawing = draw(plan.read(), DrawingFormat(shape), ansi=is_coloured(), columns=columns(_PIPED_COLUMNS))
    drawn = drawing.drawn if drawing.graph is None else drawing.graph
    if as_json:
        print_json({"plan": drawing.text.source.name, "format": shape, "graph": drawn})
    elif drawing.graph is not None:
        print_json(drawing.graph)
    else:
        click.echo(drawing.drawn.rstrip("\n"))
