"""Runs pure Python code in workers without files, network or clock (the extra `callsheet[python]`)."""

from callsheet.ports.python_code.interpreter import (
    CodeLimits,
    LimitReached,
    NotUnderstood,
    Outcome,
    Outputs,
    PythonCode,
    Raised,
    WorkerDied,
    interpreter_version,
)
from callsheet.ports.python_code.values import Kept, NotAValue

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
