"""Compares two runs for the viewer: differing pairs of visits, the first of them, its consequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.ir import Plan
from callsheet.store.runs import RunInfo
from callsheet.trace.alignment import Pair, diff_runs
from callsheet.trace.lineage.lineage import NONE, Lineage, Visit
from callsheet.trace.value_differences import slower
from callsheet.views.report.document import VisitRow
from callsheet.views.report.values import NO_VALUE, Values

_MOST = 2_000
"""The maximum number of pairs; `left_out` counts the others."""


def diff_part(mine: Lineage, other: Lineage, info: RunInfo, values: Values) -> dict[str, Any]:
    """Returns the differences between the run of the report, A, and another, B."""
    diff = diff_runs(mine, other)
    first = diff.first
    return {
        "other": {"id": info.run_id, "status": str(info.status), "plan_hash": info.plan_hash},
        "alike": diff.alike,
        "inputs": [[name, values.add(a), values.add(b)] for name, (a, b) in diff.inputs.items()],
        "first": -1 if first is None else diff.differing.index(first),
        "pairs": [_pair(mine, other, pair, values) for pair in diff.differing[:_MOST]],
        "left_out": max(0, len(diff.differing) - _MOST),
    }


def seconds_of(plan: Plan, visits: Sequence[VisitRow]) -> dict[tuple[str, int], float]:
    """Returns the durations of finished visits with calls in the first plan, by step id and visit number."""
    return {
        (plan.steps[row.step].id, row.nth): row.until - row.start
        for row in visits
        if row.plan == 0 and row.calls[1] and row.end
    }


def times_part(
    mine: Mapping[tuple[str, int], float], other: Mapping[tuple[str, int], float]
) -> list[list[str | int | float]]:
    """Returns the visits with different durations, largest difference first: step, visit, seconds in A, in B.

    There is no threshold for noise; the viewer sets it.
    """
    return [[one.step, one.visit, round(one.old, 6), round(one.new, 6)] for one in slower(mine, other, 0.0)][
        :_MOST
    ]


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
