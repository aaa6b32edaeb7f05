"""Structural diff of two plans: steps added, removed, changed, moved, renamed."""

from callsheet.ir.diff.differ import diff_plans
from callsheet.ir.diff.result import Change, Node, Part, PlanDiff, StepDiff

__all__ = ["Change", "Node", "Part", "PlanDiff", "StepDiff", "diff_plans"]
