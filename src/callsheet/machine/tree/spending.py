"""What sub-plans with a budget of their own have spent, and when they may make no further call.

All that is spent inside of one counts, also by agents and in sub-plans that it calls. FINALLY blocks and what
ON_FAIL UNDO takes back are carried out whatever is left. Nothing here depends on anything but the events so
far, so a replay refuses the same calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from callsheet.ir.failing import Failing
from callsheet.machine.keys import segment
from callsheet.machine.tree.activations import Activation
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import GuardOp, InvokeOp
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.tree.execution import Execution


def enter(tree: Execution, act: Activation, op: InvokeOp, inner: Activation) -> None:
    """A sub-plan with a budget begins; all attempts at its call share it."""
    place, attempt = _call_of(act, op)
    before = tree.tried.pop(place, None)
    inner.spent = before if before is not None and attempt > 1 else Spent()
    tree.capped += 1


def leave(tree: Execution, act: Activation, op: InvokeOp, inner: Activation) -> None:
    """It has ended; what it has spent is kept for another attempt."""
    tree.capped -= 1
    place, attempt = _call_of(act, op)
    if (
        attempt
        and inner.spent is not None
        and inner.ended is not None
        and isinstance(inner.ended.by, Failure)
    ):
        tree.tried[place] = inner.spent


def _call_of(act: Activation, op: InvokeOp) -> tuple[str, int]:
    """The place of a CALL without the number of its attempt, and that number; 0 if it is made only once."""
    if act.guards:
        guard = act.guards[-1]
        operation = act.body.operations[guard.at]
        if isinstance(operation, GuardOp) and operation.id == op.id:
            return guard.path + segment(op.id), guard.attempt
    return act.path + segment(op.id), 0


def spend(act: Activation, spent: Spent) -> None:
    """A call inside of an activation has spent this."""
    one: Activation | None = act
    while one is not None:
        if one.spent is not None:
            one.spent = one.spent.plus(spent)
        one = one.parent


def overspent(tree: Execution, act: Activation) -> str:
    """Why an activation may make no further call, for a sub-plan around it has spent its budget; else ""."""
    if not tree.capped or act.path[:-1] in tree.undone:
        return ""
    one: Activation | None = act
    while one is not None and not one.pending:
        if one.spent is not None:
            op = cast("InvokeOp", one.role)
            used = one.spent.input_tokens + one.spent.output_tokens, one.spent.cost
            if op.budget is not None and op.budget.is_spent(*used):
                return f"the budget of {op.plan} is spent: {op.budget.words(*used)}"
        one = one.parent
    return ""


def failure_of(why: str, place: str) -> Failure:
    """The failure of a call that is not made."""
    return Failure(Failing.BUDGET.value, why, place)
