"""The words for everything that can be wrong: spans, sources, codes, diagnostics, renderers.

The lowest layer: it knows text and positions, nothing of plans or tools.
"""

from callsheet.diagnostics.codes import CODES, Code, explain
from callsheet.diagnostics.diagnostic import (
    CallsheetError,
    Diagnostic,
    Edit,
    Fix,
    Position,
    Severity,
    Source,
    Span,
    WordFix,
    did_you_mean,
    fix_to_json,
    fixes_of,
    from_json,
    meant,
    render,
    render_all,
    to_json,
)

__all__ = [
    "CODES",
    "CallsheetError",
    "Code",
    "Diagnostic",
    "Edit",
    "Fix",
    "Position",
    "Severity",
    "Source",
    "Span",
    "WordFix",
    "did_you_mean",
    "explain",
    "fix_to_json",
    "fixes_of",
    "from_json",
    "meant",
    "render",
    "render_all",
    "to_json",
]
