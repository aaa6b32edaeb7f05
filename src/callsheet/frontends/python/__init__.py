"""Plans written as Python: an `async def` whose awaits are calls of tools, compiled and never executed."""

from callsheet.frontends.python.module import Within, functions_marked, plans_of, tools_declared
from callsheet.frontends.python.program import BINDINGS, Binding, Signature
from callsheet.frontends.python.reader import read_python

__all__ = [
    "BINDINGS",
    "Binding",
    "Signature",
    "Within",
    "functions_marked",
    "plans_of",
    "read_python",
    "tools_declared",
]
