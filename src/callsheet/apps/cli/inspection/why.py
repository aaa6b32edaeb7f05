"""`callsheet why`: the lineage of a value of a run, backward or forward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from callsheet.apps.cli import journals, options
from callsheet.apps.cli.exit_status import Exit
from callsheet.apps.cli.inspection.gc_control import without_gc
from callsheet.apps.cli.output import ignoring_broken_pipe, print_json, print_text
from callsheet.apps.operations.lineage import slice_json

if TYPE_CHECKING:
    from callsheet.api.explaining import Explanation

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
    from callsheet.api.explaining import explain_value  # noqa: PLC0415 - imports the store

    most, down = (None if with_all else _MAX_IN_JSON, None) if as_json else (_MAX_NODES, depth)
    with journals.open_to_read(journal) as opened:
        found = explain_value(opened, run, variable, forward=is_forward, most=most, depth=down)
    with ignoring_broken_pipe():
        if as_json:
            print_json(slice_json(found))
        else:
            _print(found, depth)
    return Exit.OK


def _print(found: Explanation, depth: int) -> None:
    from callsheet.trace.lineage.reach import reached_by  # noqa: PLC0415 - as above
    from callsheet.views.lineage import reached_line  # noqa: PLC0415 - as above

    for line in found.lines(depth):
        print_text(line)
    if not found.is_forward:
        return
    calls = reached_by(found.lineage, found.graph)
    reach = " up to this depth; increase --depth for more" if found.is_cut else ""
    print_text(f"\n{len(calls)} call{'' if len(calls) == 1 else 's'} received it{reach}")
    for call in calls[:_MAX_CALLS]:
        print_text(f"  {reached_line(found.lineage, call)}")
    if len(calls) > _MAX_CALLS:
        print_text(f"  … and {len(calls) - _MAX_CALLS} more (--json --all lists all)")
