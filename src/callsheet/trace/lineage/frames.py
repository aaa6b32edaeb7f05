"""An activation while its run is recorded: its writes, what has decided in it, and what waits.

In: the operations that it reaches. Out: why each of them was reached.
"""

from __future__ import annotations

from typing import NamedTuple

from callsheet.machine.tree.activations import Activation
from callsheet.machine.tree.program import (
    NONE,
    BranchOp,
    CallOp,
    ClockOp,
    ComputeOp,
    InvokeOp,
    LoopOp,
    Operation,
    ReplanOp,
    RoundOp,
    UntilOp,
)
from callsheet.trace.lineage.blocks import Around, Reasons, Site

Waiting = CallOp | ComputeOp | ClockOp | LoopOp | InvokeOp | ReplanOp
"""Operations that are over when the next one of their activation begins."""


class UnderWay(NamedTuple):
    """A statement of an activation that may wait for outcomes: its operation, its place in the body."""

    operation: Waiting
    pc: int
    visit: int


class Frame:
    """An activation: the writes that its variables have, by slot, and what has decided in it so far."""

    __slots__ = (
        "act",
        "base",
        "clock",
        "conditions",
        "failures",
        "owner",
        "place",
        "scope",
        "waiting",
        "yielded",
    )

    def __init__(self, act: Activation, base: Reasons, owner: int) -> None:
        self.act, self.base, self.owner = act, base, owner
        self.place = act.path
        self.scope: dict[int, int] = {}
        self.conditions: dict[str, tuple[int, ...]] = {}
        """The visits of the conditions of each ?IF and REPEAT that hold now, by its id."""
        self.failures: dict[Around, int] = {}
        """The write of the failure that each statement's handler, or its next attempt, has."""
        self.waiting: UnderWay | None = None
        self.yielded = NONE
        self.clock = NONE

    def beside(self, act: Activation) -> Frame:
        """The frame of a member of @PARALLEL, which shares the variables."""
        other = Frame(act, self.base, self.owner)
        other.place, other.scope, other.clock = self.place, self.scope, self.clock
        other.conditions, other.failures = self.conditions, self.failures
        return other

    def reached(self, operation: Operation, visit: int) -> None:
        """Take account of a visit that begins: it may decide about what comes after, or wait for outcomes."""
        match operation:
            case BranchOp(id=own):
                before = () if operation.branch == 0 else self.conditions.get(own, ())
                self.conditions[own] = (*before, visit)
            case RoundOp(id=own) | UntilOp(id=own):
                self.conditions[own] = (visit,)
            case _ if isinstance(operation, Waiting):
                self.waiting = UnderWay(operation, self.act.pc, visit)
            case _:
                pass

    def reasons(self, site: Site) -> Reasons:
        """The conditions and failures that lead to a site of it."""
        conditions: tuple[int, ...] = ()
        failures: tuple[int, ...] = ()
        for around in site.around:
            if around.is_failure and around in self.failures:
                failures += (self.failures[around],)
            elif not around.is_failure:
                conditions += self.conditions.get(around.id, ())
        if not conditions and not failures:
            return self.base
        return Reasons(self.base.conditions + conditions, self.base.failures + failures)
