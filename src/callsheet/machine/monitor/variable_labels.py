"""The labels and origins of a run's variables, and the labels of what decided that they are set.

In: a program, and the labels of inputs and edits. Out: label and origins by slot or by name. It knows nothing
of calls; the monitor stores the labels of their results here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine.monitor.admitted import Origins
from callsheet.machine.monitor.origins import NONE, merged
from callsheet.machine.program import Program

PLAIN: tuple[Label, Origins] = (LITERAL, NONE)
"""The label and origins of a value without any restriction."""


class VariableLabels:
    """The labels of variables; `load` begins a program and keeps the labels of variables by name."""

    __slots__ = ("_names", "_slot_of", "extra", "labels", "last", "origins", "presence")

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._slot_of: Mapping[str, int] = {}
        self.labels: list[Label] = []
        self.origins: list[Origins] = []
        self.last = PLAIN
        """Label and origins of the value stored last."""
        self.extra: dict[str, tuple[Label, Origins]] = {}
        """Label and origins of variables that the program does not name."""
        self.presence: dict[str, Label] = {}
        """The labels of what decided whether variables are set and not empty, by name, unless plain."""

    def load(self, program: Program, literal: Label) -> None:
        """Begin a program whose literals have the label `literal`."""
        known = self.by_name()
        self._names, self._slot_of = program.names, program.slot_of
        self.labels, self.origins = [LITERAL] * len(program.names), [NONE] * len(program.names)
        self.extra = {name: labelled for name, labelled in known.items() if name not in program.slot_of}
        for name, _ in program.plan.variables:
            self.labels[program.slot_of[name]] = literal
        for name, (label, origins) in known.items():
            slot = program.slot_of.get(name)
            if slot is not None:
                self.labels[slot], self.origins[slot] = label.join(self.labels[slot]), origins

    def by_name(self) -> dict[str, tuple[Label, Origins]]:
        """Label and origins of each variable, by name."""
        labelled = dict(self.extra)
        labelled.update(zip(self._names, zip(self.labels, self.origins, strict=True), strict=True))
        return labelled

    def set_input(self, name: str, label: Label) -> None:
        """The run begins with a variable of this label."""
        slot = self._slot_of.get(name)
        if slot is None:
            self.extra[name] = label, NONE
        else:
            self.labels[slot] = label

    def add(self, name: str, label: Label) -> None:
        """Join a label into that of a variable."""
        slot = self._slot_of.get(name)
        if slot is None:
            before, origins = self.extra.get(name, PLAIN)
            self.extra[name] = before.join(label), origins
        else:
            self.labels[slot] = self.labels[slot].join(label)

    def edit(self, name: str, label: Label) -> None:
        """A person has set a variable; `label` is that of the new value.

        The value may derive from the one it replaces, so its readers are restricted to those of the old one.
        """
        slot = self._slot_of.get(name)
        before = self.extra.get(name, PLAIN)[0] if slot is None else self.labels[slot]
        label = label.join(Label(False, before.readers))
        if slot is None:
            self.extra[name] = label, NONE
        else:
            if self.last[0] is before and self.last[1] is self.origins[slot]:
                self.last = label, NONE
            self.labels[slot], self.origins[slot] = label, NONE

    def read(self, slots: Iterable[int]) -> tuple[Label, Origins]:
        """The label and origins of a value made of these slots."""
        label = LITERAL
        for slot in slots:
            label = label.join(self.labels[slot])
        return label, self.origins_at(slots)

    def origins_at(self, slots: Iterable[int]) -> Origins:
        """The steps that the values of these slots were made by."""
        all_origins = NONE
        for slot in slots:
            origins = self.origins[slot]
            if origins and origins is not all_origins:
                all_origins = merged(all_origins, origins)
        return all_origins

    def origins_of(self, name: str) -> Origins | None:
        """The steps that a variable was made by; None if the program has no such variable."""
        slot = self._slot_of.get(name)
        return None if slot is None else self.origins[slot]

    def presence_at(self, slots: Iterable[int]) -> Label:
        """The label of what decided whether the variables of these slots are set and not empty."""
        return join([self.presence.get(self._names[slot], LITERAL) for slot in slots])

    def add_presence(self, slot: int, label: Label) -> None:
        """Data of this label has also decided whether a variable is set."""
        name = self._names[slot]
        self.presence[name] = label.join(self.presence.get(name, LITERAL))

    def put_presence(self, slot: int, label: Label) -> None:
        """Data of this label alone has decided whether a variable is set."""
        self.presence.pop(self._names[slot], None)
        if label != LITERAL:
            self.add_presence(slot, label)
