"""`callsheet why`: the lineage of a value of a run, backward or forward."""

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
"""The number of nodes that are visited for a tree, which shows the nearest ones."""
_MAX_IN_JSON = 1_000
_MAX_CALLS = 20


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("variable", metavar="VAR[.PATH]")
@click.option(
    "--forward",
    "is_forward",
    is_flag=True,
    help="Show what was derived from the value, and the calls that it reached.",
)
@click.option(
    "--depth", type=click.IntRange(1), default=6, show_default=True, help="The depth of the tree, in steps."
)
@click.option("--all", "with_all", is_flag=True, help="With --json: all nodes, not only the nearest 1,000.")
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
    """Show what a value of RUN was derived from: inputs, literals of the plan, results of tools.

    RUN is a run id, a unique prefix of one, or `last`. VAR is a variable, with its last value, or `answer`.
    PATH is a path in the value, as in plans: rows.0.amount. Of a FOREACH, only the item that the value was
    derived from is followed.

    \b
    Examples:
      callsheet why last answer
      callsheet why last orders.0.total --forward
    """
    from callsheet.apps.operations.lineages import sliced  # noqa: PLC0415 - imports the store

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
    reach = " up to this depth; increase --depth for more" if is_cut else ""
    print_text(f"\n{len(calls)} call{'' if len(calls) == 1 else 's'} received it{reach}")
    for call in calls[:_MAX_CALLS]:
        print_text(f"  {reached_line(lineage, call)}")
    if len(calls) > _MAX_CALLS:
        print_text(f"  … and {len(calls) - _MAX_CALLS} more (--json --all lists all)")
