"""Static checks of a plan, one file per pass.

In: a plan and, optionally, the tool catalogue. Out: findings and diagnostics. Pure: no pass runs a
tool, asks a model or does I/O.
"""

from callsheet.passes.finding import OPERATIONS, Finding, Operation, ToolSignature
from callsheet.passes.pipeline import PASSES, check, findings, in_words_of

__all__ = [
    "OPERATIONS",
    "PASSES",
    "Finding",
    "Operation",
    "ToolSignature",
    "check",
    "findings",
    "in_words_of",
]
