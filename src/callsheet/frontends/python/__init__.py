"""Plans written as Python: an `async def` whose awaits are calls of tools, compiled and never executed.

Five modules to read first: `reader` has the way from a text to a plan; `source` and `syntax` ask and make
trees; `program` says what the names of a file mean; `core` is the form of a function between Python and a
plan. Then `rewrites/` say in simpler Python what a plan has no words for, `analysis/` tells what is known
of a function, `lowering/` makes `core` statements of it and of these a plan; `printing/` goes the other
way.
"""

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
