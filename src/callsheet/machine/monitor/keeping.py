"""Converts a monitor's labels to JSON data and back, for snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from callsheet.ir.labels import LITERAL, Label, read_label
from callsheet.machine.monitor.admitted import Admitted, Origins
from callsheet.machine.monitor.monitor import Monitor
from callsheet.policy.canon import policy_hash

_Told: TypeAlias = "tuple[Label, Origins]"


def monitor_to_json(monitor: Monitor) -> dict[str, Any]:
    """All labels of a run as JSON data; variables without label and origins are left out."""
    standing, underway = monitor.standing, monitor.underway
    told = zip(standing.labels, standing.origins, strict=True)
    return {
        "slots": [[slot, *_told(item)] for slot, item in enumerate(told) if item[0] != LITERAL or item[1]],
        "extra": {name: _told(item) for name, item in standing.extra.items()},
        "noted": [[number, str(label)] for number, label in monitor.deciding.noted.items()],
        "presence": {name: str(label) for name, label in standing.presence.items()},
        "calls": {key: admitted.to_json() for key, admitted in underway.calls.items()},
        "talks": {key: _told(item) for key, item in underway.talks.items()},
        "loops": {prefix: _told(item) for prefix, item in underway.loops.items()},
        "results": {prefix: _told(item) for prefix, item in underway.results.items()},
        "last": _told(standing.last),
        "literal": str(monitor.literal),
        "policy": policy_hash(monitor.enforcement.policy),
        "base": str(monitor.deciding.base),
        "anew": monitor.is_anew,
    }


def put_monitor(monitor: Monitor, data: Mapping[str, Any]) -> None:
    """Restore a monitor from JSON data.

    Raises KeyError, IndexError, TypeError or ValueError if it is malformed or of a run under another policy.
    """
    if data["policy"] != policy_hash(monitor.enforcement.policy):
        raise ValueError("it is of a run under another policy")
    monitor.literal = read_label(data["literal"])
    noted = {number: read_label(label) for number, label in data["noted"]}
    monitor.resume_plan(read_label(data["base"]), noted, is_anew=bool(data["anew"]))
    standing, underway = monitor.standing, monitor.underway
    count = len(standing.labels)
    standing.labels, standing.origins = [LITERAL] * count, [()] * count
    for slot, *item in data["slots"]:
        standing.labels[slot], standing.origins[slot] = _read(item)
    standing.extra = {name: _read(item) for name, item in data["extra"].items()}
    standing.presence = {name: read_label(label) for name, label in data["presence"].items()}
    underway.calls = {key: Admitted.from_json(item) for key, item in data["calls"].items()}
    underway.talks = {key: _read(item) for key, item in data["talks"].items()}
    underway.loops = {prefix: _read(item) for prefix, item in data["loops"].items()}
    underway.results = {prefix: _read(item) for prefix, item in data["results"].items()}
    standing.last = _read(data["last"])


def _told(item: _Told) -> list[Any]:
    return [str(item[0]), list(item[1])]


def _read(data: list[Any]) -> _Told:
    label, origins = data
    return read_label(label), tuple(origins)
