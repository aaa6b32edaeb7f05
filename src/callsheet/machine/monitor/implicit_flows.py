"""Implicit flows: the labels of the decisions (guards, loops, failures) that led to each step.

In: a program, and each decision as it is made, with the label of its data. Out: for each step the label of
the decisions it depends on, and for each decision the variables that reveal it: all that either branch
behind it may set.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from callsheet.ir.control import Control, control_of, decides
from callsheet.ir.flow import flow_of, is_guarded
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.graph import Graph
from callsheet.machine.program import NOWHERE, Program, StepCode


class _Controls:
    """The control dependencies of a program, computed on demand for all its runs."""

    def __init__(self, program: Program) -> None:
        self._program = program.plan, program.graph
        self.reach: dict[int, tuple[int, ...]] = {}
        """By step: the slots of the variables that are set or not depending on its decision."""

    @cached_property
    def control(self) -> Control:
        """The plan's control flow."""
        return control_of(flow_of(self._program[0]))

    @cached_property
    def guards(self) -> Sequence[Sequence[int]]:
        """By step: the steps that decide whether it is executed."""
        graph = self._program[1]
        return self.control.guards() if graph is None else _waits(graph)


class ImplicitFlows:
    """The decisions made so far in one program.

    `base` is the label of what decided that the program runs at all, `noted` has the labels of its steps'
    decisions by number. With `counts_bits` (the strict policy) single bits, as emptiness, always count.
    """

    __slots__ = ("_controls", "_ended", "_program", "base", "counts_bits", "noted")

    def __init__(self, program: Program, base: Label, *, counts_bits: bool) -> None:
        self.base = base
        self.noted: dict[int, Label] = {}
        self.counts_bits = counts_bits
        self._ended = LITERAL
        self._program = program
        self._controls = program.cached(_Controls, lambda: _Controls(program))

    def resume(self, noted: dict[int, Label]) -> None:
        """Restore the decisions made before."""
        self.noted = noted
        codes = self._program.steps
        self._ended = join(label for number, label in noted.items() if self._may_end(codes[number]))

    def _may_end(self, code: StepCode) -> bool:
        """Whether a failure of the step ends a graph, so that later steps reveal that it did not fail."""
        return code.fail_message is not None and self._program.graph is not None

    def about(self, number: int, besides: int = NOWHERE) -> Label:
        """The label of what decided that a step is executed, without the guard `besides`."""
        label = self.base
        if self.noted:
            label = label.join(self._ended)
            for guard in self._controls.guards[number]:
                noted = self.noted.get(guard)
                if noted is not None and guard != besides:
                    label = label.join(noted)
        return label

    def note(self, code: StepCode, label: Label) -> tuple[tuple[int, ...], Label]:
        """A step has made a decision by data of this label; gives the slots that reveal it, and its label."""
        number = code.number
        label = label.join(self.about(number, besides=number))
        if label == LITERAL:
            return (), label
        known = self.noted.get(number)
        self.noted[number] = label if known is None else known.join(label)
        if self._may_end(code):
            self._ended = self._ended.join(label)
        return self._slots_behind(code), label

    def counts_all(self, code: StepCode) -> bool:
        """Whether single bits that a step reveals count: by the policy, or because it may repeat."""
        return self.counts_bits or self.repeats(code)

    def repeats(self, code: StepCode) -> bool:
        """Whether the step is in a cycle of the plan."""
        return (
            code.recurs and self._program.graph is None and bool(self._controls.control.in_cycle[code.number])
        )

    def _slots_behind(self, code: StepCode) -> tuple[int, ...]:
        """The slots of the variables that are set or not depending on what a step decides."""
        slots = self._controls.reach.get(code.number)
        if slots is None:
            step = self._program.plan.steps[code.number]
            if self._program.graph is not None or (is_guarded(step) and not decides(step)):
                slots = () if code.out_slot == NOWHERE else (code.out_slot,)  # nothing else depends on it
            else:
                slot_of = self._program.slot_of
                slots = tuple(slot_of[name] for name in self._controls.control.variables(code.number))
            self._controls.reach[code.number] = slots
        return slots


def _waits(graph: Graph) -> list[list[int]]:
    """For each step of a graph, itself and those it waits for: their failure would keep it from starting."""
    waits: list[list[int]] = [[number] for number in range(len(graph.dependents))]
    for number, dependents in enumerate(graph.dependents):
        for dependent in dependents:
            waits[dependent].append(number)
    return waits
