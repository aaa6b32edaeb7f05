"""The lineage of a value of a run, backward or forward, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.values import preview

if TYPE_CHECKING:
    from callsheet.api.explaining import Explanation, RecordedCall, ValueFlow, ValuePlace

_PREVIEW = 200


def slice_json(found: Explanation) -> dict[str, Any]:
    """The slice as a JSON object."""
    flows = "flows_to" if found.is_forward else "made_of"
    data: dict[str, Any] = {
        "run_id": found.run_id,
        "variable": found.variable,
        "path": list(found.path),
        "direction": "forward" if found.is_forward else "backward",
        "more": found.is_cut,
        "nodes": [
            {**_place_json(place), flows: [{**flow_json(flow), "node": flow.place} for flow in place.flows]}
            for place in found.places
        ],
    }
    if found.is_forward:
        data["calls"] = [
            {
                "key": reached.call.key,
                "tool": reached.call.tool,
                "effect": str(reached.effect),
                "role": reached.role,
                "argument": reached.argument or None,
                **_times(reached.call),
            }
            for reached in found.calls
        ]
    return data


def flow_json(flow: ValueFlow) -> dict[str, Any]:
    """A flow of a value into another as a JSON object."""
    return {
        "role": flow.role,
        "argument": flow.argument or None,
        "item": flow.item,
        "variable": flow.variable,
        "path": list(flow.path),
    }


def _place_json(place: ValuePlace) -> dict[str, Any]:
    data: dict[str, Any] = {
        "variable": place.variable,
        "path": list(place.path),
        "preview": preview(place.value, _PREVIEW),
        "made": place.made,
        "event": place.event,
        "fits_cast": place.fits_cast,
    }
    if place.step is None:
        return data
    return {
        **data,
        "step": place.step,
        "visit": place.visit,
        "plan": place.plan,
        "item": place.item,
        "calls": [_call_json(call) for call in place.calls],
        "literals": [{"argument": name, "value": value} for name, value in place.literals],
    }


def _call_json(call: RecordedCall) -> dict[str, Any]:
    return {
        "key": call.key,
        "tool": call.tool or None,
        "item": call.item,
        "attempt": call.attempt,
        **_times(call),
    }


def _times(call: RecordedCall) -> dict[str, Any]:
    return {"left": call.left, "outcome": call.outcome, "answered": call.answered}
