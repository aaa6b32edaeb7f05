"""The abstract state of the variables at one point of a plan: what is known of each, and who may have set it.

Tables are immutable and share structure, so that a copy costs nothing and a join of two only looks at what
differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from callsheet.machine.forecasting.partial_values import Foreseen, Unknown, is_same

_CHUNK = 64
_LEAST_BUDGET = 200_000
_JOINS_PER_NAME = 10
MOST_STEPS = 8
"""So many steps that may have set a variable are named."""


class Binding(NamedTuple):
    """What is known of a variable; `steps` are the numbers of those that may have set it."""

    value: Foreseen = None
    steps: tuple[int, ...] = ()


UNSET = Binding()


class VariableTable:
    """The bindings of all variables, by slot."""

    __slots__ = ("_chunks",)

    def __init__(self, chunks: tuple[tuple[Binding, ...], ...]) -> None:
        self._chunks = chunks

    @classmethod
    def of(cls, size: int) -> VariableTable:
        """A table of so many variables, none of them set."""
        empty = (UNSET,) * _CHUNK
        return cls((empty,) * (size // _CHUNK + 1))

    def __getitem__(self, slot: int) -> Binding:
        return self._chunks[slot // _CHUNK][slot % _CHUNK]

    def having(self, slot: int, binding: Binding) -> VariableTable:
        """The table with another binding in this slot."""
        number, place = divmod(slot, _CHUNK)
        chunks = self._chunks
        chunk = chunks[number]
        if chunk[place] is binding:
            return self
        changed = (*chunk[:place], binding, *chunk[place + 1 :])
        return VariableTable((*chunks[:number], changed, *chunks[number + 1 :]))

    def joined(self, other: VariableTable, merger: Merger) -> VariableTable:
        """The table of a point that both lead to."""
        if self._chunks is other._chunks:
            return self
        return VariableTable(
            tuple(
                mine if mine is theirs else merger.join_chunk(number, mine, theirs)
                for number, (mine, theirs) in enumerate(zip(self._chunks, other._chunks, strict=True))
            )
        )


_Chunk: TypeAlias = "tuple[Binding, ...]"


class Merger:
    """Joins bindings of the variables of a plan; equal outcomes are one object.

    `setters` are the steps that may set each variable anywhere. All joins of a plan share one
    budget, so that no plan makes them slow: past it whole stretches of variables that differ
    somewhere are unknown.
    """

    def __init__(self, names: Sequence[str], setters: Sequence[Sequence[int]]) -> None:
        self._names = names
        self._setters = setters
        self._bindings: dict[tuple[int, tuple[int, ...]], Binding] = {}
        self._open_chunks: dict[int, _Chunk] = {}
        self._budget = max(_LEAST_BUDGET, _JOINS_PER_NAME * len(names))

    def join_chunk(self, number: int, mine: _Chunk, theirs: _Chunk) -> _Chunk:
        """The bindings of one stretch of variables where both may hold."""
        start = number * _CHUNK
        opened = self._open_chunks.get(number)
        if opened is not None and (mine is opened or theirs is opened):
            return opened
        self._budget -= sum(a is not b for a, b in zip(mine, theirs, strict=True))
        if self._budget < 0:
            slots = range(start, start + _CHUNK)
            named = [self.open(s, self._setters[s]) if s < len(self._names) else UNSET for s in slots]
            self._open_chunks[number] = chunk = tuple(named)
            return chunk
        return tuple(
            a if a is b else self(slot, a, b)
            for slot, (a, b) in enumerate(zip(mine, theirs, strict=True), start)
        )

    def open(self, slot: int, steps: Iterable[int]) -> Binding:
        """The binding of a variable that one of these steps has set, or none of them."""
        named = tuple(sorted(set(steps))[:MOST_STEPS])
        binding = self._bindings.get((slot, named))
        if binding is None:
            binding = self._bindings[slot, named] = Binding(Unknown(f"${self._names[slot]}"), named)
        return binding

    def __call__(self, slot: int, a: Binding, b: Binding) -> Binding:
        """What is known where both may hold."""
        if is_same(a.value, b.value):
            if a.steps == b.steps:
                return a
            return Binding(a.value, tuple(sorted({*a.steps, *b.steps}))[:MOST_STEPS])
        return self.open(slot, (*a.steps, *b.steps))

    def join(self, tables: Sequence[VariableTable]) -> VariableTable:
        """The table of a point that all of them lead to; neighbours are joined first."""
        level = list(tables)
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            rest = level[-1:] if len(level) % 2 else []
            level = [a.joined(b, self) for a, b in pairs] + rest
        return level[0]
