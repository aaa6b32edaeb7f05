"""Two runs side by side for the viewer: pairs of visits that differ, the first of them, what follows."""

from __future__ import annotations

from typing import Any

from callsheet.store.reader import RunInfo
from callsheet.trace.aligned import Pair, diff_runs
from callsheet.trace.lineage.lineage import NONE, Lineage, Visit
from callsheet.views.report.values import NO_VALUE, Values

_MOST = 2_000
"""So many pairs are told; `left_out` counts the others."""


def diff_part(mine: Lineage, other: Lineage, info: RunInfo, values: Values) -> dict[str, Any]:
    """What differs between the run of the report, A, and another, B."""
    found = diff_runs(mine, other)
    first = found.first
    return {
        "other": {"id": info.run_id, "status": str(info.status), "plan_hash": info.plan_hash},
        "alike": found.alike,
        "inputs": [[name, values.add(a), values.add(b)] for name, (a, b) in found.inputs.items()],
        "first": -1 if first is None else found.differing.index(first),
        "pairs": [_pair(mine, other, pair, values) for pair in found.differing[:_MOST]],
        "left_out": max(0, len(found.differing) - _MOST),
    }


def _pair(mine: Lineage, other: Lineage, pair: Pair, values: Values) -> dict[str, Any]:
    return {
        "what": list(pair.what),
        "follows": pair.follows,
        "a": _side(mine, pair.old, values),
        "b": _side(other, pair.new, values),
    }


def _side(lineage: Lineage, visit: Visit | None, values: Values) -> dict[str, Any] | None:
    if visit is None:
        return None
    written = lineage.write_of.get(visit.id, NONE)
    keys = lineage.last_keys(visit)
    failure = next((f.error for f in lineage.failures if f.visit == visit.id), "")
    return {
        "visit": visit.id,
        "label": lineage.label(visit),
        "seq": visit.seq,
        "tool": lineage.code(visit).tool or "",
        "skipped": visit.skipped,
        "args": _arguments(lineage, keys[0], values) if len(keys) == 1 else NO_VALUE,
        "value": NO_VALUE if written == NONE else values.add(lineage.writes[written].value),
        "error": values.add_text(failure),
    }


def _arguments(lineage: Lineage, key: str, values: Values) -> int:
    args = getattr(lineage.commands.get(key), "args", None)
    return NO_VALUE if args is None else values.add(args)
