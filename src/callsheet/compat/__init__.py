"""The documented Python API of the plan language: the same names, signatures and return values.

A thin layer: everything here uses the same parser, machine and driver as the rest.
"""

from callsheet.compat.models import LTPCondition, LTPParser, LTPPlan, LTPStep
from callsheet.compat.policy import PlanPolicy, PlanVerdict, Violation, verify_plan
from callsheet.compat.runtime import LTPCompiler, LTPRuntime
from callsheet.compat.static import plan_to_mermaid, validate_plan

__all__ = [
    "LTPCompiler",
    "LTPCondition",
    "LTPParser",
    "LTPPlan",
    "LTPRuntime",
    "LTPStep",
    "PlanPolicy",
    "PlanVerdict",
    "Violation",
    "plan_to_mermaid",
    "validate_plan",
    "verify_plan",
]
