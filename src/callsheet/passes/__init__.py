"""IR → findings: what can be said about a plan before it runs, one file a pass.

In: a plan, and if there is one the catalogue of tools. Out: diagnostics. Nothing here runs,
asks a model or looks at the world.
"""

from callsheet.passes.finding import Finding
from callsheet.passes.pipeline import PASSES, check, findings
from callsheet.passes.signatures import OPERATIONS, Operation, ToolSignature

__all__ = ["OPERATIONS", "PASSES", "Finding", "Operation", "ToolSignature", "check", "findings"]
