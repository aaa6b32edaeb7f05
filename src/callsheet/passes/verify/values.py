"""Builds static single assignment form for a plan: which value each read of a variable or place may see.

In: the control flow, and what each step reads and writes. Out: values, each made by a step, joined from
others, or present at entry. Linear for all but pathological plans; where there would be too many joins, every
read of a name sees all values of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from callsheet.ir.flow import Flow
from callsheet.ir.graphs import NONE
from callsheet.policy.calls import bare

_LEAST_WORK = 100_000
_WORK_PER_NODE = 40


_Names: TypeAlias = "dict[str, None]"


class Kind(IntEnum):
    """The origin of a value."""

    ENTRY = 0
    """Present before the first step."""
    RESULT = 1
    """The result of a step."""
    STORED = 2
    """Written to a place by a step."""
    JOIN = 3
    """One of its operands (a phi node)."""


class Value(NamedTuple):
    """A value of a variable or a place; `step` is the step that made it, -1 if none did."""

    kind: Kind
    name: str
    step: int = -1


class Write(NamedTuple):
    """A step's write to a name; unless it is `sure`, the previous value may remain."""

    name: str
    kind: Kind
    sure: bool


@dataclass(slots=True)
class ValueGraph:
    """All values of a plan. `seen[step]` maps each name that the step reads to the number of the value it
    sees.
    """

    values: list[Value] = field(default_factory=list[Value])
    operands: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """The operands of each join, by value number."""
    seen: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    made: list[int] = field(default_factory=list[int])
    """For each step the number of the value for the first name it writes; those for its other names follow.
    """
    entries: list[int] = field(default_factory=list[int])
    """The values that are present before the first step."""

    def enter(self, name: str) -> int:
        """Add the entry value of a name and return its number."""
        self.entries.append(len(self.values))
        self.values.append(Value(Kind.ENTRY, name))
        return len(self.values) - 1

    def join(self, name: str, operands: list[int]) -> int:
        """Add a join of these values and return its number."""
        number = len(self.values)
        self.values.append(bare(Value, (Kind.JOIN, name, -1)))
        self.operands[number] = operands
        return number


def web_of(
    flow: Flow, reads: Sequence[Sequence[str]], writes: Sequence[Sequence[Write]], *, in_order: bool
) -> ValueGraph:
    """The values that each step sees; without `in_order`, any step may run before any other."""
    web = ValueGraph(seen=[{} for _ in reads])
    values = web.values
    for step, written in enumerate(writes):
        web.made.append(len(values))
        for name, kind, _ in written:
            values.append(bare(Value, (kind, name, step)))
    joins = _joins(flow, writes) if in_order else None
    if joins is None:
        _all_at_once(web, reads, writes)
    else:
        _Linking(flow, web, reads, writes, joins[0], joins[1]).run()
    return web


def _all_at_once(web: ValueGraph, reads: Sequence[Sequence[str]], writes: Sequence[Sequence[Write]]) -> None:
    every: dict[str, int] = {}

    def join(name: str) -> int:
        if name not in every:
            every[name] = web.join(name, [web.enter(name)])
        return every[name]

    for step, written in enumerate(writes):
        for node, write in enumerate(written, web.made[step]):
            web.operands[join(write.name)].append(node)
    for step, names in enumerate(reads):
        for name in names:
            web.seen[step][name] = join(name)


def _joins(flow: Flow, writes: Sequence[Sequence[Write]]) -> tuple[list[int], dict[int, _Names]] | None:
    """The dominator tree, and the names that need a join at each node; None if that takes too much work."""
    _, dominator = flow.dominators()
    work = max(_LEAST_WORK, _WORK_PER_NODE * len(dominator))
    frontier: dict[int, dict[int, None]] = {}
    for node, before in enumerate(flow.predecessors):
        if len(before) < 2 or dominator[node] == NONE:
            continue
        for runner in before:
            above = runner
            while above not in (NONE, dominator[node]):
                frontier.setdefault(above, {})[node] = None
                above = dominator[above]
                work -= 1
            if work < 0:
                return None
    joins: dict[int, _Names] = {}
    if not frontier:
        return dominator, joins
    set_at: dict[str, dict[int, None]] = {}
    for step, written in enumerate(writes):
        for write in written:
            set_at.setdefault(write.name, {})[flow.group_end[step]] = None
    for name, nodes in set_at.items():
        waiting = list(nodes)
        while waiting:
            for node in frontier.get(waiting.pop(), ()):
                work -= 1
                met = joins.setdefault(node, {})
                if name not in met:
                    met[name] = None
                    waiting.append(node)
        if work < 0:
            return None
    return dominator, joins


def _children(dominator: list[int]) -> tuple[list[int], list[int]]:
    """The first child of each node in the dominator tree, and the next sibling of each node."""
    child, sibling = [NONE] * len(dominator), [NONE] * len(dominator)
    for node, above in enumerate(dominator):
        if above != NONE:
            sibling[node] = child[above]
            child[above] = node
    return child, sibling


@dataclass(slots=True)
class _Linking:
    """Renaming: one walk over the dominator tree that tracks the current value of each name."""

    flow: Flow
    web: ValueGraph
    reads: Sequence[Sequence[str]]
    writes: Sequence[Sequence[Write]]
    dominator: list[int]
    joins: dict[int, _Names]
    _grouped: frozenset[int] = frozenset()
    """The steps that are in a group with others."""
    _current: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    _entries: dict[str, int] = field(default_factory=dict[str, int])
    _join_at: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    _stored: dict[int, dict[str, list[int]]] = field(default_factory=dict[int, dict[str, list[int]]])

    def run(self) -> None:
        """Fill in the web."""
        ends = self.flow.group_end
        inner = [number for number, end in enumerate(ends) if end != number]
        self._grouped = frozenset(inner).union([ends[number] for number in inner])
        child, sibling = _children(self.dominator)
        for node in sorted(self.joins):
            names = self.joins[node]
            self._join_at[node] = {name: self.web.join(name, []) for name in names}
        link = self._link_node if self._join_at or inner else self._alone
        undo: list[list[str]] = []
        stack = [self.flow.entry]
        while stack:
            node = stack.pop()
            if node < 0:
                for name in undo.pop():
                    self._current[name].pop()
                continue
            pushed = link(node)
            if stack:  # at the last node nobody reads restored values
                undo.append(pushed)
                stack.append(~node)
            below = child[node]
            while below != NONE:
                stack.append(below)
                below = sibling[below]

    def _alone(self, node: int) -> list[str]:
        """A faster `_at` for the common plan without groups and joins."""
        pushed: list[str] = []
        if node >= len(self.reads):
            return pushed
        current, names, writes = self._current, self.reads[node], self.writes[node]
        if names:
            seen = self.web.seen[node]
            for name in names:
                value_before = current.get(name)
                seen[name] = value_before[-1] if value_before else self._value(name)
        if len(writes) == 1:
            ((name, _, is_sure),) = writes
            value, value_before = self.web.made[node], current.get(name)
            if not is_sure:
                value = self.web.join(name, [value_before[-1] if value_before else self._value(name), value])
            if value_before is None:
                current[name] = [value]
            else:
                value_before.append(value)
            pushed.append(name)
        elif writes:
            self._write(node, pushed)
        return pushed

    def _link_node(self, node: int) -> list[str]:
        """Link a node's reads and writes; return the names that got a new value."""
        pushed: list[str] = []
        if self._join_at and node in self._join_at:
            for name, join in self._join_at[node].items():
                self._push(name, join, pushed)
        if node < len(self.reads):
            if self.reads[node]:
                self._read(node)
            if self.flow.group_end[node] == node and (self.writes[node] or node in self._grouped):
                self._write(node, pushed)
        if self._join_at:
            self._reach(node)
        return pushed

    def _reach(self, node: int) -> None:
        """Add the current values to the joins of the node's successors."""
        for following in self.flow.successors[node]:
            for name, join in self._join_at.get(following, {}).items():
                self.web.operands[join].append(self._value(name))

    def _push(self, name: str, value: int, pushed: list[str]) -> None:
        stack = self._current.get(name)
        if stack is None:
            self._current[name] = [value]
        else:
            stack.append(value)
        pushed.append(name)

    def _value(self, name: str) -> int:
        value = self._current.get(name)
        if value:
            return value[-1]
        if name not in self._entries:
            self._entries[name] = self.web.enter(name)
        return self._entries[name]

    def _members(self, end: int) -> range:
        start = end
        while start > 0 and self.flow.group_end[start - 1] == end:
            start -= 1
        return range(start, end + 1)

    def _read(self, node: int) -> None:
        seen, current = self.web.seen[node], self._current
        for name in self.reads[node]:
            value = current.get(name)
            seen[name] = value[-1] if value else self._value(name)
        if node not in self._grouped:
            return
        end = self.flow.group_end[node]
        if end not in self._stored:
            self._stored[end] = self._stored_by(end)
        for name, stored in self._stored[end].items():
            if name in seen:
                seen[name] = self.web.join(name, [seen[name], *stored])

    def _stored_by(self, end: int) -> dict[str, list[int]]:
        """What members of a group write to places, which every member may read."""
        stored: dict[str, list[int]] = {}
        for member in self._members(end):
            for node, write in enumerate(self.writes[member], self.web.made[member]):
                if write.kind is Kind.STORED:
                    stored.setdefault(write.name, []).append(node)
        return stored

    def _write(self, end: int, pushed: list[str]) -> None:
        """Apply the writes of a step, or of all members of a group: where two set one name, either value may
        remain.
        """
        writes = self.writes[end]
        are_apart = len(writes) == 1 or len({write.name for write in writes}) == len(writes)
        if are_apart and end not in self._grouped:
            node = self.web.made[end]
            for name, _, is_sure in writes:
                value = node if is_sure else self.web.join(name, [self._value(name), node])
                self._push(name, value, pushed)
                node += 1
            return
        nodes_of: dict[str, list[int]] = {}
        sure: dict[str, bool] = {}
        for member in self._members(end):
            for value, write in enumerate(self.writes[member], self.web.made[member]):
                nodes_of.setdefault(write.name, []).append(value)
                sure[write.name] = sure.get(write.name, False) or write.sure
        for name, values in nodes_of.items():
            if len(values) == 1 and sure[name]:
                self._push(name, values[0], pushed)
            else:
                before = [] if sure[name] else [self._value(name)]
                self._push(name, self.web.join(name, [*before, *values]), pushed)
