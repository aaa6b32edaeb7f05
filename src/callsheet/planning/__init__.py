"""The documented Python API of execution plans: the same names and signatures, on this engine.

A thin layer over `callsheet.Runtime`: execution, journal and checks are the same.
"""

from callsheet.planning.context import (
    McpToolBackend,
    PlanningContext,
    ToolExecutionRequest,
    ToolExecutionResult,
    ToolStateManager,
    ValueBinding,
)
from callsheet.planning.results import (
    PlanExecutionResult,
    StepExecutionResult,
    compute_batches,
    render_plan_dag,
)
from callsheet.planning.runner import PlanRunner, get_plan_tools_as_dicts, handle_plan_tool

__all__ = [
    "McpToolBackend",
    "PlanExecutionResult",
    "PlanRunner",
    "PlanningContext",
    "StepExecutionResult",
    "ToolExecutionRequest",
    "ToolExecutionResult",
    "ToolStateManager",
    "ValueBinding",
    "compute_batches",
    "get_plan_tools_as_dicts",
    "handle_plan_tool",
    "render_plan_dag",
]
