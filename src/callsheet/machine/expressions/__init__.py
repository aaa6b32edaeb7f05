"""What expressions of version 2 mean: CPython's values and errors on JSON, dates and durations.

`compile_expression` makes a function of the variables' slots; it raises `ExpressionFailed` alone.
"""

from callsheet.machine.expressions.evaluation import Compiled, compile_expression
from callsheet.machine.expressions.values import Environment, ExpressionFailed, FailureKind

__all__ = ["Compiled", "Environment", "ExpressionFailed", "FailureKind", "compile_expression"]
