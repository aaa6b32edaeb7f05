"""Checks LCTL blocks, in the order of their chain; the types of what `callsheet lctl` prints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, TypedDict, cast

from callsheet.apps.operations.schema import Object, Ordinal
from callsheet.diagnostics import render, to_json
from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.confidence import VerifiedRaise
from callsheet.trace.lctl.findings import Finding, worst_first
from callsheet.trace.lctl.reading import read
from callsheet.trace.lctl.yaml_text import MOST_BYTES

_PLACE = ("line", "column", "end_line", "end_column", "help")


class FindingRow(TypedDict):
    """A finding about a document, with its place."""

    document: Ordinal
    source: str
    rule: Annotated[str, "the rule, such as P01; `explain` shows its page"]
    level: str
    message: str
    fact: NotRequired[str]
    path: list[Any]
    line: NotRequired[Ordinal]
    column: NotRequired[Ordinal]
    end_line: NotRequired[Ordinal]
    end_column: NotRequired[Ordinal]
    help: NotRequired[str]


class ConfidenceRow(TypedDict):
    """The confidence of the facts of the last document, and the lost facts."""

    effective: Annotated[Object, "the effective confidence of each fact of the last document"]
    flagged: list[str]
    human_review: list[str]
    blocked: list[str]
    lost: list[Object]


class ChainRow(ConfidenceRow):
    """The documents of a chain, with what of their facts is left."""

    ok: Annotated[bool, "whether no rule of level error is violated"]
    documents: list[Object]


class HandOffRow(ConfidenceRow):
    """What the last document of a chain hands on, or, of a post-mortem, what failed."""

    document: Annotated[Object | None, "the document as data"]
    failed_step: NotRequired[Annotated[int | None, "its number in the chain"]]
    root_cause: NotRequired[Annotated[Object | None, "the likely cause: step, by, because"]]


class ChainGraphRow(TypedDict):
    """The agents of a chain, and the facts passed between them."""

    format: str
    graph: Annotated[str, "the drawing"]
    nodes: Annotated[list[Object], "the agents: agent, step, failed, root_cause"]
    edges: Annotated[list[Object], "from, to, and facts with their confidence"]


class DocumentDifference(TypedDict):
    """The differences between two LCTL documents."""

    equal: bool
    first_divergence_step: int | None
    steps_added: list[Object]
    steps_removed: list[Object]
    steps_changed: list[Object]
    facts_added: list[str]
    facts_removed: list[str]
    facts_changed: Annotated[Object, "by fact: old and new of each changed field"]
    rest_changed: Annotated[Object, "old and new of each further changed field"]


class AckRow(TypedDict):
    """An acknowledgement, and the facts that a person has to look at."""

    ack: Annotated[Object, "the acknowledgement as data"]
    human_review: list[str]
    blocked: Annotated[list[str], "the facts that must not be handed on before a person has decided"]


class LctlResult(ChainRow):
    """The documents of a chain with their findings."""

    findings: list[FindingRow]


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

    def to_json(self) -> LctlResult:
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


def finding_rows(report: Report, findings: Iterable[Finding]) -> list[FindingRow]:
    """Findings as JSON objects, with their places."""
    rows: list[FindingRow] = []
    for finding in findings:
        source = report.readings[finding.document].source
        row: FindingRow = {
            "document": finding.document + 1,
            "source": source.name,
            "rule": finding.rule,
            "level": str(finding.level),
            "message": finding.message,
            "path": list(finding.path),
        }
        if finding.fact is not None:
            row["fact"] = finding.fact
        (place,) = to_json([finding.diagnostic], source)
        more = {key: place[key] for key in _PLACE if key in place}
        rows.append(cast("FindingRow", {**row, **more}))
    return rows


def confidence_row(report: Report) -> ConfidenceRow:
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
