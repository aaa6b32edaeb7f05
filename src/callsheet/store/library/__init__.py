"""The plan library: plans as files of one folder, each under its id, written whole or not at all."""

from callsheet.store.library.ids import check_plan_id, new_plan_id
from callsheet.store.library.shelf import Listed, PlanLibrary, StoredPlan, default_plans_folder

__all__ = [
    "Listed",
    "PlanLibrary",
    "StoredPlan",
    "check_plan_id",
    "default_plans_folder",
    "new_plan_id",
]
