"""Computes the effective confidence of facts, and what it requires of the receiver.

The stated confidence of a fact is a claim; the effective one is the minimum of that claim, of the claims of
all earlier documents, and of the facts that it derives from. It never rises along a chain. A missing or
invalid value makes it unknown (None), which never counts as certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from callsheet.diagnostics.wrong_type import wanted, wanted_number
from callsheet.trace.lctl.model import Body

Confidence: TypeAlias = float | None
Effective: TypeAlias = Mapping[str, Confidence]
"""The effective confidence of each fact of a document."""

FLAG_BELOW = 0.70
REVIEW_BELOW = 0.60
BLOCK_BELOW = 0.40


class Band(StrEnum):
    """The bands of the confidence table: half-open intervals without gaps."""

    VERIFIED = "verified"
    HIGH = "high"
    MODERATE = "moderate"
    LOW = "low"
    UNCERTAIN = "uncertain"
    UNKNOWN = "unknown"


class VerifiedRaise(StrEnum):
    """How to treat a confidence that a later agent raises and lists in facts_modified."""

    CAP = "cap"
    """It stays capped at the earlier value; the default."""
    ACCEPT = "accept"
    """The new value holds from there on."""


def band_of(value: Confidence) -> Band:
    """The band of a value.

    >>> [str(band_of(value)) for value in (0.95, 0.9499, 0.6, 0.4, 0.39, None)]
    ['verified', 'high', 'moderate', 'low', 'uncertain', 'unknown']
    """
    if value is None:
        return Band.UNKNOWN
    wanted_number("value", value, "a number from 0 to 1, or None")
    edges = ((0.95, Band.VERIFIED), (0.80, Band.HIGH), (0.60, Band.MODERATE), (0.40, Band.LOW))
    return next((band for edge, band in edges if value >= edge), Band.UNCERTAIN)


def lowest(values: Iterable[Confidence]) -> Confidence:
    """The minimum of confidences; None if one of them is None, or if there are none.

    >>> lowest([0.9, 0.7]), lowest([0.9, None])
    (0.7, None)
    """
    known = list(values)
    stated = [value for value in known if value is not None]
    return min(stated) if stated and len(stated) == len(known) else None


def is_flagged(value: Confidence) -> bool:
    """Whether a critical fact with this effective confidence is a concern (below 0.70, or unknown)."""
    return value is None or value < FLAG_BELOW


def needs_review(value: Confidence) -> bool:
    """Whether a fact needs human review before it is used (0.40 to below 0.60)."""
    return value is not None and BLOCK_BELOW <= value < REVIEW_BELOW


def is_blocked(value: Confidence) -> bool:
    """Whether a fact must not be handed on (below 0.40)."""
    return value is not None and value < BLOCK_BELOW


def effective(
    document: Body, before: Sequence[Effective] = (), raised: Iterable[str] = ()
) -> dict[str, Confidence]:
    """The effective confidence of each fact of a document.

    `before` are those of its parent documents; `raised` are the facts whose stated value replaces that of
    the parents (`VerifiedRaise.ACCEPT`). A fact that another one derives from and that is no longer
    carried counts with the value of the parents.

    >>> from callsheet.trace.lctl.model import Chain, Fact, Handoff
    >>> facts = {"F1": Fact("F1", "t", 0.5), "F2": Fact("F2", "u", 0.9, derived_from=("F1",))}
    >>> effective(Handoff(Chain("c"), facts), [{"F1": 0.4}])
    {'F1': 0.4, 'F2': 0.4}
    """
    wanted("document", document, Body, "a hand-off or a debug document")
    free = frozenset(raised)
    own: dict[str, Confidence] = {}
    for fact_id, fact in document.facts.items():
        earlier = [] if fact_id in free else [known[fact_id] for known in before if fact_id in known]
        own[fact_id] = lowest([fact.confidence, *earlier])
    return _through_derivations(document, own, before)


def _through_derivations(
    document: Body, own: Mapping[str, Confidence], before: Sequence[Effective]
) -> dict[str, Confidence]:
    """The values lowered to the minimum over the facts that each derives from, transitively.

    Facts are processed from the lowest value on and each once, so cycles terminate.
    """
    values = dict(own)
    children: dict[str, list[str]] = {}
    for fact_id, fact in document.facts.items():
        for parent in fact.derived_from:
            children.setdefault(parent, []).append(fact_id)
            dropped = [known[parent] for known in before if parent in known]
            if parent not in values and dropped:
                values[parent] = lowest(dropped)
    if not children:
        return values
    final: dict[str, Confidence] = {}
    for fact_id in sorted(values, key=lambda known: _rank(values[known])):
        reached = [fact_id]
        while reached:
            name = reached.pop()
            if name not in final:
                final[name] = values[fact_id]
                reached.extend(children.get(name, ()))
    return {fact_id: final[fact_id] for fact_id in own}


def _rank(value: Confidence) -> float:
    return -1.0 if value is None else value
