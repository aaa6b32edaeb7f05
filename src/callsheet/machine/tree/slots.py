"""Gives the variables of a body their slots: its own ones, and those captured from the bodies around it.

In: the names that a body sets, reads and assigns, in the order of the text. Out: a slot for each, and in the
`Body` which slots are copied from outside at its start, and back at its end.
"""

from __future__ import annotations

from callsheet.machine.tree.program import Body, Operation


class BodyScope:
    """The names of one body, and of the bodies around it that it can see."""

    def __init__(self, outer: BodyScope | None = None) -> None:
        self.outer = outer
        self.body = Body()
        self.operations: list[Operation] = self.body.operations
        """Where operations are added: those of a member of @PARALLEL are apart."""
        self._slots: dict[str, int] = {}
        self._captures: dict[int, int] = {}
        self._returns: dict[int, int] = {}

    def own(self, name: str) -> int:
        """The slot of a variable that the body itself makes."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self.hidden(name)
        return slot

    def hidden(self, name: str = "") -> int:
        """A new slot; without a name for the machine's own use."""
        self.body.names.append(name or f"#{len(self.body.names)}")
        return len(self.body.names) - 1

    def find(self, name: str) -> int | None:
        """The slot of a variable that is visible here; one from outside is captured."""
        slot = self._slots.get(name)
        if slot is None and self.outer is not None:
            outside = self.outer.find(name)
            if outside is not None:
                slot = self.own(name)
                self._captures[outside] = slot
                self.body.captures = tuple(self._captures.items())
        return slot

    def read(self, name: str) -> int:
        """The slot of a variable that is read here."""
        slot = self.find(name)
        return self.own(name) if slot is None else slot

    def assign(self, name: str) -> int:
        """The slot of a variable that SET changes here; it goes back to the body that has it."""
        slot = self.read(name)
        outside = next((out for out, inside in self._captures.items() if inside == slot), None)
        if outside is not None and slot not in self._returns:
            assert self.outer is not None
            self.outer.assign(name)
            self._returns[slot] = outside
            self.body.returns = tuple(self._returns.items())
        return slot
