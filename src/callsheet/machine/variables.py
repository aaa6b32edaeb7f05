"""The variables of a run: values by slot, which of them are set, and those that the plan does not name.

A re-plan brings a program with other slots; every variable that is set is carried over by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import Any

from callsheet.ir import JSON
from callsheet.machine.closures import compile_value
from callsheet.machine.program import Program


class Variables:
    """The variables of a run under one program.

    `slots` has the values, as the program's functions read them; `was_set` has a 1 for each that is set.
    """

    __slots__ = ("_extra", "_program", "slots", "was_set")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._extra: dict[str, JSON] = {}
        self.was_set = bytearray(len(program.slot_of))
        self.slots: list[Any] = [None] * len(program.slot_of)

    def assign(self, slot: int, value: JSON) -> None:
        """Set the variable of a slot."""
        self.slots[slot] = value
        self.was_set[slot] = 1

    def is_set(self, slot: int) -> bool:
        """Whether the variable of a slot has been set."""
        return bool(self.was_set[slot])

    def take_over(self, values: Mapping[str, JSON]) -> None:
        """Set variables by name; those that the program does not name are kept as well."""
        for name, value in values.items():
            slot = self._program.slot_of.get(name)
            if slot is None:
                self._extra[name] = value
            else:
                self.assign(slot, value)

    def set_initial(self) -> None:
        """Set the variables that the plan declares with values."""
        slot_of = self._program.slot_of
        for name, value in self._program.plan.variables:
            self.assign(slot_of[name], compile_value(value, slot_of.__getitem__)(self.slots))

    def parts(self) -> tuple[list[Any], bytearray, dict[str, JSON]]:
        """The values by slot, which of them are set, and those that the program does not name."""
        return self.slots, self.was_set, self._extra

    def restore(self, slots: list[Any], was_set: bytearray, extra: dict[str, JSON]) -> None:
        """Restore what `parts` gave; raises ValueError if the number of slots differs."""
        if len(slots) != len(self.slots) or len(was_set) != len(self.slots):
            raise ValueError(f"{len(slots)} values for {len(self.slots)} slots")
        self.slots[:] = slots
        self.was_set[:] = was_set
        self._extra = extra

    def to_dict(self) -> dict[str, JSON]:
        """All variables that are set, by name."""
        values = dict(compress(zip(self._program.names, self.slots, strict=True), self.was_set))
        return {**self._extra, **values} if self._extra else values
