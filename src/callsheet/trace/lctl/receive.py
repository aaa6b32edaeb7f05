"""The receiving protocol in six steps, for agents of any framework, and the check of their replies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from callsheet import lazy
from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.trace.lctl.check import Report, check
from callsheet.trace.lctl.confidence import (
    Effective,
    Hop,
    VerifiedRaise,
    is_blocked,
    is_flagged,
    lowest,
    needs_review,
)
from callsheet.trace.lctl.emit import Work, hand_on
from callsheet.trace.lctl.emit import merge as merge_hops
from callsheet.trace.lctl.findings import Finding, LctlError
from callsheet.trace.lctl.model import Ack, Body, Document, Entry, Fact, Handoff, shown_ids
from callsheet.trace.lctl.reading import Reading
from callsheet.trace.lctl.yaml_text import CutOff, NoBlock, block_of

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


MOST_STATED = 0.85
"""The highest confidence that an agent can state for its own results."""
_IGNORED = frozenset({"X07", "X09", "V05"})
"""Rules that are no errors of a reply: the caller still has facts that the agent does not repeat, and facts
below 0.40 are in `Reply.blocked`."""
_FENCE_END = lazy.pattern(r"[ \t]*(`{3,}|~{3,})[ \t]*(\n|$)")
_FENCE_START = lazy.pattern(r"[ \t]*(`{3,}|~{3,})[^\n]*\n$")


class Reply(NamedTuple):
    """A returned block. `confidence` is the lowest of its new facts, at most 0.85.

    It is None after an error, without new facts, and if that of a new fact is unknown.

    `flagged`, `review` and `blocked` are facts by their effective confidence; `errors` are its errors.
    """

    confidence: float | None
    facts: int
    flagged: tuple[str, ...]
    review: tuple[str, ...]
    blocked: tuple[str, ...]
    errors: tuple[Finding, ...]

    def describe(self) -> str:
        """A summary in one line."""
        if self.errors:
            rules = ", ".join(dict.fromkeys(finding.rule for finding in self.errors))
            return f"its block is rejected: {rules}: {self.errors[0].message}"
        parts = [f"{self.facts} fact{'' if self.facts == 1 else 's'}"]
        for what, ids in (("flagged", self.flagged), ("to review", self.review), ("blocked", self.blocked)):
            parts += [f"{what} {shown_ids(ids)}"] if ids else []
        return "; ".join(parts)


def reply_to(handed: Handoff | None, text: str) -> Reply:
    """Check the text that an agent returns for a hand-off.

    >>> text = "lctl: '3.0'\\nchain: {id: r, step: 2, from: a, to: b}\\ninstruction: ok\\n"
    >>> reply_to(None, text + "facts: {A1: {text: it rains, confidence: 0.97}}").confidence
    0.85
    """
    report = check([text] if handed is None else [handed, text])
    place = len(report.readings) - 1
    document = report.documents[place]
    errors = tuple(f for f in report.of(place) if f.is_error and f.rule not in _IGNORED)
    if not isinstance(document, Body):
        return Reply(None, 0, (), (), (), errors or (Finding("P09", place, "it is not a hand-off"),))
    values = report.hops[place].effective
    new = [fact for fact in document.facts if handed is None or fact not in handed.facts]
    confidence = lowest(values[fact] for fact in new)
    listed = [fact for fact in document.handed_on if fact in values]
    return Reply(
        None if errors or confidence is None else min(confidence, MOST_STATED),
        len(document.facts),
        tuple(fact for fact in document.critical if fact in values and is_flagged(values[fact])),
        tuple(fact for fact in listed if needs_review(values[fact])),
        tuple(fact for fact in listed if is_blocked(values[fact])),
        errors,
    )


def parted(text: str) -> tuple[str, str]:
    """An answer without its fenced block, and the block; "" if it has none.

    >>> parted("It rains.\\n```yaml\\nlctl: '3.0'\\n```\\n")
    ('It rains.', "lctl: '3.0'\\n")
    >>> parted("It rains.")
    ('It rains.', '')
    """
    if "lctl" not in text:
        return text, ""
    try:
        block = block_of(text)
    except (CutOff, NoBlock):
        return text, ""
    start = len(block) - len(block.lstrip(" \n\t"))
    before = text[: text.rfind("\n", 0, start) + 1]
    opener = _FENCE_START.search(before)
    closer = _FENCE_END.match(text, len(block))
    if opener is None or closer is None:  # the whole text is a document, not an answer that contains one
        return text, ""
    return f"{before[: opener.start()]}{text[closer.end() :]}".strip(), text[len(before) : len(block)]
