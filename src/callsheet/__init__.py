"""callsheet: plans of tool calls, checked before they run, run crash-safe, explained afterwards.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # what type checkers take as true; `typing` would cost half of the import
if TYPE_CHECKING:
    from callsheet.diagnostics import CallsheetError, Diagnostic
    from callsheet.frontends.ltp import ParseResult, format_plan, parse
    from callsheet.frontends.spelling import read_plan_text
    from callsheet.ir import Effect, Plan
    from callsheet.ir.diff import diff_plans
    from callsheet.machine import Limits, Result
    from callsheet.passes import check
    from callsheet.ports.python_tools import tool
    from callsheet.ports.tools import CallContext

__version__ = "0.1.0.dev0"

_PLACES = {
    "CallContext": "callsheet.ports.tools",
    "CallsheetError": "callsheet.diagnostics",
    "Diagnostic": "callsheet.diagnostics",
    "Effect": "callsheet.ir",
    "Limits": "callsheet.machine",
    "ParseResult": "callsheet.frontends.ltp",
    "Plan": "callsheet.ir",
    "Result": "callsheet.machine",
    "check": "callsheet.passes",
    "diff_plans": "callsheet.ir.diff",
    "format_plan": "callsheet.frontends.ltp",
    "parse": "callsheet.frontends.ltp",
    "read_plan_text": "callsheet.frontends.spelling",
    "tool": "callsheet.ports.python_tools",
}

__all__ = [
    "CallContext",
    "CallsheetError",
    "Diagnostic",
    "Effect",
    "Limits",
    "ParseResult",
    "Plan",
    "Result",
    "check",
    "diff_plans",
    "format_plan",
    "parse",
    "read_plan_text",
    "tool",
]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'callsheet' has no attribute {name!r}")
    value = getattr(import_module(place), name)
    globals()[name] = value
    return value
