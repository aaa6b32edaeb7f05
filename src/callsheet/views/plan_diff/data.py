"""Renders the differences between two plans as JSON data; its schema is documented in `docs/cli.md`."""

from __future__ import annotations

from typing import Any

from callsheet.ir import Plan, plan_hash
from callsheet.ir.diff import Change, PlanDiff, StepDiff
from callsheet.views.plan_diff.spelling import spelled_side, spelled_step
from callsheet.views.plan_diff.text import summary_of


def plan_diff_json(diff: PlanDiff, old_name: str, new_name: str) -> dict[str, Any]:
    """Returns the difference as data: whether the plans are the same, counts, changes of the head, steps."""
    return {
        "same": diff.is_same,
        "old": _plan(diff.old, old_name),
        "new": _plan(diff.new, new_name),
        "summary": summary_of(diff),
        "head": [_change(change, diff) for change in diff.head],
        "steps": [_step(step, diff) for step in diff.different()],
    }


def _plan(plan: Plan, name: str) -> dict[str, Any]:
    return {"plan": name, "plan_hash": plan_hash(plan), "steps": len(plan.steps)}


def _step(step: StepDiff, diff: PlanDiff) -> dict[str, Any]:
    out: dict[str, Any] = {"kinds": _kinds(step)}
    if step.old is not None and step.old_index is not None:
        out["old"] = {"id": step.old.id, "number": step.old_index + 1}
        if step.is_removed:
            out["old"]["text"] = "\n".join(spelled_step(step.old))
    if step.new is not None and step.new_index is not None:
        out["new"] = {"id": step.new.id, "number": step.new_index + 1}
        if step.is_added:
            out["new"]["text"] = "\n".join(spelled_step(step.new))
    if step.changes:
        out["changes"] = [_change(change, diff) for change in step.changes]
    return out


def _kinds(step: StepDiff) -> list[str]:
    kinds = {
        "added": step.is_added,
        "removed": step.is_removed,
        "changed": bool(step.changes),
        "moved": step.moved,
        "renamed": step.is_renamed,
    }
    return [kind for kind, holds in kinds.items() if holds]


def _change(change: Change, diff: PlanDiff) -> dict[str, Any]:
    out: dict[str, Any] = {"part": str(change.part)}
    if change.name is not None:
        out["name"] = change.name
    for side, node, plan in (("old", change.old, diff.old), ("new", change.new, diff.new)):
        out[side] = "\n".join(spelled_side(change, node, plan)) or None
    return out
