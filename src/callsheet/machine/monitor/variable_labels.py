"""The labels and origins of a run's variables, and the labels of what decided that they are set.

In: a program, and the labels of inputs and edits. Out: label and origins by slot or by name. It knows nothing
of calls; the monitor stores the labels of their results here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label, join, read_label
from callsheet.machine.program import Program

Origins: TypeAlias = "tuple[str, ...]"
"""The steps that a value was made by, in order; only the last ones if they are many."""
NOTHING_SHOWN: Mapping[str, JSON] = MappingProxyType({})


class Admitted(NamedTuple):
    """An admitted call: the labels of its result and of all data it sends, and the origins of its result.

    `reasons` say why a person must approve it first (empty if nobody must), `shown` is what that person is
    told about each argument.
    """

    result: Label
    sent: Label
    origins: Origins
    reasons: tuple[str, ...] = ()
    shown: Mapping[str, JSON] = NOTHING_SHOWN

    def to_json(self) -> list[Any]:
        """The record as JSON data."""
        row = [str(self.result), str(self.sent), list(self.origins)]
        return [*row, list(self.reasons), dict(self.shown)] if self.reasons or self.shown else row

    @classmethod
    def from_json(cls, data: list[Any]) -> Admitted:
        """The record from JSON data; raises ValueError or TypeError if it is malformed."""
        result, sent, origins, *asked = data
        reasons, shown = asked or ((), NOTHING_SHOWN)
        return cls(read_label(result), read_label(sent), tuple(origins), tuple(reasons), shown)


MOST = 8
"""The most steps that are kept: the last ones."""
NONE: Origins = ()


def merged(left: Origins, right: Origins) -> Origins:
    """The steps of both, each once.

    >>> merged(("S1", "S2"), ("S2", "S3"))
    ('S1', 'S2', 'S3')
    """
    if not left or left is right or left == right:
        return right
    return tuple(dict.fromkeys((*left, *right)))[-MOST:] if right else left


class Extended:
    """Appends a step to origins, remembering the last result, as loops ask for the same one repeatedly."""

    __slots__ = ("_origins", "_result", "_step")

    def __init__(self) -> None:
        self._step = ""
        self._origins: Origins = NONE
        self._result: Origins = NONE

    def extend(self, origins: Origins, step: str) -> Origins:
        """The origins with `step` moved or added to the end.

        >>> Extended().extend(("S1", "S2"), "S1")
        ('S2', 'S1')
        """
        if origins is self._origins and step is self._step:
            return self._result
        others = tuple([other for other in origins if other != step]) if step in origins else origins
        extended = others[1 - MOST :] + (step,)  # noqa: RUF005 - for each call: faster than unpacking
        self._step, self._origins, self._result = step, origins, extended
        return extended


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
