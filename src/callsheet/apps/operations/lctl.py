"""Checks LCTL blocks, in the order of their chain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from callsheet.diagnostics import render, to_json
from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.confidence import VerifiedRaise
from callsheet.trace.lctl.findings import Finding, worst_first
from callsheet.trace.lctl.reading import read
from callsheet.trace.lctl.yaml_text import MOST_BYTES


@dataclass(frozen=True, slots=True)
class LctlChecked:
    """The blocks of a chain with their findings."""

    report: Report

    @property
    def ok(self) -> bool:
        """Whether no rule of level error is broken."""
        return self.report.is_ok

    @property
    def findings(self) -> list[Finding]:
        """The findings, worst first."""
        return worst_first(self.report.findings)

    def lines(self) -> list[str]:
        """The findings as text, one each."""
        readings = self.report.readings
        return [render(finding.diagnostic, readings[finding.document].source) for finding in self.findings]

    def to_json(self) -> dict[str, Any]:
        """The documents, the findings and the confidence of the facts, as data."""
        return {
            "ok": self.ok,
            "documents": document_rows(self.report),
            "findings": finding_rows(self.report, self.findings),
            **confidence_row(self.report),
        }


def check_blocks(texts: Iterable[str], verified_raise: VerifiedRaise = VerifiedRaise.CAP) -> LctlChecked:
    """Check the blocks of one chain, in its order; each text has one block.

    A text may be the whole answer of a model, with the block in a code fence.

    >>> check_blocks(["no block"]).ok
    False
    """
    readings = [read(text[: MOST_BYTES + 1].encode(), f"<block {n}>") for n, text in enumerate(texts, 1)]
    return LctlChecked(check(readings, {}, verified_raise=verified_raise))


def finding_rows(report: Report, findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON objects, with their places."""
    rows: list[dict[str, Any]] = []
    for finding in findings:
        source = report.readings[finding.document].source
        row: dict[str, Any] = {"document": finding.document + 1, "source": source.name}
        row |= {"rule": finding.rule, "level": str(finding.level), "message": finding.message}
        if finding.fact is not None:
            row["fact"] = finding.fact
        row["path"] = list(finding.path)
        place = to_json([finding.diagnostic], source)[0]
        row |= {
            key: place[key] for key in ("line", "column", "end_line", "end_column", "help") if key in place
        }
        rows.append(row)
    return rows


def confidence_row(report: Report) -> dict[str, Any]:
    """The confidence of the facts of the last document, and the lost facts, as data."""
    return {
        "effective": dict(report.effective),
        "flagged": list(report.flagged),
        "human_review": list(report.human_review),
        "blocked": list(report.blocked),
        "lost": [lost._asdict() for lost in report.lost],
    }


def document_rows(report: Report) -> list[dict[str, Any]]:
    """The documents, each with its kind and its position in the chain, as data."""
    rows: list[dict[str, Any]] = []
    for place, (reading, document) in enumerate(zip(report.readings, report.documents, strict=True)):
        row: dict[str, Any] = {"document": place + 1, "source": reading.source.name}
        row["kind"] = None if document is None else str(document.kind)
        row["ok"] = not any(finding.is_error for finding in report.of(place))
        hop = report.hops.get(place)
        if hop is not None:
            chain = hop.body.chain
            row |= {"chain": chain.id, "step": chain.step, "from": chain.source, "to": chain.target}
            row["follows"] = [parent + 1 for parent in report.parents[place]]
            row["effective"] = dict(hop.effective)
        rows.append(row)
    return rows
