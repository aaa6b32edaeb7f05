"""The lineage of a value of a run, backward or forward, as a JSON object."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.trace.lineage.lineage import Lineage
    from callsheet.trace.lineage.slices import Flow, Graph, Node

_PREVIEW = 200


def slice_json(
    run_id: str, lineage: Lineage, graph: Graph, start: Node, *, is_forward: bool
) -> dict[str, Any]:
    """The slice as a JSON object."""
    from callsheet.trace.lineage.reach import reached_by  # noqa: PLC0415 - as above

    numbers = {node: n for n, node in enumerate(graph)}
    flows = "flows_to" if is_forward else "made_of"
    data: dict[str, Any] = {
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
        data["calls"] = [
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
    return data


def has_more(shown: Container[Node], flows: Iterable[Flow]) -> bool:
    """Whether one of these flows leads to a place outside `told`."""
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above

    return any(flow.node.write != NONE and flow.node not in shown for flow in flows)


def _node(lineage: Lineage, node: Node) -> dict[str, Any]:
    from callsheet.trace.lineage.lineage import NONE  # noqa: PLC0415 - as above
    from callsheet.trace.lineage.slices import item_at, value_at  # noqa: PLC0415 - as above

    write = lineage.writes[node.write]
    data: dict[str, Any] = {
        "variable": write.name,
        "path": list(node.path),
        "preview": preview(value_at(lineage, node), _PREVIEW),
        "made": str(write.made),
        "event": write.seq,
        "fits_cast": not write.is_odd,
    }
    if write.visit == NONE:
        return data
    visit = lineage.visits[write.visit]
    item, _ = item_at(lineage, visit, node.path)
    keys = lineage.keys_of(visit) if item is None else lineage.keys_of_item(visit, item)
    return {
        **data,
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
