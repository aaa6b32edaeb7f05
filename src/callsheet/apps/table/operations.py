"""All operations."""

from __future__ import annotations

from typing import Any

from callsheet.apps.table.answers import ANSWER_OPERATIONS
from callsheet.apps.table.beginnings import BEGINNING_OPERATIONS
from callsheet.apps.table.bulk import BULK_OPERATIONS
from callsheet.apps.table.editing import EDITING_OPERATIONS
from callsheet.apps.table.operation import Operation
from callsheet.apps.table.plans import PLAN_OPERATIONS
from callsheet.apps.table.proofs import PROOF_OPERATIONS
from callsheet.apps.table.runs import RUN_OPERATIONS
from callsheet.apps.table.starts import START_OPERATIONS
from callsheet.apps.table.texts import TEXT_OPERATIONS
from callsheet.apps.table.undo import UNDO_OPERATIONS

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
