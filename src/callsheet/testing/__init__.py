"""`callsheet.testing`: tests for plans, in memory and in virtual time.

`rehearse` runs a plan with fakes; a file of cases beside a plan does the same for `callsheet test`.
"""

from __future__ import annotations

from callsheet.lazy import names_of

TYPE_CHECKING = False  # what type checkers take as true; `typing` would cost half of the import
if TYPE_CHECKING:
    from callsheet.runtime.answers import Answer
    from callsheet.testing.case import Case, CaseFile, read_cases
    from callsheet.testing.coverage import Coverage, coverage_of
    from callsheet.testing.crashes import CrashPoint, CrashReport, crash_at_every_call
    from callsheet.testing.differences import ExpectedCall, MadeCall
    from callsheet.testing.fakes import Fake, fails, gives
    from callsheet.testing.mcp_server import serve_mcp
    from callsheet.testing.rehearsal import PosedQuestion, Rehearsal, Reply, Stage, rehearse
    from callsheet.testing.suite import CaseResult, FileResult, run_file

_PLACES = {
    "callsheet.runtime.answers": "Answer",
    "callsheet.testing.case": "Case CaseFile read_cases",
    "callsheet.testing.coverage": "Coverage coverage_of",
    "callsheet.testing.crashes": "CrashPoint CrashReport crash_at_every_call",
    "callsheet.testing.fakes": "Fake fails gives",
    "callsheet.testing.mcp_server": "serve_mcp",
    "callsheet.testing.differences": "ExpectedCall MadeCall",
    "callsheet.testing.rehearsal": "PosedQuestion Rehearsal Reply Stage rehearse",
    "callsheet.testing.suite": "CaseResult FileResult run_file",
}

__all__ = [
    "Answer",
    "Case",
    "CaseFile",
    "CaseResult",
    "Coverage",
    "CrashPoint",
    "CrashReport",
    "ExpectedCall",
    "Fake",
    "FileResult",
    "MadeCall",
    "PosedQuestion",
    "Rehearsal",
    "Reply",
    "Stage",
    "coverage_of",
    "crash_at_every_call",
    "fails",
    "gives",
    "read_cases",
    "rehearse",
    "run_file",
    "serve_mcp",
]

if not TYPE_CHECKING:  # a type checker that sees a `__getattr__` reports no misspelled name
    __getattr__ = names_of(__name__, _PLACES)
