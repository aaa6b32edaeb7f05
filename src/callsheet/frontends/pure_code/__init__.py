"""Pure Python code: what it may say, and how it is lowered to what its executor understands."""

from callsheet.frontends.pure_code.helpers import NOT_A_VALUE, RAISED
from callsheet.frontends.pure_code.lowering import Inputs, Lowered, lowered
from callsheet.frontends.pure_code.program import (
    CodeRefused,
    Fragment,
    Place,
    PureProgram,
    is_pure,
    pure_program,
)
from callsheet.frontends.pure_code.refusals import Refusal, RefusalKind, refusals

__all__ = [
    "NOT_A_VALUE",
    "RAISED",
    "CodeRefused",
    "Fragment",
    "Inputs",
    "Lowered",
    "Place",
    "PureProgram",
    "Refusal",
    "RefusalKind",
    "is_pure",
    "lowered",
    "pure_program",
    "refusals",
]
