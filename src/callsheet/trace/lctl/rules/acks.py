"""Rules about an ack and the document that it acknowledges (A01-A07, H04 of its lists)."""

from __future__ import annotations

from callsheet.trace.lctl.confidence import is_flagged
from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.model import Ack, not_blank
from callsheet.trace.lctl.rules.single import check_twice

STATUSES = ("received",)


def check_status(ack: Ack, notes: Notes) -> None:
    """A07: the only status that the specification has, in any case of letters as that of a chain."""
    status = not_blank(ack.status)
    if status is not None and status.casefold() not in STATUSES:
        notes.add("A07", f"the status {status[:40]!r} is unknown", "lctl_ack", "status")


def check_ack(ack: Ack, hop: Hop, notes: Notes) -> None:
    """A01-A06 and H04: the ack compared to the document that it acknowledges.

    An ack that is no mapping has been reported as such, and names nothing to compare.
    """
    if "lctl_ack" in ack.beside:
        return
    chain = hop.body.chain
    ours, theirs = not_blank(ack.chain_id), not_blank(chain.id)
    if ours is not None and theirs not in (None, ours):
        message = f"the ack is of chain {ours[:40]!r}, the document of {theirs!r:.42}"
        notes.add("A01", message, "lctl_ack", "chain_id")
    if ack.step is not None and chain.step is not None and ack.step - chain.step not in (0, 1):
        message = f"the ack is of step {ack.step}, the document of step {chain.step}"
        notes.add("A02", message, "lctl_ack", "step")
    agent, target = not_blank(ack.agent), not_blank(chain.target)
    if agent is not None and target not in (None, agent):
        message = f"the ack is of {agent[:40]!r}, the document for {target!r:.42}"
        notes.add("A03", message, "lctl_ack", "agent")
    check_twice(ack.facts_loaded or (), notes, "lctl_ack", "facts_loaded")
    check_twice(ack.confidence_concerns or (), notes, "lctl_ack", "confidence_concerns")
    _check_facts(ack, hop, notes)


def _check_facts(ack: Ack, hop: Hop, notes: Notes) -> None:
    document = hop.body
    if "facts_loaded" not in ack.extra:
        loaded = dict.fromkeys(ack.facts_loaded or ())
        for fact in document.critical:
            if fact not in loaded and fact in document.facts:
                notes.add(
                    "A04",
                    f"the critical fact {shown_id(fact)} was not loaded",
                    "lctl_ack",
                    "facts_loaded",
                    fact=fact,
                )
        for fact in loaded:
            if fact not in document.facts:
                notes.add("A05", f"{shown_id(fact)} was not sent", "lctl_ack", "facts_loaded", fact=fact)
    if "confidence_concerns" not in ack.extra:
        concerns = frozenset(ack.confidence_concerns or ())
        for fact in document.critical:
            if fact in document.facts and is_flagged(hop.effective.get(fact)) and fact not in concerns:
                message = f"{shown_id(fact)} is below 0.70 or unknown, and no concern of the ack"
                notes.add("A06", message, "lctl_ack", "confidence_concerns", fact=fact)
