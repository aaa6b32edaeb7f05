"""All operations."""

from __future__ import annotations

from typing import Any

from callsheet.apps.table.answers import ANSWER_OPERATIONS
from callsheet.apps.table.bulk import BULK_OPERATIONS
from callsheet.apps.table.operation import Operation
from callsheet.apps.table.plans import PLAN_OPERATIONS
from callsheet.apps.table.proofs import PROOF_OPERATIONS
from callsheet.apps.table.runs import RUN_OPERATIONS, UNDO_OPERATIONS
from callsheet.apps.table.starts import BEGINNING_OPERATIONS, START_OPERATIONS
from callsheet.apps.table.texts import EDITING_OPERATIONS, TEXT_OPERATIONS

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    *TEXT_OPERATIONS,
    *EDITING_OPERATIONS,
    *PROOF_OPERATIONS,
    *PLAN_OPERATIONS,
    *START_OPERATIONS,
    *BEGINNING_OPERATIONS,
    *UNDO_OPERATIONS,
    *ANSWER_OPERATIONS,
    *RUN_OPERATIONS,
    *BULK_OPERATIONS,
)
