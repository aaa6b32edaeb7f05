"""The walk of a run through its plan: which places it has come by, for the coverage of tests.

In: the compiled program of a run, before it starts, and the notes of its machine. Out: the marks of what has
happened: a step that was executed, a condition that held, a loop without items, a failure that was handled.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from callsheet.machine import Machine, Program
from callsheet.machine.decision_log import DecisionKind, DecisionLog
from callsheet.machine.notes import Note, NoteKind

if TYPE_CHECKING:
    from callsheet.machine import Command
    from callsheet.machine.run import Run
    from callsheet.machine.tree.activations import Activation
    from callsheet.machine.tree.interpreter import CarryOut, TreeRun
    from callsheet.machine.tree.program import Operation


class Aspect(StrEnum):
    """What can happen at a step. Those with numbers are followed by one: `holds 0` is a first condition."""

    EXECUTED = "executed"
    HOLDS = "holds"
    """Its condition is true; of an ?IF of version 2, the condition with this number."""
    FAILS_TO_HOLD = "does not hold"
    """Its condition is false; of an ?IF of version 2, all of its conditions."""
    ITEMS = "items"
    """A loop with items."""
    NO_ITEMS = "no items"
    REPEATED = "repeated"
    """A failed attempt is made again, or a REPEAT goes on after its first round."""
    FAILS = "fails"
    """It fails for good, and what its plan says about that is done."""
    HANDLED = "handled"
    """The handler with this number is executed."""


class Mark(NamedTuple):
    """Something that can happen at a step of a plan: `number` counts the conditions or handlers of it."""

    step: str
    aspect: Aspect
    number: int = 0


class Walk:
    """Records the marks of one run: `prepare` its program, `attend` its machine, give it each `note`."""

    def __init__(self) -> None:
        self.marks: set[Mark] = set()
        self._log: DecisionLog | None = None
        self._ids: tuple[str, ...] = ()
        self._last: dict[str, int] = {}
        """The number of the last condition of each ?IF of version 2."""
        self._skipping: set[str] = set()
        """The loops of version 2 that leave failed items out."""

    def prepare(self, program: Program) -> None:
        """Take part in the decisions of a program, which no other run may use."""
        if program.tree is None:
            self._log = DecisionLog(notes=True)
            self._log.lead(program)
            self._ids = tuple(code.id for code in program.steps)
        elif program.plan.tree is not None:
            from callsheet.ir import tree  # noqa: PLC0415 - only for plans with blocks

            for one in tree.all_statements(program.plan.tree):
                if isinstance(one, tree.If):
                    self._last[one.id] = len(one.branches) - 1
                elif isinstance(one, tree.Foreach):
                    recovery = tree.recovery_of(one)
                    if recovery is not None and isinstance(recovery.remedy, tree.Skip):
                        self._skipping.add(one.id)

    def attend(self, machine: Machine) -> None:
        """Stand between the machine of a plan with blocks and its operations."""
        tree = machine.tree
        if tree is not None:
            tree.carry_out = {
                kind: partial(self._carry_out, execute) for kind, execute in tree.carry_out.items()
            }

    def note(self, note: Note) -> None:
        """Take a note of the machine."""
        step = own_id(note.step)
        match note.kind:
            case NoteKind.STARTED:
                self._mark(step, Aspect.EXECUTED)
                if note.at is not None:
                    self._mark(step, Aspect.ITEMS if note.at.items else Aspect.NO_ITEMS)
            case NoteKind.RETRYING:
                self._mark(step, Aspect.REPEATED)
            case NoteKind.FAILED:
                self._mark(step, Aspect.FAILS)
            case NoteKind.FINISHED:
                if note.is_failure:
                    self._mark(step, Aspect.FAILS)
            case NoteKind.FACT if step in self._skipping:
                self._mark(step, Aspect.FAILS)
            case _:
                pass

    def end(self) -> None:
        """Take in the decisions of a run that has ended."""
        for kind, number, outcome in () if self._log is None else self._log.taken():
            if not isinstance(number, int):
                continue
            if kind is DecisionKind.HOLDS:
                self._mark(self._ids[number], Aspect.HOLDS if outcome else Aspect.FAILS_TO_HOLD)
            elif kind is DecisionKind.ITEMS:
                self._mark(self._ids[number], Aspect.ITEMS if outcome else Aspect.NO_ITEMS)

    def _mark(self, step: str, aspect: Aspect, number: int = 0) -> None:
        self.marks.add(Mark(step, aspect, number))

    def _carry_out(
        self,
        execute: CarryOut,
        tree: TreeRun,
        run: Run,
        act: Activation,
        operation: Operation,
        out: list[Command],
    ) -> int:
        """Execute an operation of a plan with blocks, and mark what it has come to."""
        from callsheet.machine.tree.guards import STAY  # noqa: PLC0415 - only for plans with blocks
        from callsheet.machine.tree.program import BranchOp, CatchOp, UntilOp  # noqa: PLC0415 - as above

        at, failure = act.pc, act.failure
        code = getattr(operation, "code", None)
        step = str(getattr(operation, "id", "") if code is None else code.id)
        if step and not isinstance(operation, CatchOp):
            self._mark(step, Aspect.EXECUTED)
        signal = execute(tree, run, act, operation, out)
        match operation:
            case BranchOp(branch=number, otherwise=otherwise):
                if signal != STAY or act.pc != otherwise:
                    self._mark(step, Aspect.HOLDS, number)
                elif number == self._last[step]:
                    self._mark(step, Aspect.FAILS_TO_HOLD)
            case UntilOp() if not (signal == STAY and act.pc == at + 1):
                self._mark(step, Aspect.REPEATED)
            case CatchOp(handlers=handlers) if act.failure is not failure:  # else it is attempted again
                taken = [number for number, (_, _, first) in enumerate(handlers) if first == act.pc]
                if taken:
                    self._mark(step, Aspect.HANDLED, taken[0])
                else:
                    self._mark(step, Aspect.FAILS)
            case _:
                pass
        return signal


def own_id(path: str) -> str:
    """The id of a statement, of the path that names a visit of it: `S2[4]/S5` is one of S5."""
    return path.rpartition("/")[2].partition("[")[0]
