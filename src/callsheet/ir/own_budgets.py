"""The budget of its own that a CALL gives a sub-plan: `CALL part (x=$v, max_tokens=20000, max_cost=0.5)`.

In: a CALL and its sub-plan. Out: the arguments that are no inputs of it, and what they allow.
"""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING

from callsheet.ir.expr import Literal

if TYPE_CHECKING:
    from callsheet.ir.expression import Expression
    from callsheet.ir.tree import Invoke, SubPlan

TOKENS, COST = "max_tokens", "max_cost"


def budget_arguments(call: Invoke, plan: SubPlan) -> dict[str, Expression]:
    """The arguments of a CALL that are its budget: an input of the sub-plan comes before them."""
    inputs = {one.name for one in plan.inputs}
    return {name: value for name, value in call.named if name in (TOKENS, COST) and name not in inputs}


def amount_of(name: str, value: Expression) -> int | float | None:
    """The amount that an argument of the budget is; None if it is no literal above 0 in a float's range."""
    found = value.value if isinstance(value, Literal) else None
    kinds = int if name == TOKENS else int | float
    if isinstance(found, bool) or not isinstance(found, kinds):
        return None
    return found if 0 < found <= float_info.max else None


def amounts_of(call: Invoke, plan: SubPlan) -> tuple[int | None, float | None] | None:
    """The tokens and the cost that a CALL allows its sub-plan, None for no limit; None if it does not say."""
    given = {name: amount_of(name, value) for name, value in budget_arguments(call, plan).items()}
    if not given:
        return None
    tokens, cost = given.get(TOKENS), given.get(COST)
    return None if tokens is None else int(tokens), None if cost is None else float(cost)
