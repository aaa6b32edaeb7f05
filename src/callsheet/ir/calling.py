"""Lists the tools that a plan calls."""

from __future__ import annotations

from callsheet.ir.operations import CallKind
from callsheet.ir.plan import Plan
from callsheet.ir.step import Call

_TOOLS = frozenset({CallKind.TOOL, CallKind.TRANSFORM, CallKind.HUMAN})


def called_names(plan: Plan) -> tuple[str, ...]:
    """The canonical names of called tools, transforms and human operations, each once, in text order."""
    calls = (step.action for step in plan.steps)
    return tuple(dict.fromkeys(c.tool for c in calls if isinstance(c, Call) and c.kind in _TOOLS))
