"""Runs pure Python code in workers without files, network or clock (the extra `callsheet[python]`)."""

from callsheet.ports.python_code.interpreter import (
    CodeLimits,
    Kept,
    LimitReached,
    NotAValue,
    NotUnderstood,
    Outcome,
    Outputs,
    PythonCode,
    Raised,
    WorkerDied,
    interpreter_version,
)

__all__ = [
    "CodeLimits",
    "Kept",
    "LimitReached",
    "NotAValue",
    "NotUnderstood",
    "Outcome",
    "Outputs",
    "PythonCode",
    "Raised",
    "WorkerDied",
    "interpreter_version",
]
