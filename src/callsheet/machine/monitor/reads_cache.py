"""Caches what the steps of a program read (see `reads`), for all runs of the program."""

from __future__ import annotations

from callsheet.ir.labels import Label
from callsheet.machine.monitor.reads import (
    Guards,
    Make,
    Reads,
    guards_of,
    reads_of,
    slots_in,
    source_of,
    written_of,
)
from callsheet.machine.program import Program, StepCode


class ReadsCache:
    """What the steps of a program read; `literal` is the label of the plan's literals."""

    __slots__ = ("_exact", "_guards", "_literal", "_plan", "_reads", "_slot_of", "_sources")

    def __init__(self, program: Program, literal: Label) -> None:
        self._plan = program.plan
        self._exact = program.graph is not None
        self._slot_of = program.slot_of.__getitem__
        self._literal = literal
        self._reads: list[Reads | None] = [None] * len(program.steps)
        self._guards: dict[int, Guards] = {}
        self._sources: dict[int, Make | None] = {}

    @classmethod
    def of(cls, program: Program, literal: Label) -> ReadsCache:
        """The Reading of a program, shared by all runs with the same label for literals."""
        return program.cached((cls, literal), lambda: cls(program, literal))

    def reads(self, code: StepCode) -> Reads:
        """What the action of a step reads."""
        reads = self._reads[code.number]
        if reads is None:
            step = self._plan.steps[code.number]
            written = written_of(step, code)
            reads = reads_of(step, written, self._slot_of, self._literal, exact=self._exact)
            self._reads[code.number] = reads
        return reads

    def slots(self, code: StepCode) -> tuple[int, ...]:
        """The slots that the action of a step reads, found without compiling them if they are not cached."""
        if code.tool:
            return code.read_slots
        reads = self._reads[code.number]
        if reads is not None:
            return reads.slots
        written = written_of(self._plan.steps[code.number], code)
        return slots_in([value for _, value in written], self._slot_of)

    def guards(self, code: StepCode) -> Guards:
        """What decides whether a step is executed, and how often."""
        guards = self._guards.get(code.number)
        if guards is None:
            guards = self._guards[code.number] = guards_of(self._plan.steps[code.number], self._slot_of)
        return guards

    def source(self, code: StepCode) -> Make | None:
        """A function that makes an argument of a loop's source; None if the source is a variable."""
        if code.number not in self._sources:
            step = self._plan.steps[code.number]
            self._sources[code.number] = source_of(step, self._slot_of, self._literal, exact=self._exact)
        return self._sources[code.number]
