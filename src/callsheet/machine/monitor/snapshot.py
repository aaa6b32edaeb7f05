"""Converts a monitor's labels to JSON data and back, for snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.machine.monitor.monitor import Monitor
from callsheet.machine.monitor.variable_labels import Admitted, Origins
from callsheet.policy.canon import policy_hash

_Told: TypeAlias = "tuple[Label, Origins]"


def monitor_to_json(monitor: Monitor) -> dict[str, Any]:
    """All labels of a run as JSON data; variables without label and origins are left out."""
    variables = monitor.variable_labels
    labelled = zip(variables.labels, variables.origins, strict=True)
    return {
        "slots": [
            [slot, *_to_json(item)] for slot, item in enumerate(labelled) if item[0] != LITERAL or item[1]
        ],
        "extra": {name: _to_json(item) for name, item in variables.extra.items()},
        "noted": [[number, str(label)] for number, label in monitor.implicit_flows.noted.items()],
        "presence": {name: str(label) for name, label in variables.presence.items()},
        "last": _to_json(variables.last),
        "base": str(monitor.implicit_flows.base),
        "anew": monitor.is_anew,
        **common_to_json(monitor),
    }


def put_monitor(monitor: Monitor, data: Mapping[str, Any]) -> None:
    """Restore a monitor from JSON data.

    Raises KeyError, IndexError, TypeError or ValueError if it is malformed or of a run under another policy.
    """
    put_common(monitor, data)
    noted = {number: read_label(label) for number, label in data["noted"]}
    monitor.resume_plan(read_label(data["base"]), noted, is_anew=bool(data["anew"]))
    variables = monitor.variable_labels
    count = len(variables.labels)
    variables.labels, variables.origins = [LITERAL] * count, [()] * count
    for slot, *item in data["slots"]:
        variables.labels[slot], variables.origins[slot] = _from_json(item)
    variables.extra = {name: _from_json(item) for name, item in data["extra"].items()}
    variables.presence = {name: read_label(label) for name, label in data["presence"].items()}
    variables.last = _from_json(data["last"])


def common_to_json(monitor: Monitor) -> dict[str, Any]:
    """What a monitor knows whatever its plan is: policy, calls so far, the labels of those in progress."""
    open_calls = monitor.open_calls
    return {
        "policy": policy_hash(monitor.enforcement.policy),
        "literal": str(monitor.literal),
        "calls": {key: admitted.to_json() for key, admitted in open_calls.calls.items()},
        "talks": {key: _to_json(item) for key, item in open_calls.talks.items()},
        "loops": {prefix: _to_json(item) for prefix, item in open_calls.loops.items()},
        "results": {prefix: _to_json(item) for prefix, item in open_calls.results.items()},
        **({"history": monitor.history.to_json()} if monitor.history.is_needed else {}),
    }


def put_common(monitor: Monitor, data: Mapping[str, Any]) -> None:
    """Restore what `common_to_json` gave; raises as `put_monitor`."""
    if data["policy"] != policy_hash(monitor.enforcement.policy):
        raise ValueError("it belongs to a run under another policy")
    open_calls = monitor.open_calls
    monitor.literal = read_label(data["literal"])
    open_calls.calls = {key: Admitted.from_json(item) for key, item in data["calls"].items()}
    open_calls.talks = {key: _from_json(item) for key, item in data["talks"].items()}
    open_calls.loops = {prefix: _from_json(item) for prefix, item in data["loops"].items()}
    open_calls.results = {prefix: _from_json(item) for prefix, item in data["results"].items()}
    if monitor.history.is_needed:
        monitor.history.restore(data["history"])


def _to_json(item: _Told) -> list[Any]:
    return [str(item[0]), list(item[1])]


def _from_json(data: list[Any]) -> _Told:
    label, origins = data
    return read_label(label), tuple(origins)
