"""All operations."""

from __future__ import annotations

from typing import Any

from callsheet.apps.table.operation import Operation
from callsheet.apps.table.plans import PLAN_OPERATIONS
from callsheet.apps.table.runs import RUN_OPERATIONS
from callsheet.apps.table.texts import TEXT_OPERATIONS

OPERATIONS: tuple[Operation[Any, Any], ...] = (*TEXT_OPERATIONS, *PLAN_OPERATIONS, *RUN_OPERATIONS)
