"""Renders a chain of hand-offs as a Mermaid flowchart; names and texts are escaped."""

from __future__ import annotations

from callsheet.trace.lctl.confidence import is_flagged
from callsheet.trace.lctl.graph import Carried, ChainGraph, GraphNode
from callsheet.trace.lctl.ids import shown_id
from callsheet.views.columns import cut, printable
from callsheet.views.mermaid import escape_label

_MOST_FACTS = 6


def mermaid_chain(graph: ChainGraph) -> str:
    """Returns the chain as a Mermaid `graph TD`, without a code fence.

    Nodes are agents with their steps; arrows have the facts with their confidence.

    >>> from callsheet.trace.lctl.check import check
    >>> from callsheet.trace.lctl.graph import graph_of
    >>> block = "lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\n"
    >>> block += "facts: {F1: {text: t, confidence: 0.5}}\\n"
    >>> print(mermaid_chain(graph_of(check([block + "instruction: go"]).hops.values())))
    graph TD
        n1["a"]
        n2["b"]
        n1 -->|"F1 0.50!"| n2
    """
    if not graph.nodes:
        return 'graph TD\n    empty["No hand-off"]'
    lines = ["graph TD"]
    lines.extend(f"    n{number}{_shape(node)}" for number, node in enumerate(graph.nodes, 1))
    for edge in graph.edges:
        label = facts_label(edge.facts)
        arrow = f'-->|"{escape_label(label)}"|' if label else "-->"
        lines.append(f"    n{edge.start + 1} {arrow} n{edge.end + 1}")
    return "\n".join(lines)


def _shape(node: GraphNode) -> str:
    return f'["{escape_label(" · ".join(node_words(node)))}"]'


def node_words(node: GraphNode) -> list[str]:
    """Returns the agent of a node, its step and confidence, and whether it failed or is the root cause."""
    words = [cut(printable(node.agent[:200]), 32)]
    if node.entry is not None:
        if node.entry.step is not None:
            words.append(f"step {node.entry.step}")
        if node.entry.confidence is not None:
            words.append(f"{node.entry.confidence:.2f}")
    if node.has_failed:
        words.append("FAILED")
    if node.is_cause:
        words.append("root cause")
    return words


def facts_label(facts: tuple[Carried, ...]) -> str:
    """Returns facts with their effective confidence; `!` marks values below 0.70, `?` is unknown.

    >>> facts_label((Carried("F1", 0.96), Carried("F2", 0.5), Carried("F3", None)))
    'F1 0.96, F2 0.50!, F3 ?'
    """
    shown = [f"{cut(shown_id(fact), 16)} {_value(value)}" for fact, value in facts[:_MOST_FACTS]]
    more = len(facts) - _MOST_FACTS
    return ", ".join([*shown, f"and {more} more"] if more > 0 else shown)


def _value(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value:.2f}!" if is_flagged(value) else f"{value:.2f}"
