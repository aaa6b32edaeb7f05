"""How failures and early ends leave the statements of an activation: by handlers and FINALLY blocks."""

from __future__ import annotations

from callsheet.machine.tree.activations import Activation, Ended, Leaving
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import NONE

NEXT, STAY, WAITING, ENDED = range(4)
"""What an operation leads to: the next one, the one at `pc`, a wait for an outcome, the activation's end."""


def unwind(act: Activation, failure: Failure) -> int:
    """Give a failure to the innermost guard of an activation, or end the activation with it."""
    if not act.guards:
        act.pending.clear()
        act.ended = Ended(failure)
        return ENDED
    guard = act.guards.pop()
    del act.pending[guard.pending :]
    act.path = guard.path
    if guard.catch != NONE:
        act.failure = failure, guard
        act.pc = guard.catch
    else:
        act.pending.append(failure)
        act.pc = guard.final
    return STAY


def leave(act: Activation, leaving: Leaving) -> int:
    """Leave guards, FINALLY blocks first, for an early end."""
    while len(act.guards) > leaving.depth:
        guard = act.guards.pop()
        del act.pending[guard.pending :]
        if guard.final != NONE:
            act.path = guard.path
            act.pending.append(leaving)
            act.pc = guard.final
            return STAY
    if leaving.to != NONE:
        act.pc, act.path = leaving.to, leaving.path
        return STAY
    act.ended = Ended(leaving, act.yielded)
    return ENDED
