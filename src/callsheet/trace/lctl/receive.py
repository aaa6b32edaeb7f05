"""The receiving protocol in six steps, for agents of any framework.

`receive` (1) parses the block, (2) loads its trace and (3) checks the confidence of its critical facts; the
`Received` has (4) the ack, (5) the instruction with its context, and (6) the next document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.confidence import Effective, VerifiedRaise
from callsheet.trace.lctl.emit import Work, hand_on
from callsheet.trace.lctl.emit import merge as merge_hops
from callsheet.trace.lctl.findings import Finding, LctlError
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.model import Ack, Document, Entry, Fact, Handoff
from callsheet.trace.lctl.reading import Reading

BLOCKED = "V05"
"""The rule on facts below 0.40: such a hand-off is received, but needs human review."""


@dataclass(frozen=True, slots=True)
class Received:
    """A hand-off that was received and checked."""

    document: Handoff
    report: Report

    @property
    def trace(self) -> tuple[Entry, ...]:
        """The steps so far."""
        return self.document.entries

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts of the document."""
        return tuple(self.document.facts.values())

    @property
    def effective(self) -> Effective:
        """The effective confidence of each fact; None if unknown."""
        return self.report.effective

    @property
    def concerns(self) -> tuple[str, ...]:
        """The critical facts below 0.70 or unknown."""
        return self.report.flagged

    @property
    def human_review(self) -> tuple[str, ...]:
        """The facts that need human review before they are used."""
        return self.report.human_review

    @property
    def blocked(self) -> tuple[str, ...]:
        """The facts below 0.40, which must not be handed on without human review."""
        return self.report.blocked

    @property
    def instruction(self) -> str:
        """The instruction for the receiver."""
        return self.document.instruction or ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings on this document."""
        return self.report.of(len(self.report.readings) - 1)

    @property
    def hop(self) -> Hop:
        """The document with its parents and confidences."""
        return self.report.hops[len(self.report.readings) - 1]

    def ack(self, agent: str | None = None, *, loaded: Iterable[str] | None = None) -> Ack:
        """The ack of this hand-off by its target; `loaded` are the loaded facts, by default all.

        Concerns are determined by the effective confidence, not by the stated one.
        """
        chain = self.document.chain
        facts = tuple(self.document.facts) if loaded is None else tuple(loaded)
        return Ack(chain.id, chain.step, agent or chain.target, "received", facts, self.concerns)

    def hand_on(self, work: Work) -> Handoff:
        """The next document: with the trace, the critical facts, and effective confidences.

        Raises `LctlError` if the work breaks a rule, for example with an id that is taken.
        """
        return hand_on(self.hop, work)


def receive(
    block: str | bytes | Document | Reading,
    *,
    agent: str | None = None,
    after: Sequence[str | bytes | Document | Reading] = (),
    parents: Mapping[int, Sequence[int]] | None = None,
    accept: Collection[str] = (BLOCKED,),
    verified_raise: VerifiedRaise = VerifiedRaise.CAP,
) -> Received:
    """Receive a hand-off: parse it, load its trace, and check the confidence of its facts.

    `block` is its text, or an answer of a model with the block in a code fence. `agent` is the
    receiver, if it is to be checked against the target. `after` are the earlier documents of the
    chain, in order; with them a confidence that was lowered before cannot be raised again. If branches were
    joined, `parents` has the parents of each document, as for `check`. `accept` are rules of level error
    that the caller handles. Raises `LctlError` for any other error.

    >>> block = '''
    ... lctl: "3.0"
    ... chain: {id: auth-001, step: 2, from: analyzer, to: fixer}
    ... facts:
    ...   F1: {text: "SQL injection in UserController.py:45", confidence: 0.65}
    ... instruction: Fix the SQL injection vulnerability
    ... '''
    >>> got = receive(block)
    >>> got.instruction, got.concerns
    ('Fix the SQL injection vulnerability', ('F1',))
    >>> got.ack().confidence_concerns
    ('F1',)
    >>> done = Work(agent="fixer", to="tester", instruction="Test the fix",
    ...             facts=[Fact("F2", "parameterized the query", 0.9)])
    >>> got.hand_on(done).chain.step
    3
    """
    report = check([*after, block], parents, verified_raise=verified_raise)
    place = len(report.readings) - 1
    source = report.readings[place].source
    errors = [f for f in report.of(place) if f.is_error and f.rule not in accept]
    document = report.documents[place]
    if document is None or errors:
        raise LctlError.of(errors, source)
    if not isinstance(document, Handoff):
        raise LctlError.of([Finding("P09", place, f"this is not a hand-off but {document.kind}")], source)
    if agent is not None and document.chain.target != agent:
        message = f"this hand-off is for {document.chain.target or 'nobody'}, not for {agent}"
        raise LctlError.of([Finding("A03", place, message, ("chain", "target"))], source)
    return Received(document, report)


def merge(branches: Sequence[Received | Handoff], work: Work) -> Handoff:
    """The document that joins branches of a chain.

    A `Received` branch counts with its effective confidences. The order of the branches does not matter.
    Raises `LctlError` (M01) if branches use one id for different facts.

    >>> from callsheet.trace.lctl.model import Chain
    >>> a = Handoff(Chain("c", 1, "web", "lead"), {"F1": Fact("F1", "up", 0.9)}, instruction="join")
    >>> b = Handoff(Chain("c", 1, "api", "lead"), {"F1": Fact("F1", "up", 0.7)}, instruction="join")
    >>> merge([a, b], Work(agent="lead", to="ops", instruction="go on")).facts["F1"].confidence
    0.7
    """
    hops = [_hop_of(branch) for branch in wanted_list("branches", branches, "hand-offs")]
    if not hops:
        raise ValueError("a merge needs branches")
    return merge_hops(hops, work)


def _hop_of(branch: object) -> Hop:
    if isinstance(branch, Received):
        return branch.hop
    return check([wanted("each branch", branch, Handoff, "a received or emitted hand-off")]).hops[0]
