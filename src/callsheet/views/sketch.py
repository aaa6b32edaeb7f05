"""Exports a plan as data for drawing: its steps as text, and their positions in the diagram.

In: a plan. Out: JSON data; the positions are those of the diagram of a run.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import Plan, Step, word_of
from callsheet.views.columns import printable
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_output,
    describe_value,
)
from callsheet.views.lanes import layout_of

NO_GROUP = -1


def sketch(plan: Plan) -> dict[str, Any]:
    """Returns the steps and the layout of a plan; `at` is the offset of a step in its text, or None."""
    steps = [
        {
            "id": step.id,
            "title": printable(step.title or ""),
            "tool": word_of(step.action),
            "action": describe_action(step.action),
            "guard": guard_of(step),
            "output": describe_output(step).removeprefix("> "),
            "on_fail": on_fail_of(step),
            "group": NO_GROUP if step.group is None else step.group,
            "foreach": foreach_of(step),
            "at": None if step.span is None else step.span.start,
        }
        for step in plan.steps
    ]
    return {"steps": steps, "layout": layout_json(plan)}


def layout_json(plan: Plan) -> dict[str, Any]:
    """Returns the layout: numbers of rows, columns and lanes, `places` as `[row, column]`, and `arrows`.

    An arrow is `[start, end, kind, lane]`.
    """
    layout = layout_of(plan)
    return {
        "rows": layout.rows,
        "columns": layout.columns,
        "left": layout.left,
        "right": layout.right,
        "places": [list(place) for place in layout.places],
        "arrows": [[a.start, a.end, str(a.kind), a.lane] for a in layout.arrows],
    }


def guard_of(step: Step) -> str:
    """Returns the condition of the step, or an empty string."""
    return "" if step.condition is None else describe_condition(step.condition)


def on_fail_of(step: Step) -> str:
    """Returns the failure handling of the step, or an empty string."""
    return "" if step.on_fail is None else describe_failure(step.on_fail)


def foreach_of(step: Step) -> str:
    """Returns the loop variable and source of a FOREACH, or an empty string."""
    return "" if step.foreach is None else f"${step.foreach.var} in {describe_value(step.foreach.source)}"
