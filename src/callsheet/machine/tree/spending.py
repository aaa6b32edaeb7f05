"""What sub-plans with a budget of their own have spent, and when they may make no further call.

All that is spent inside of one counts, also by agents and in sub-plans that it calls. FINALLY blocks and what
ON_FAIL UNDO takes back are carried out whatever is left. Nothing here depends on anything but the events so
far, so a replay refuses the same calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from callsheet.ir.failing import Failing
from callsheet.ir.labels import Label
from callsheet.machine.tree.activations import Activation, Guard, Tried
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import GuardOp, InvokeOp
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.tree.execution import Execution


def enter(tree: Execution, act: Activation, op: InvokeOp, inner: Activation) -> Tried | None:
    """A sub-plan with a budget begins; gives what earlier attempts at its call have spent, which share it."""
    guard = _guard_of(act, op)
    tried = None if guard is None else guard.tried
    inner.spent = Spent() if tried is None else tried.spent
    tree.capped += 1
    return tried


def leave(tree: Execution, act: Activation, op: InvokeOp, inner: Activation, label: Label | None) -> None:
    """It has ended; what it has spent, with its label, is kept for another attempt."""
    tree.capped -= 1
    guard = _guard_of(act, op)
    if guard is not None and inner.spent is not None:
        act.guards[-1] = guard._replace(tried=Tried(inner.spent, label))


def _guard_of(act: Activation, op: InvokeOp) -> Guard | None:
    """The guard of a CALL itself, which leads to its attempts; None if it is made only once."""
    if act.guards:
        operation = act.body.operations[act.guards[-1].at]
        if isinstance(operation, GuardOp) and operation.id == op.id:
            return act.guards[-1]
    return None


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
