"""The documented static functions: problems as texts, the plan as a Mermaid block."""

from __future__ import annotations

from callsheet.compat import mermaid, validate
from callsheet.compat.models import LTPPlan
from callsheet.compat.rebuild import plan_of


def validate_plan(plan: LTPPlan) -> list[str]:
    """What is wrong with a plan, a text a problem; an empty list is a plan without problems."""
    return validate.validate_plan(plan_of(plan))


def plan_to_mermaid(plan: LTPPlan) -> str:
    """The plan as a fenced Mermaid flowchart."""
    return mermaid.plan_to_mermaid(plan_of(plan))
