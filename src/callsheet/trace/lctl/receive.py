"""The receiving protocol in six steps, for agents of any framework.

`receive` takes (1) the block, (2) loads its trace and (3) looks how sure the critical facts are; the
`Received` then gives (4) the ack, (5) the instruction with its context, and (6) the next document.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.confidence import Effective, VerifiedRaise
from callsheet.trace.lctl.emit import Work, hand_on
from callsheet.trace.lctl.emit import merge as merge_hops
from callsheet.trace.lctl.findings import Finding, LctlError
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.model import Ack, Document, Entry, Fact, Handoff
from callsheet.trace.lctl.reading import Reading

BLOCKED = "V05"
"""The rule of facts below 0.40: such a hand-off is received, and needs a person."""


@dataclass(frozen=True, slots=True)
class Received:
    """A hand-off that was received and checked, with all that was found in it."""

    document: Handoff
    report: Report

    @property
    def trace(self) -> tuple[Entry, ...]:
        """What happened before."""
        return self.document.entries

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The facts that came along."""
        return tuple(self.document.facts.values())

    @property
    def effective(self) -> Effective:
        """What each fact is worth; None is unknown."""
        return self.report.effective

    @property
    def concerns(self) -> tuple[str, ...]:
        """The critical facts below 0.70 or unknown."""
        return self.report.flagged

    @property
    def human_review(self) -> tuple[str, ...]:
        """The facts that a person has to look at before they are used."""
        return self.report.human_review

    @property
    def blocked(self) -> tuple[str, ...]:
        """The facts too unsure to be handed on; the hand-off needs a person."""
        return self.report.blocked

    @property
    def instruction(self) -> str:
        """What is to be done."""
        return self.document.instruction or ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules say of this document."""
        return self.report.of(len(self.report.readings) - 1)

    @property
    def hop(self) -> Hop:
        """The document in its chain."""
        return self.report.hops[len(self.report.readings) - 1]

    def ack(self, agent: str | None = None, *, loaded: Iterable[str] | None = None) -> Ack:
        """The ack of this hand-off, by its target; `loaded` are the facts taken up, all of them by default.

        Concerns are listed by what facts are worth, not by what they say.
        """
        chain = self.document.chain
        facts = tuple(self.document.facts) if loaded is None else tuple(loaded)
        return Ack(chain.id, chain.step, agent or chain.target, "received", facts, self.concerns)

    def hand_on(self, work: Work) -> Handoff:
        """The next document: the trace kept, critical facts carried, values at what they are worth.

        Raises `LctlError` where the work would break a rule, such as an id that is taken.
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
    """Receive a hand-off: parse it, load its trace, check how sure its facts are.

    `block` is its text, or the whole answer of a model with the block in a code fence. `agent` is who
    receives it, if that is to be checked against the target. `after` are the documents before it in the
    chain, in order: with them nothing that sank on the way comes up unseen. Where branches were joined,
    `parents` says which of them each follows, by place from 0, as for `check`. `accept` are rules of level
    error that the caller deals with. Raises `LctlError` for any other error.

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
        raise LctlError.of([Finding("P09", place, f"this is no hand-off but {document.kind}")], source)
    if agent is not None and document.chain.target != agent:
        said = f"this hand-off is for {document.chain.target or 'nobody'}, not for {agent}"
        raise LctlError.of([Finding("A03", place, said, ("chain", "target"))], source)
    return Received(document, report)


def merge(branches: Sequence[Received | Handoff], work: Work) -> Handoff:
    """The document in which branches of a chain come together.

    A branch that was received counts with what its facts are worth. The order of the branches does not
    change what holds. Raises `LctlError` (M01) where branches give one id to different facts.

    >>> from callsheet.trace.lctl.model import Chain
    >>> a = Handoff(Chain("c", 1, "web", "lead"), {"F1": Fact("F1", "up", 0.9)}, instruction="join")
    >>> b = Handoff(Chain("c", 1, "api", "lead"), {"F1": Fact("F1", "up", 0.7)}, instruction="join")
    >>> merge([a, b], Work(agent="lead", to="ops", instruction="go on")).facts["F1"].confidence
    0.7
    """
    if not branches:
        raise ValueError("a merge needs branches")
    hops = [branch.hop if isinstance(branch, Received) else check([branch]).hops[0] for branch in branches]
    return merge_hops(hops, work)
