"""Builds the graph of a chain: who handed which facts to whom, with forks and joins.

In: documents with their effective confidence. Out: nodes, which are the steps in order and the agents that
have not acted yet, and edges with the facts that were passed. Documents whose trace a later one contains are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.trace.lctl.cause import root_cause
from callsheet.trace.lctl.confidence import Confidence, Effective
from callsheet.trace.lctl.hops import Hop, wanted_hops
from callsheet.trace.lctl.model import Body, DebugDocument, Entry

_NOBODY = "(nobody)"
_JOIN = "(all of them)"
_MOST_CROSSING = 400
"""The number of edges between two groups from which on they are joined by a node between."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An agent at a step; `entry` is None for one that has not acted yet."""

    agent: str
    level: int
    """The rank of the node; the entries of one level ran in parallel."""
    entry: Entry | None = None
    has_failed: bool = False
    is_cause: bool = False


class Carried(NamedTuple):
    """A fact on an edge, with its effective confidence."""

    fact: str
    confidence: Confidence


class Edge(NamedTuple):
    """An edge between two nodes, by their indexes, with the facts that the first wrote."""

    start: int
    end: int
    facts: tuple[Carried, ...] = ()


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """The nodes, in the order of their levels, and the edges."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


@dataclass(slots=True)
class _Builder:
    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    edges: dict[tuple[int, int], tuple[Carried, ...]] = field(
        default_factory=dict[tuple[int, int], tuple[Carried, ...]]
    )
    by_entry: dict[tuple[int | None, str], int] = field(default_factory=dict[tuple[int | None, str], int])
    waiting: dict[str, int] = field(default_factory=dict[str, int])
    """Nodes of agents that are receivers and have not acted yet."""

    def entry(self, node: GraphNode, key: tuple[int | None, str]) -> int:
        place = self.by_entry.get(key)
        if place is None:
            place = self.waiting.pop(node.agent, None)
            if place is None:
                place = len(self.nodes)
                self.nodes.append(node)
            else:
                self.nodes[place] = node
            self.by_entry[key] = place
        return place

    def point(self, level: int, step: int | None) -> int:
        """The node that joins two wide groups."""
        return self.entry(GraphNode(_JOIN, level), (step, _JOIN))

    def addressed(self, agent: str, level: int) -> int:
        place = self.waiting.get(agent)
        if place is None:
            place = len(self.nodes)
            self.nodes.append(GraphNode(agent, level))
            self.waiting[agent] = place
        return place


def graph_of(hops: Iterable[Hop]) -> ChainGraph:
    """The graph of documents in the order of their chain.

    >>> from callsheet.trace.lctl.check import check
    >>> block = "lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\ninstruction: go"
    >>> graph = graph_of(check([block]).hops.values())
    >>> [node.agent for node in graph.nodes], [(edge.start, edge.end) for edge in graph.edges]
    (['a', 'b'], [(0, 1)])
    """
    builder = _Builder()
    for hop in _without_contained(wanted_hops("hops", hops)):
        _draw(hop.body, hop.effective, builder)
    order = sorted(range(len(builder.nodes)), key=lambda place: (builder.nodes[place].level, place))
    place_of = {old: new for new, old in enumerate(order)}
    edges = sorted(
        (Edge(place_of[start], place_of[end], facts) for (start, end), facts in builder.edges.items()),
        key=lambda edge: edge[:2],
    )
    return ChainGraph(tuple(builder.nodes[place] for place in order), tuple(edges))


def _without_contained(hops: Sequence[Hop]) -> list[Hop]:
    """The documents, without those whose entries and receiver are in the trace of a later one."""
    hops_left: list[Hop] = []
    later: set[tuple[int | None, str | None]] = set()
    agents: set[str | None] = set()
    for hop in reversed(hops):
        keys = {(entry.step, entry.agent) for entry in hop.body.entries}
        if not (keys and keys <= later and hop.body.chain.target in agents):
            hops_left.append(hop)
        later |= keys
        if keys:
            agents |= {entry.agent for entry in hop.body.entries} | {hop.body.chain.source}
    return hops_left[::-1]


def _draw(document: Body, values: Effective, builder: _Builder) -> None:
    chain = document.chain
    cause = root_cause(document) if isinstance(document, DebugDocument) and chain.has_failed else None
    before: list[tuple[int, Entry | None]] = []
    level = 0
    for group in _groups(document.entries):
        if len(before) * len(group) > _MOST_CROSSING:
            point: list[tuple[int, Entry | None]] = [(builder.point(level, group[0].step), Entry())]
            _connect(before, point, document, values, builder)
            before, level = point, level + 1
        now: list[tuple[int, Entry | None]] = []
        for entry in group:
            agent = entry.agent or _NOBODY
            node = GraphNode(
                agent,
                level,
                entry,
                has_failed=entry.has_error
                or (chain.failed_at_step is not None and entry.step == chain.failed_at_step),
                is_cause=cause is not None
                and entry.step == cause.step
                and cause.agent in (None, entry.agent),
            )
            now.append((builder.entry(node, (entry.step, agent)), entry))
        _connect(before, now, document, values, builder)
        before, level = now, level + 1
    named = {entry.agent for entry in document.entries}
    if chain.source is not None and chain.source not in named:
        level = max(level, (chain.step or 1) - 1)
        place = builder.entry(GraphNode(chain.source, level), (chain.step, chain.source))
        sender: list[tuple[int, Entry | None]] = [(place, None)]
        _connect(before, sender, document, values, builder)
        before, level = sender, level + 1
    if chain.target is not None:
        receiver = (builder.addressed(chain.target, level), None)
        _connect(before, [receiver], document, values, builder)


def _connect(
    before: Sequence[tuple[int, Entry | None]],
    now: Sequence[tuple[int, Entry | None]],
    document: Body,
    values: Effective,
    builder: _Builder,
) -> None:
    for start, entry in before:
        written = tuple(document.facts) if entry is None else dict.fromkeys(entry.written)
        facts = tuple(Carried(fact, values[fact]) for fact in written if fact in values)
        for end, _ in now:
            builder.edges[start, end] = facts


def _groups(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries in order, with adjacent parallel ones of the same step in one group."""
    groups: list[list[Entry]] = []
    for entry in entries:
        last = groups[-1][-1] if groups else None
        if last is not None and entry.parallel and last.parallel and entry.step == last.step:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return groups
