"""The plan library: stores plans by id, with all their versions, as files in one folder."""

from callsheet.store.library.goals import GoalMatch, GoalMatches, find_by_goal, tool_differences
from callsheet.store.library.library import PlanLibrary, default_plans_folder, library_at, open_library
from callsheet.store.library.params import Param, ParamKind, bind, fitted, free_variables, read_params
from callsheet.store.library.record import Listed, StoredPlan, VersionRecord, check_plan_id, new_plan_id

__all__ = [
    "GoalMatch",
    "GoalMatches",
    "Listed",
    "Param",
    "ParamKind",
    "PlanLibrary",
    "StoredPlan",
    "VersionRecord",
    "bind",
    "check_plan_id",
    "default_plans_folder",
    "find_by_goal",
    "fitted",
    "free_variables",
    "library_at",
    "new_plan_id",
    "open_library",
    "read_params",
    "tool_differences",
]
