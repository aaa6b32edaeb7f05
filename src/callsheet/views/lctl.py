"""Renders LCTL documents: the chain as a flowchart, facts with their confidence, hops, differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import cast

from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.confidence import Confidence, Hop, band_of, is_blocked, is_flagged, needs_review
from callsheet.trace.lctl.diff import Changed, Diff
from callsheet.trace.lctl.graph import Carried, ChainGraph, Edge, GraphNode, failed_step, graph_of, root_cause
from callsheet.trace.lctl.model import Ack, Body, DebugDocument, Entry, Fact, Kind, shown_id, shown_ids
from callsheet.trace.lctl.rules.table import Level
from callsheet.views.columns import cut, escape_label, escaped, pad, printable, width

_MOST_VALUE = 60


def changes_text(diff: Diff) -> str:
    """Returns the differences: `+` added, `-` removed, `~` changed.

    >>> from callsheet.trace.lctl.diff import diff as differences
    >>> from callsheet.trace.lctl.model import Chain, Handoff
    >>> a = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.9),))
    >>> b = Handoff(Chain("c"), trace=(Entry(1, "reader", "Read", 0.8),))
    >>> print(changes_text(differences(a, b)))
    ~ step 1 reader
        confidence: 0.9 → 0.8
    first divergence at step 1
    """
    if diff.is_equal:
        return "no difference (times, the chain's id and shifted step numbers are ignored)"
    return "\n".join(_lines(diff))


def _lines(diff: Diff) -> Iterator[str]:
    for change in diff.steps_changed:
        yield f"~ step {change.step or '?'} {_short(change.agent or '?')}"
        yield from (_change(name, values) for name, values in change.fields.items())
    yield from (f"- {_step(entry)}" for entry in diff.steps_removed)
    yield from (f"+ {_step(entry)}" for entry in diff.steps_added)
    for fact, fields in diff.facts_changed.items():
        yield f"~ fact {_short(fact)}"
        yield from (_change(name, values) for name, values in fields.items())
    yield from (f"- fact {_short(fact)}" for fact in diff.facts_removed)
    yield from (f"+ fact {_short(fact)}" for fact in diff.facts_added)
    for name, values in diff.rest_changed.items():
        yield f"~ {name}"
        yield _change("", values)
    if diff.first_divergence_step is not None:
        yield f"first divergence at step {diff.first_divergence_step}"


def _step(entry: Entry) -> str:
    return f"step {entry.step or '?'} {_short(entry.agent or '?')}: {_short(entry.action or '')}"


def _change(name: str, values: Changed) -> str:
    head = f"{name}: " if name else ""
    return f"    {head}{_shown(values.old)} → {_shown(values.new)}"


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, tuple):
        return _short(", ".join(map(str, cast("tuple[object, ...]", value))) or "none")
    return _short(str(value))


def _short(text: str) -> str:
    return cut(escaped(text[:400]), _MOST_VALUE)


_MOST_ID = 16


def hops_text(report: Report, *, columns: int = 100) -> str:
    """Returns a line for each document, then a line for each fact with its effective confidence at every hop.

    >>> from callsheet.trace.lctl.check import check
    >>> block = "lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\n"
    >>> block += "facts: {F1: {text: t, confidence: 0.5}}\\ninstruction: go"
    >>> print(hops_text(check([block])))
    1  step 1  a → b  1 fact, 1 critical  2 warnings
    <BLANKLINE>
    fact   1
    F1   .50!
    """
    lines = [*_documents(report), "", *_confidence_table(report)]
    return "\n".join(cut(printable(line[: columns * 8]), columns).rstrip() for line in lines).rstrip("\n")


def _documents(report: Report) -> Iterator[str]:
    rows: list[tuple[str, str, str, str]] = []
    for place, document in enumerate(report.documents):
        rows.append((str(place + 1), *_describe(document), _findings_text(report, place)))
    widths = [max((width(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        yield "  ".join([*(pad(cell, widths[n]) for n, cell in enumerate(row[:3])), row[3]])


def _describe(document: object) -> tuple[str, str]:
    if isinstance(document, Ack):
        return f"ack by {_name(document.agent)}", f"{document.status or '?'}"
    if not isinstance(document, Body):
        return "(unreadable)", ""
    chain = document.chain
    if document.kind is Kind.DEBUG:
        who = f"post-mortem: {_name(chain.status)}"
    else:
        who = f"step {chain.step or '?'}  {_name(chain.source)} → {_name(chain.target)}"
    count = len(document.facts)
    critical = sum(fact in document.facts for fact in document.critical)
    return who, f"{count} fact{'s' if count != 1 else ''}, {critical} critical"


def _name(name: str | None) -> str:
    return cut(printable((name or "?")[:200]), 24)


def _findings_text(report: Report, place: int) -> str:
    findings = report.of(place)
    errors = sum(finding.is_error for finding in findings)
    warnings = sum(finding.level is Level.WARN for finding in findings)
    parts = [
        f"{count} {word}{'s' if count != 1 else ''}"
        for count, word in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    hop = report.hops.get(place)
    lost = [lost.fact for lost in report.lost if hop is not None and lost.hop == hop.number]
    if lost:
        parts.append(f"lost {', '.join(cut(shown_id(fact), _MOST_ID) for fact in lost)}")
    return ", ".join(parts) or "ok"


def _confidence_table(report: Report) -> Iterator[str]:
    """Yields effective confidence by fact and hop; `!` marks values below 0.70, `x` a lost fact."""
    hops = list(report.hops.items())
    ids = list(dict.fromkeys(fact for _, hop in hops for fact in hop.body.facts))
    if not ids:
        return
    lost = {(entry.fact, entry.hop) for entry in report.lost}
    first = max(4, *(min(width(shown_id(fact)), _MOST_ID) for fact in ids))
    yield "  ".join([pad("fact", first), *(f"{place + 1:>2} " for place, _ in hops)])
    for fact in ids:
        cells = [
            _cell(hop.effective[fact])
            if fact in hop.effective
            else " x  "
            if (fact, hop.number) in lost
            else " -  "
            for _, hop in hops
        ]
        yield f"{pad(cut(shown_id(fact), _MOST_ID), first)} " + " ".join(cells)


def _cell(value: Confidence) -> str:
    if value is None:
        return " ?! "
    shown = "1.0" if value >= 0.995 else f"{value:.2f}"[1:]
    return f"{shown}{'!' if is_flagged(value) else ' '}"


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
