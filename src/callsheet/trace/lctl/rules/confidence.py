"""Rules about the effective confidence of facts on receipt (V03-V07, V09, V10)."""

from __future__ import annotations

from callsheet.trace.lctl.confidence import BLOCK_BELOW, FLAG_BELOW, Confidence, is_blocked, needs_review
from callsheet.trace.lctl.findings import Notes
from callsheet.trace.lctl.hops import Hop
from callsheet.trace.lctl.ids import shown_id
from callsheet.trace.lctl.model import Fact


def check_worth(hop: Hop, notes: Notes) -> None:
    """V03-V07, V10: the facts that are listed, and those that are not."""
    document = hop.body
    handed_on, critical = frozenset(document.handed_on), frozenset(document.critical)
    for fact in document.facts.values():
        value = hop.effective.get(fact.id)
        if value is None:
            continue
        shown = f"{shown_id(fact.id)} is {_fact_text(fact, value)}"
        path = ("facts", fact.id, "confidence")
        if fact.id in critical and value < FLAG_BELOW:
            notes.add("V03", f"the critical fact {shown}", *path, fact=fact.id)
        if fact.id in handed_on:
            _check_handed_on(fact, value, shown, notes)
        elif value < BLOCK_BELOW:
            notes.add("V10", f"{shown}; it is kept, and not handed on", *path, fact=fact.id)


def _check_handed_on(fact: Fact, value: float, shown: str, notes: Notes) -> None:
    path = ("facts", fact.id, "confidence")
    if is_blocked(value):
        notes.add("V05", f"{shown}: do not propagate", *path, fact=fact.id)
    elif needs_review(value):
        notes.add("V04", f"{shown}: human review", *path, fact=fact.id)
    elif value < 0.80:
        notes.add("V07", f"{shown}: verify before acting", *path, fact=fact.id)
    elif value < 0.95 and fact.source is None:
        notes.add("V06", f"{shown} and has no source", *path, fact=fact.id)


def _fact_text(fact: Fact, value: Confidence) -> str:
    if fact.confidence is not None and value is not None and value < fact.confidence:
        return f"{value:g} (it says {fact.confidence:g})"
    return f"{value:g}"


def check_derived(hop: Hop, notes: Notes) -> None:
    """V09: a derived fact with a higher confidence than one that it derives from."""
    for fact in hop.body.facts.values():
        known = [
            (value, parent)
            for parent in fact.derived_from
            if parent != fact.id and (value := hop.effective.get(parent)) is not None
        ]
        if known and fact.confidence is not None and fact.confidence > min(known)[0]:
            value, parent = min(known)
            source = f"{shown_id(parent)} with {value:g}"
            message = f"{shown_id(fact.id)} has {fact.confidence:g}, and derives from {source}"
            notes.add("V09", message, "facts", fact.id, "confidence", fact=fact.id)
