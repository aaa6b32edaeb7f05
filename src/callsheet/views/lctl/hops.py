"""Renders a chain of hand-offs by hop: source and target, lost facts, the confidence of each fact."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.trace.lctl.check import Report
from callsheet.trace.lctl.confidence import Confidence, is_flagged
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.model import Ack, Body, Kind
from callsheet.trace.lctl.rules.table import Level
from callsheet.views.columns import cut, pad, printable, width

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
