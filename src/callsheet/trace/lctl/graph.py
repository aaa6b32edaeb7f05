"""The graph of a chain of hand-offs, and the likely cause of a failure in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics.wrong_type import wanted
from callsheet.trace.lctl.confidence import FLAG_BELOW, Confidence, Effective, Hop, effective, wanted_hops
from callsheet.trace.lctl.model import Body, DebugDocument, Entry, Fact

_MOST_WORDS = 4_000
"""The number of characters of an analysis that are searched for agents."""


class Evidence(StrEnum):
    """The kind of evidence for a cause."""

    ANALYSIS = "analysis"
    NOTE = "note"
    CONFIDENCE = "confidence"
    FAILED_AT_STEP = "failed_at_step"


class Cause(NamedTuple):
    """The likely cause: its step, the kind of evidence, and the evidence in words."""

    step: int
    by: Evidence
    because: str
    agent: str | None = None
    """The agent of the step, if the evidence names it."""


def root_cause(document: DebugDocument) -> Cause | None:
    """The likely cause of a failure; None if there is no evidence.

    >>> from callsheet.trace.lctl.model import Analysis, Chain
    >>> trace = (Entry(1, "prober"), Entry(2, "payer", error="refused"))
    >>> chain = Chain("c", status="FAILED", failed_at_step=2)
    >>> root_cause(DebugDocument(chain, trace=trace, analysis=Analysis("prober looked elsewhere"))).step
    1
    """
    wanted("document", document, DebugDocument, "a debug document")
    return _named_by_analysis(document) or _noted(document) or _least_sure(document) or _failed(document)


def _named_by_analysis(document: DebugDocument) -> Cause | None:
    named = document.analysis.root_cause if document.analysis is not None else None
    if named is None:
        return None
    named = named[:_MOST_WORDS]
    folded = named.casefold()
    agents = {entry.agent for entry in document.entries if entry.agent and entry.step is not None}
    for agent in sorted(agents, key=lambda name: (-len(name), name)):
        if agent.casefold() in folded and re.search(
            rf"(?<![\w-]){re.escape(agent)}(?![\w-])", named, re.IGNORECASE
        ):
            step = next(e.step for e in document.entries if e.agent == agent and e.step is not None)
            return Cause(step, Evidence.ANALYSIS, f"the analysis names {agent}: {named}", agent)
    return None


def _noted(document: DebugDocument) -> Cause | None:
    facts = [
        (step, place, fact)
        for place, fact in enumerate(document.facts.values())
        if fact.note is not None and fact.note.startswith("ISSUE")
        and (step := _step_of(fact, document)) is not None
    ]  # fmt: skip
    if not facts:
        return None
    step, _, fact = min(facts, key=lambda row: row[:2])
    return Cause(step, Evidence.NOTE, f"the note of {fact.id}: {fact.note}")


def _least_sure(document: DebugDocument) -> Cause | None:
    values = effective(document)
    known = _known_at_failure(document)
    candidates = [
        (value, step, fact_id)
        for fact_id, fact in document.facts.items()
        if fact_id in known
        and (value := values[fact_id]) is not None
        and value < FLAG_BELOW
        and (step := _adder_of(fact_id, document) or fact.step) is not None
    ]
    if not candidates:
        return None
    value, step, fact_id = min(candidates)
    return Cause(step, Evidence.CONFIDENCE, f"{fact_id}, known at the failure, is {value:g}")


def failed_step(document: DebugDocument) -> int | None:
    """The step that failed: the one that the chain names, or else that of the last entry with an error.

    None for a chain whose status says that it has not failed.
    """
    chain = document.chain
    if chain.failed_at_step is not None:
        return chain.failed_at_step
    if chain.status is not None and not chain.has_failed:
        return None
    errors = (entry.step for entry in reversed(document.entries) if entry.has_error)
    return next((step for step in errors if step is not None), None)


def _failed(document: DebugDocument) -> Cause | None:
    step = failed_step(document)
    if step is None:
        return None
    return Cause(step, Evidence.FAILED_AT_STEP, "nothing points to an earlier step")


def failed_entries(document: DebugDocument) -> tuple[Entry, ...]:
    """The entries of the step that failed."""
    failed = failed_step(document)
    return tuple(entry for entry in document.entries if failed is not None and entry.step == failed)


def _known_at_failure(document: DebugDocument) -> frozenset[str]:
    failed = failed_entries(document)
    known = [entry.facts_at_failure for entry in failed if entry.facts_at_failure is not None]
    if known:
        return frozenset(fact for facts in known for fact in facts)
    last = failed_step(document)
    return frozenset(
        fact
        for entry in document.entries
        if last is None or entry.step is None or entry.step < last
        for fact in entry.facts_added
    )


def _step_of(fact: Fact, document: DebugDocument) -> int | None:
    return fact.step if fact.step is not None else _adder_of(fact.id, document)


def _adder_of(fact_id: str, document: DebugDocument) -> int | None:
    return next((e.step for e in document.entries if fact_id in e.facts_added), None)


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
