"""The variables at one point of a plan: what is known of each, and which steps may have set it.

Tables are immutable and share what they have in common, so that a copy costs nothing and a join
of two looks only at what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.machine.foresight.unknown import Foreseen, Unknown, is_same

_CHUNK = 64
MOST_STEPS = 8
"""So many steps that may have set a variable are named."""


class Binding(NamedTuple):
    """What is known of a variable; `steps` are the numbers of those that may have set it."""

    value: Foreseen = None
    steps: tuple[int, ...] = ()


UNSET = Binding()
Merge: TypeAlias = "Callable[[int, Binding, Binding], Binding]"


class Table:
    """The bindings of all variables, by slot."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: tuple[tuple[Binding, ...], ...]) -> None:
        self._chunks = chunks

    @classmethod
    def of(cls, size: int) -> Table:
        """A table of so many variables, none of them set."""
        empty = (UNSET,) * _CHUNK
        return cls((empty,) * (size // _CHUNK + 1))

    def __getitem__(self, slot: int) -> Binding:
        return self._chunks[slot // _CHUNK][slot % _CHUNK]

    def having(self, slot: int, binding: Binding) -> Table:
        """The table with another binding in this slot."""
        number, place = divmod(slot, _CHUNK)
        chunks = self._chunks
        chunk = chunks[number]
        if chunk[place] is binding:
            return self
        changed = (*chunk[:place], binding, *chunk[place + 1 :])
        return Table((*chunks[:number], changed, *chunks[number + 1 :]))

    def joined(self, other: Table, merge: Merge) -> Table:
        """The table of a point that both lead to."""
        if self._chunks is other._chunks:
            return self
        return Table(
            tuple(
                mine if mine is theirs else _joined(number * _CHUNK, mine, theirs, merge)
                for number, (mine, theirs) in enumerate(zip(self._chunks, other._chunks, strict=True))
            )
        )


def _joined(
    start: int, mine: tuple[Binding, ...], theirs: tuple[Binding, ...], merge: Merge
) -> tuple[Binding, ...]:
    return tuple(
        a if a is b else merge(slot, a, b)
        for slot, (a, b) in enumerate(zip(mine, theirs, strict=True), start)
    )


class Merger:
    """Joins bindings of the variables of a plan; equal outcomes are one object."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._known: dict[tuple[int, tuple[int, ...]], Binding] = {}

    def open(self, slot: int, steps: Iterable[int]) -> Binding:
        """The binding of a variable that one of these steps has set, or none of them."""
        named = tuple(sorted(set(steps)))[:MOST_STEPS]
        made = self._known.get((slot, named))
        if made is None:
            made = self._known[slot, named] = Binding(Unknown(f"${self._names[slot]}"), named)
        return made

    def __call__(self, slot: int, a: Binding, b: Binding) -> Binding:
        """What is known where both may hold."""
        if is_same(a.value, b.value):
            if a.steps == b.steps:
                return a
            return Binding(a.value, tuple(sorted({*a.steps, *b.steps}))[:MOST_STEPS])
        return self.open(slot, (*a.steps, *b.steps))

    def join(self, tables: Sequence[Table]) -> Table:
        """The table of a point that all of them lead to; neighbours are joined first."""
        level = list(tables)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            rest = level[-1:] if len(level) % 2 else []
            level = [a.joined(b, self) for a, b in pairs] + rest
        return level[0]
