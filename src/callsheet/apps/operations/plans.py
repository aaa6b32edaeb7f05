"""Plans of the library as data."""

from __future__ import annotations

from typing import Any

from callsheet.ir import plan_hash
from callsheet.store.library import Listed, StoredPlan
from callsheet.views.describe import describe_action


def listed_json(plan: Listed) -> dict[str, Any]:
    """A plan of the library as a row of a list."""
    return {
        **{"path" if name == "place" else name: value for name, value in plan._asdict().items()},
        "syntax": str(plan.syntax),
        "params": [param.to_json() for param in plan.params],
    }


def stored_json(stored: StoredPlan) -> dict[str, Any]:
    """A stored plan as JSON data."""
    plan = stored.require()
    return {
        "id": stored.id,
        "path": stored.place,
        "syntax": str(stored.syntax),
        "title": plan.title,
        "goal": stored.goal if stored.record is not None and stored.record.goal else plan.goal,
        "plan_hash": plan_hash(plan),
        **metadata_json(stored),
        "steps": [
            {
                "id": step.id,
                "title": step.title,
                "does": describe_action(step.action),
                "depends_on": None if step.depends_on is None else list(step.depends_on),
            }
            for step in plan.steps
        ],
        "text": stored.text,
    }


def metadata_json(stored: StoredPlan) -> dict[str, Any]:
    """The metadata stored with the text of a plan, as data."""
    return {
        "version": stored.version,
        "edited": stored.is_edited,
        "params": [param.to_json() for param in stored.params],
        "tools": dict(stored.tools),
        "compiled": None if stored.compiled is None else dict(stored.compiled),
    }
