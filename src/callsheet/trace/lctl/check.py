"""Checks a chain of documents against all rules.

In: texts or documents, and the parents of each. Out: a `Report` with findings, effective confidences and lost
facts. Errors in documents are reported, not raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet.diagnostics.wrong_type import wanted, wrong
from callsheet.trace.lctl.confidence import (
    Effective,
    Hop,
    VerifiedRaise,
    effective,
    is_blocked,
    is_flagged,
    known_before,
    left_behind,
    needs_review,
    parents_of,
)
from callsheet.trace.lctl.findings import Finding, LctlError, Notes, placed
from callsheet.trace.lctl.model import Ack, Body, DebugDocument, Document, Handoff
from callsheet.trace.lctl.reading import Reading, read
from callsheet.trace.lctl.rules.documents import (
    check_ack,
    check_debug,
    check_derived,
    check_facts,
    check_failures,
    check_lists,
    check_order,
    check_status,
    check_step,
    check_worth,
    check_writers,
)
from callsheet.trace.lctl.rules.hops import check_hop, check_ids, check_merge, lost_facts, raised_facts
from callsheet.trace.lctl.write import write


class Lost(NamedTuple):
    """A critical fact that a document no longer carries; hops count documents from 1, without acks."""

    fact: str
    hop: int


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    `parents` are the indexes of each document's parents; `hops` has the readable documents other than
    acks, by their index.
    """

    readings: tuple[Reading, ...]
    findings: tuple[Finding, ...]
    parents: Mapping[int, tuple[int, ...]]
    hops: Mapping[int, Hop]
    lost: tuple[Lost, ...]

    @property
    def is_ok(self) -> bool:
        """Whether there are no errors."""
        return not any(finding.is_error for finding in self.findings)

    @property
    def documents(self) -> tuple[Document | None, ...]:
        """The documents; None for a text that could not be read."""
        return tuple(reading.document for reading in self.readings)

    @property
    def last(self) -> Hop | None:
        """The last document other than an ack; None if there is none."""
        return self.hops[max(self.hops)] if self.hops else None

    @property
    def effective(self) -> Effective:
        """The effective confidence of each fact of the document `last`."""
        return self.last.effective if self.last is not None else {}

    @property
    def flagged(self) -> tuple[str, ...]:
        """The critical facts of that document that are below 0.70 or unknown."""
        return tuple(fact for fact in self._critical() if is_flagged(self.effective[fact]))

    @property
    def human_review(self) -> tuple[str, ...]:
        """The facts handed on by that document that need human review (0.40 to below 0.60)."""
        return tuple(fact for fact in self._handed_on() if needs_review(self.effective[fact]))

    @property
    def blocked(self) -> tuple[str, ...]:
        """The facts that that document hands on although they are below 0.40."""
        return tuple(fact for fact in self._handed_on() if is_blocked(self.effective[fact]))

    def of(self, document: int) -> tuple[Finding, ...]:
        """The findings of one document."""
        return tuple(finding for finding in self.findings if finding.document == document)

    def require(self) -> None:
        """Raise `LctlError` with the errors of the first document that has any."""
        for place, reading in enumerate(self.readings):
            errors = [finding for finding in self.of(place) if finding.is_error]
            if errors:
                raise LctlError.of(errors, reading.source)

    def _critical(self) -> list[str]:
        return [] if self.last is None else [f for f in self.last.body.critical if f in self.effective]

    def _handed_on(self) -> list[str]:
        return [] if self.last is None else [f for f in self.last.body.handed_on if f in self.effective]


def check(
    blocks: Iterable[str | bytes | Document | Reading],
    parents: Mapping[int, Sequence[int]] | None = None,
    *,
    verified_raise: VerifiedRaise = VerifiedRaise.CAP,
) -> Report:
    """Check documents in the order of their chain.

    `blocks` are texts (or answers of models with the block in a code fence), documents, or results of
    `read`. `parents` maps the index of a document (from 0) to those of its parents: two or more make it
    a merge; by default, the parent is the document before. `verified_raise` determines whether a
    confidence that was raised and is listed in facts_modified stays capped. Raises TypeError for blocks of
    other types.

    >>> text = "lctl: '3.0'\\nchain: {id: c, step: 1, from: a, to: b}\\ninstruction: go\\n"
    >>> check([text]).is_ok
    True
    >>> [finding.rule for finding in check([text.replace("step: 1", "step: 0")]).findings]
    ['C04']
    """
    wanted("blocks", blocks, Iterable, "a list of documents")
    if isinstance(blocks, str | bytes):
        raise wrong("blocks", blocks, "a list of documents")
    readings = tuple(_reading(block, place) for place, block in enumerate(blocks))
    documents = [reading.document for reading in readings]
    above = parents_of(documents, parents)
    hops: dict[int, Hop] = {}
    findings: list[Finding] = []
    lost: list[Lost] = []
    for place, (reading, document) in enumerate(zip(readings, documents, strict=True)):
        notes = Notes(place)
        if isinstance(document, Body):
            hop = _hop(document, [hops[n] for n in above[place]], len(hops) + 1, verified_raise)
            hops[place] = hop
            _check_body(hop, notes)
            lost.extend(Lost(fact, hop.number) for fact in lost_facts(hop))
        elif isinstance(document, Ack):
            check_status(document, notes)
            for parent in above[place]:
                check_ack(document, hops[parent], notes)
        findings.extend(finding._replace(document=place) for finding in reading.findings)
        findings.extend(placed(notes.findings, reading.root))
    return Report(readings, tuple(findings), above, hops, tuple(lost))


def _reading(block: object, place: int) -> Reading:
    if isinstance(block, Reading):
        return block
    if not isinstance(block, str | bytes | Handoff | DebugDocument | Ack):
        raise wrong(f"document {place + 1}", block, "a text, its bytes or a document")
    text = block if isinstance(block, str | bytes) else write(block)
    return read(text, f"<document {place + 1}>")


def _hop(
    body: Handoff | DebugDocument, parents: Sequence[Hop], number: int, verified_raise: VerifiedRaise
) -> Hop:
    above = tuple(parent.body for parent in parents)
    raised = raised_facts(body, above) if verified_raise is VerifiedRaise.ACCEPT else ()
    before = known_before(parents)
    worth = effective(body, before, raised)
    return Hop(body, tuple(parents), worth, number, left_behind(body, parents, before))


def _check_body(hop: Hop, notes: Notes) -> None:
    document = hop.body
    for within in (check_step, check_order, check_writers, check_failures, check_facts, check_lists):
        within(document, notes)
    for among in (check_worth, check_derived, check_merge, check_ids, check_hop):
        among(hop, notes)
    if isinstance(document, DebugDocument):
        check_debug(document, notes)
