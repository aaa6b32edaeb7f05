"""Renders a chain of hand-offs for a terminal: the flowchart, the facts, warnings and failures.

Content of a document cannot control the terminal, and no line is wider than it. Severity and confidence
bands are shown as words and marks, without colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from callsheet.trace.lctl.cause import failed_step, root_cause
from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.confidence import Confidence, band_of, is_blocked, is_flagged, needs_review
from callsheet.trace.lctl.graph import ChainGraph, Edge, GraphNode, graph_of
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.ids import shown_id, shown_ids
from callsheet.trace.lctl.model import Ack, DebugDocument, Fact, Kind
from callsheet.views.columns import cut, pad, printable, width
from callsheet.views.lctl.mermaid import facts_label, node_words

_MOST_ID = 16
_LEAST_COLUMNS = 20


def terminal_chain(report: Report, *, columns: int = 100) -> str:
    """Returns the chain as a flowchart from top to bottom; concurrent steps are in one bracket.

    >>> from callsheet.trace.lctl.check import check
    >>> block = "lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\n"
    >>> block += "facts: {F1: {text: t, confidence: 0.5}}\\n"
    >>> print(terminal_chain(check([block + "instruction: go"])))
    chain c
    <BLANKLINE>
    ● a
    │ F1 0.50!
    ○ b
    """
    if report.last is None:
        return "(no hand-off)"
    lines = [f"chain {_chain_ids(report)}", "", *_flow(graph_of(report.hops.values()))]
    return _fitted(lines, columns)


def terminal_document(report: Report, *, columns: int = 100) -> str:
    """Returns the chain's flowchart and the content of its last document.

    The content is its failure, facts, lost facts, warnings and instruction. Without a hand-off, returns the
    last acknowledgement.
    """
    hop = report.last
    if hop is None:
        acks = [document for document in report.documents if isinstance(document, Ack)]
        return _fitted(_ack_lines(acks[-1]) if acks else ["(no document)"], columns)
    body = hop.body
    lines = [f"chain {_chain_ids(report)}  {_head(hop)}", "", *_flow(graph_of(report.hops.values()))]
    if isinstance(body, DebugDocument):
        lines += ["", *_failure(body)]
    if body.facts:
        lines += ["", "facts", *_facts(hop)]
    if report.lost:
        lines += ["", "lost", *(f"  {shown_id(lost.fact)}  at hop {lost.hop}" for lost in report.lost)]
    warnings = body.lists.warnings if body.lists is not None else ()
    if warnings:
        lines += ["", "warnings", *(f"  {text}" for text in warnings)]
    if body.instruction:
        lines += ["", "instruction", *(f"  {line}" for line in body.instruction.strip().splitlines())]
    return _fitted(lines, columns)


def _fitted(lines: Sequence[str], columns: int) -> str:
    most = max(columns, _LEAST_COLUMNS)
    return "\n".join(cut(printable(line[: most * 8]), most).rstrip() for line in lines)


def _chain_ids(report: Report) -> str:
    ids = dict.fromkeys(hop.body.chain.id or "(no id)" for hop in report.hops.values())
    return ", ".join(cut(printable(name[:200]), 40) for name in ids)


def _head(hop: Hop) -> str:
    chain = hop.body.chain
    if hop.body.kind is Kind.DEBUG:
        return chain.status or "post-mortem"
    step = "" if chain.step is None else f"step {chain.step}: "
    return f"{step}{cut(chain.source or '?', 30)} → {cut(chain.target or '?', 30)}"


# ---------------------------------------------------------------- flowchart


def _flow(graph: ChainGraph) -> Iterator[str]:
    """Yields the nodes by level, with the facts that each passes on."""
    numbered = list(enumerate(graph.nodes))
    levels = [list(group) for _, group in groupby(numbered, key=lambda row: row[1].level)]
    leaving: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        leaving.setdefault(edge.start, []).append(edge)
    for level in levels:
        beside = len(level) > 1
        if beside:
            yield "├─┐"
        for place, node in level:
            rail = "│ " if beside else ""
            yield rail + _node(node, has_acted=place in leaving)
            facts = facts_label(leaving[place][0].facts) if place in leaving else ""
            if facts:
                yield f"{rail}│ {facts}"
            elif place in leaving and not beside:
                yield "│"
        if beside and any(place in leaving for place, _ in level):
            yield "├─┘"


def _node(node: GraphNode, *, has_acted: bool) -> str:
    mark = "✗" if node.has_failed else "●" if has_acted or node.entry is not None else "○"
    words = "  ".join(node_words(node))
    action = node.entry.action if node.entry is not None else None
    return f"{mark} {words}  {printable(action[:200])}" if action else f"{mark} {words}"


# ---------------------------------------------------------------- facts


def _facts(hop: Hop) -> Iterator[str]:
    body = hop.body
    ids = max(width(_id(fact)) for fact in body.facts.values())
    critical, handed_on = frozenset(body.critical), frozenset(body.handed_on)
    for fact in body.facts.values():
        place = "critical" if fact.id in critical else "context" if fact.id in handed_on else "kept"
        value = hop.effective[fact.id]
        shown = "?   " if value is None else f"{value:.2f}"
        facts = [
            f"  {pad(_id(fact), ids)}  {shown} {str(band_of(value)).ljust(9)}  {place.ljust(8)}",
            printable((fact.text or "(no text)")[:400]),
        ]
        marks = _marks(fact, value, is_critical=fact.id in critical, is_handed_on=fact.id in handed_on)
        yield f"{facts[0]}  {marks}{facts[1]}"


def _marks(fact: Fact, value: Confidence, *, is_critical: bool, is_handed_on: bool) -> str:
    marks: list[str] = []
    if is_handed_on and is_blocked(value):
        marks.append("do not propagate")
    elif is_handed_on and needs_review(value):
        marks.append("human review")
    elif is_critical and is_flagged(value):
        marks.append("flagged")
    if fact.confidence is not None and value is not None and value < fact.confidence:
        marks.append(f"claims {fact.confidence:.2f}")
    return f"[{', '.join(marks)}] " if marks else ""


def _id(fact: Fact) -> str:
    return cut(shown_id(fact.id), _MOST_ID)


# ---------------------------------------------------------------- failures, acks


def _failure(document: DebugDocument) -> Iterator[str]:
    failed = failed_step(document)
    if failed is not None:
        yield f"failed at step {failed}"
        for entry in document.entries:
            if entry.step == failed and entry.error is not None:
                yield f"  {entry.agent or '?'}: {entry.error}"
    cause = root_cause(document) if document.chain.has_failed else None
    if cause is not None:
        yield f"root cause: step {cause.step}, by {str(cause.by).replace('_', ' ')}"
        yield f"  {cause.because}"
    analysis = document.analysis
    if analysis is not None and analysis.recommendation:
        yield f"recommendation: {analysis.recommendation}"


def _ack_lines(ack: Ack) -> list[str]:
    return [
        f"ack of chain {ack.chain_id or '?'}, step {ack.step or '?'}",
        f"  {ack.agent or '?'}: {ack.status or '?'}",
        f"  facts loaded: {shown_ids(ack.facts_loaded or ()) or 'none'}",
        f"  concerns: {shown_ids(ack.confidence_concerns or ()) or 'none'}",
    ]
