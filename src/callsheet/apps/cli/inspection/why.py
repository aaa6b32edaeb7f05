"""`callsheet why`: what a value of a run was derived from, and what was derived from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.slices import has_more, slice_json

if TYPE_CHECKING:
    from callsheet.trace.lineage.lineage import Lineage
    from callsheet.trace.lineage.slices import Graph, Node

_MAX_NODES = 2_000
"""So many places are looked at for a tree, which shows the nearest ones."""
_MAX_IN_JSON = 1_000
_MAX_CALLS = 20


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("variable", metavar="VAR[.PATH]")
@click.option("--forward", "is_forward", is_flag=True, help="What was made of it, and the calls it reached.")
@click.option(
    "--depth", type=click.IntRange(1), default=6, show_default=True, help="So many steps back, as a tree."
)
@click.option("--all", "with_all", is_flag=True, help="With --json: all places, not the nearest 1,000 alone.")
@journals.journal_path
@options.as_json
@without_gc
def why(
    run: str,
    variable: str,
    is_forward: bool,
    depth: int,
    with_all: bool,
    journal: Path | None,
    as_json: bool,
) -> int:
    """Say what a value of RUN was made of: inputs, literals of the plan, results of tools.

    VAR is a variable as the run has it last, or `answer`; PATH is a place in its value, as plans write it:
    rows.0.amount. Of a FOREACH only the item is followed that the value was made for.
    """
    from callsheet.apps.operations.lineages import sliced  # noqa: PLC0415 - brings the store

    bounds = (None if with_all else _MAX_IN_JSON, None) if as_json else (_MAX_NODES, depth)
    with journals.open_to_read(journal) as opened:
        info = opened.find_run(run)
        lineage, start, graph = sliced(opened, info, variable, bounds, is_forward=is_forward)
    with ignoring_broken_pipe():
        if as_json:
            print_json(slice_json(info.run_id, lineage, graph, start, is_forward=is_forward))
        else:
            _print(lineage, graph, start, depth, is_forward=is_forward)
    return Exit.OK


def _print(lineage: Lineage, graph: Graph, start: Node, depth: int, *, is_forward: bool) -> None:
    from callsheet.trace.lineage.reach import reached_by  # noqa: PLC0415 - as above
    from callsheet.views.lineage import reached_line, where_lines, why_lines  # noqa: PLC0415 - as above

    lines = (where_lines if is_forward else why_lines)(lineage, graph, start, depth)
    for line in lines:
        print_text(line)
    if not is_forward:
        return
    calls = reached_by(lineage, graph)
    is_cut = any(has_more(graph, flows) for flows in graph.values())
    reach = " up to there; a greater --depth looks further" if is_cut else ""
    print_text(f"\n{len(calls)} call{'' if len(calls) == 1 else 's'} took it along{reach}")
    for call in calls[:_MAX_CALLS]:
        print_text(f"  {reached_line(lineage, call)}")
    if len(calls) > _MAX_CALLS:
        print_text(f"  … and {len(calls) - _MAX_CALLS} more (--json --all has them all)")
