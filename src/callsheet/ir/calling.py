"""Which tools a plan calls, by their canonical names."""

from __future__ import annotations

from callsheet.ir.operations import CallKind
from callsheet.ir.plan import Plan
from callsheet.ir.step import Call

_TOOLS = frozenset({CallKind.TOOL, CallKind.TRANSFORM, CallKind.HUMAN})


def called_names(plan: Plan) -> tuple[str, ...]:
    """The tools and transforms that a plan calls, each once, in the order of the text."""
    calls = (step.action for step in plan.steps)
    return tuple(dict.fromkeys(c.tool for c in calls if isinstance(c, Call) and c.kind in _TOOLS))
