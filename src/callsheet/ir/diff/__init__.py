"""Structural diff of two plans: steps added, removed, changed, moved, renamed."""

from callsheet.ir.diff.differ import Change, Node, Part, PlanDiff, StepDiff, diff_plans

__all__ = ["Change", "Node", "Part", "PlanDiff", "StepDiff", "diff_plans"]
