"""What the variables hold at the current place, with what has changed since any earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from callsheet.passes.structured.narrowing import Path
from callsheet.passes.structured.shapes import Shape, join

_NO_FACTS: Mapping[Path, Shape] = MappingProxyType({})


class Holding(NamedTuple):
    """What is known of a variable at a place: whether it is set on every path there, and what it holds.

    `facts` are what tests have shown of paths into it.
    """

    shape: Shape
    always: bool = True
    facts: Mapping[Path, Shape] = _NO_FACTS


Changes = dict[str, "Holding | None"]


class State:
    """What all variables hold at the current place, with what was changed since any earlier one."""

    def __init__(self) -> None:
        self.holdings: dict[str, Holding] = {}
        self._trail: list[tuple[str, Holding | None]] = []
        self.is_dead = False
        """Whether the current place is never reached."""

    def get(self, name: str) -> Holding | None:
        """What is known of a variable; None if it is set on no path."""
        return self.holdings.get(name)

    def set(self, name: str, holding: Holding | None) -> None:
        """Note what a variable holds from here on; None if nothing."""
        self._trail.append((name, self.holdings.get(name)))
        if holding is None:
            self.holdings.pop(name, None)
        else:
            self.holdings[name] = holding

    def mark(self) -> int:
        """The current place."""
        return len(self._trail)

    def changes(self, mark: int) -> Changes:
        """What the variables changed since a place hold now."""
        return {name: self.holdings.get(name) for name, _ in self._trail[mark:]}

    def every(self, mark: int) -> dict[str, list[Holding | None]]:
        """What the variables changed since a place have held since: first at that place, now last."""
        found: dict[str, list[Holding | None]] = {}
        for name, before in self._trail[mark:]:
            found.setdefault(name, []).append(before)
        for name, held in found.items():
            held.append(self.holdings.get(name))
        return found

    def undo(self, mark: int) -> Changes:
        """Go back to a place; gives what had changed since."""
        made = self.changes(mark)
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                self.holdings.pop(name, None)
            else:
                self.holdings[name] = before
        return made

    def apply(self, changes: Changes) -> None:
        """Set all of these."""
        for name, holding in changes.items():
            self.set(name, holding)

    def merge(self, outcomes: Iterable[Changes]) -> None:
        """Go on from the current place by one of these ways, each what it changes; dead without any."""
        every = list(outcomes)
        if not every:
            self.is_dead = True
            return
        self.is_dead = False
        if len(every) == 1:
            self.apply(every[0])
            return
        for name in dict.fromkeys(name for one in every for name in one):
            now = self.holdings.get(name)
            self.set(name, joined([one.get(name, now) if name in one else now for one in every]))


def joined(holdings: list[Holding | None]) -> Holding | None:
    """What a variable holds that has held one of these."""
    there = [one for one in holdings if one is not None]
    if not there:
        return None
    always = len(there) == len(holdings) and all(one.always for one in there)
    first = there[0]
    if all(one is first for one in there):
        return first if first.always == always else first._replace(always=always)
    facts = {
        path: join(shape, *(one.facts[path] for one in there[1:]))
        for path, shape in first.facts.items()
        if all(path in one.facts for one in there[1:])
    }
    return Holding(join(*(one.shape for one in there)), always, facts)


@dataclass(slots=True)
class Loop:
    """A loop that is being gone through: the changes at its BREAKs and CONTINUEs since its beginning."""

    mark: int
    breaks: list[Changes] = field(default_factory=list[Changes])
    ends: list[Changes] = field(default_factory=list[Changes])


YIELDED = "\0yield"
"""The variable that stands for what YIELD has given in the current item."""
