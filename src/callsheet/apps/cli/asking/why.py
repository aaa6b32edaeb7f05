"""`callsheet why`: what a value of a run was made of, and what was made of it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callsheet.apps.cli import options
from callsheet.apps.cli.asking.resting import collector_rests
from callsheet.apps.cli.exits import Exit
from callsheet.apps.cli.output import may_stay_unread, preview, print_json, print_text

if TYPE_CHECKING:
    from callsheet.trace.lineage.lineage import Lineage
    from callsheet.trace.lineage.slices import Flow, Graph, Node

_PREVIEW = 200
_MOST_TOLD = 2_000
"""So many places are looked at for a tree, which shows the nearest ones."""
_MOST_IN_JSON = 1_000
_MOST_CALLS = 20


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("variable", metavar="VAR[.PATH]")
@click.option("--forward", "is_forward", is_flag=True, help="What was made of it, and the calls it reached.")
@click.option(
    "--depth", type=click.IntRange(1), default=6, show_default=True, help="So many steps back, as a tree."
)
@click.option("--all", "with_all", is_flag=True, help="With --json: all places, not the nearest 1,000 alone.")
@options.journal_path
@options.as_json
@collector_rests
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
    from callsheet.apps.cli.asking.opening import sliced  # noqa: PLC0415 - brings the store

    bounds = (None if with_all else _MOST_IN_JSON, None) if as_json else (_MOST_TOLD, depth)
    with options.open_to_read(journal) as opened:
        info = opened.find_run(run)
        lineage, start, graph = sliced(opened, info, variable, bounds, is_forward=is_forward)
    with may_stay_unread():
        if as_json:
            print_json(slice_json(info.run_id, lineage, graph, start, is_forward=is_forward))
        else:
            _print(lineage, graph, start, depth, is_forward=is_forward)
    return Exit.OK


# ---------------------------------------------------------------- for people


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
    for call in calls[:_MOST_CALLS]:
        print_text(f"  {reached_line(lineage, call)}")
    if len(calls) > _MOST_CALLS:
        print_text(f"  … and {len(calls) - _MOST_CALLS} more (--json --all has them all)")


# ---------------------------------------------------------------- for programs


def slice_json(
    run_id: str, lineage: Lineage, graph: Graph, start: Node, *, is_forward: bool
) -> dict[str, Any]:
    """The slice as a JSON object."""
    from callsheet.trace.lineage.reach import reached_by  # noqa: PLC0415 - as above

    numbers = {node: n for n, node in enumerate(graph)}
    flows = "flows_to" if is_forward else "made_of"
    told: dict[str, Any] = {
        "run_id": run_id,
        "variable": lineage.writes[start.write].name,
        "path": list(start.path),
        "direction": "forward" if is_forward else "backward",
        "more": any(has_more(numbers, of) for of in graph.values()),
        "nodes": [
            {**_node(lineage, node), flows: [_flow(flow, numbers) for flow in of]}
            for node, of in graph.items()
        ],
    }
    if is_forward:
        told["calls"] = [
            {
                "key": call.key,
                "tool": call.tool,
                "effect": str(call.effect),
                "role": str(call.role),
                "argument": call.argument or None,
                **_times(lineage, call.key),
            }
            for call in reached_by(lineage, graph)
        ]
    return told


def has_more(told: Container[Node], flows: Iterable[Flow]) -> bool:
    """Whether one of these ways leads to a place that is not told of."""
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above

    return any(flow.node.write != NONE and flow.node not in told for flow in flows)


def _node(lineage: Lineage, node: Node) -> dict[str, Any]:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.trace.lineage.slices import item_at, value_at  # noqa: PLC0415 - as above

    write = lineage.writes[node.write]
    told: dict[str, Any] = {
        "variable": write.name,
        "path": list(node.path),
        "preview": preview(value_at(lineage, node), _PREVIEW),
        "made": str(write.made),
        "event": write.seq,
        "fits_cast": not write.is_odd,
    }
    if write.visit == NONE:
        return told
    visit = lineage.visits[write.visit]
    item, _ = item_at(lineage, visit, node.path)
    keys = lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item)
    return {
        **told,
        "step": lineage.code(visit).id,
        "visit": visit.visit,
        "plan": visit.program,
        "item": item,
        "calls": [_call(lineage, key) for key in keys],
        "literals": [{"argument": name, "value": value} for name, value in lineage.reads_of(visit).literals],
    }


def _call(lineage: Lineage, key: str) -> dict[str, Any]:
    from callsheet.machine.keys import parse_key  # noqa: PLC0415 - as above
    from callsheet.trace.lineage.reach import tool_of  # noqa: PLC0415 - as above

    parts = parse_key(key)
    return {
        "key": key,
        "tool": tool_of(lineage, key) or None,
        "item": parts.index,
        "attempt": parts.attempt,
        **_times(lineage, key),
    }


def _times(lineage: Lineage, key: str) -> dict[str, Any]:
    outcome = lineage.outcomes.get(key)
    return {
        "left": lineage.left.get(key),
        "outcome": None if outcome is None else str(outcome.type),
        "answered": None if outcome is None else outcome.seq,
    }


def _flow(flow: Flow, numbers: dict[Node, int]) -> dict[str, Any]:
    return {
        "role": str(flow.role),
        "argument": flow.argument or None,
        "item": flow.item,
        "variable": flow.name,
        "path": list(flow.node.path),
        "node": numbers.get(flow.node),
    }
