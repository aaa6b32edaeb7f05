"""Static checks of a plan, one file per pass.

In: a plan and, optionally, the tool catalogue. Out: findings and diagnostics. Pure: no pass runs a
tool, asks a model or does I/O.
"""

from callsheet.passes.finding import Finding
from callsheet.passes.pipeline import PASSES, check, findings
from callsheet.passes.signatures import OPERATIONS, Operation, ToolSignature

__all__ = ["OPERATIONS", "PASSES", "Finding", "Operation", "ToolSignature", "check", "findings"]
