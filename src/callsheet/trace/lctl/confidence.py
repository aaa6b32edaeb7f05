"""The effective confidence of facts from hop to hop, and the facts that a hop drops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from callsheet.diagnostics.wrong_type import wanted, wanted_list, wanted_number
from callsheet.trace.lctl.model import Ack, Body, DebugDocument, Document, Entry, Handoff

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


class DroppedFacts(Mapping[str, Confidence]):
    """A mapping of facts to confidences, in portions that the documents of a chain share.

    A later portion takes precedence. Each is at most half as large as the one before, so that the time
    for a long chain is proportional to the number of facts that it leaves, up to a logarithm.
    """

    def __init__(
        self, portions: tuple[Mapping[str, Confidence], ...] = (), carried: Set[str] = frozenset()
    ) -> None:
        self._portions = portions
        self._carried = carried

    def but(self, carried: Set[str]) -> DroppedFacts:
        """A view without the facts that are carried."""
        return DroppedFacts(self._portions, carried)

    def with_more(self, more: Mapping[str, Confidence]) -> DroppedFacts:
        """A copy with more facts."""
        portions = [*self._portions, more] if more else [*self._portions]
        while len(portions) > 1 and len(portions[-2]) < 2 * len(portions[-1]):
            last, before = portions.pop(), portions.pop()
            portions.append({**before, **last})
        return DroppedFacts(tuple(portions))

    def __getitem__(self, fact: str) -> Confidence:
        if fact not in self._carried:
            for portion in reversed(self._portions):
                if fact in portion:
                    return portion[fact]
        raise KeyError(fact)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(fact for portion in self._portions for fact in portion)
        return (fact for fact in names if fact not in self._carried)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class Hop:
    """A document with its parents and the effective confidence of its facts.

    `number` is its index among the documents other than acks, from 1. `left` are facts that earlier
    documents carried, with their last confidence, which limits that of the same fact if it returns.
    """

    body: Handoff | DebugDocument
    above: tuple[Hop, ...]
    effective: Effective
    number: int
    left: DroppedFacts

    @property
    def parents(self) -> tuple[Body, ...]:
        """The documents of the parents."""
        return tuple(hop.body for hop in self.above)

    @property
    def is_merge(self) -> bool:
        """Whether the document has several parents."""
        return len(self.above) > 1


def wanted_hops(name: str, given: object) -> list[Hop]:
    """The documents that are given with their parents, or TypeError."""
    each = wanted_list(name, given, "documents with their parents (.hops of a report)")
    return [wanted(f"each of {name}", hop, Hop, "a document with its parents (a hop)") for hop in each]


def known_before(parents: Sequence[Hop]) -> list[Effective]:
    """The earlier confidences of facts: in each of the parents, and of facts no longer carried."""
    carried = frozenset(fact for parent in parents for fact in parent.effective)
    return [*(parent.effective for parent in parents), *(parent.left.but(carried) for parent in parents)]


def left_behind(body: Body, parents: Sequence[Hop], before: Sequence[Effective]) -> DroppedFacts:
    """The earlier facts that a document does not carry, with their lowest confidence.

    With one parent, only its facts have to be examined, since `DroppedFacts` has the earlier ones; with
    several parents all are.
    """
    looked = [parent.effective for parent in parents] if len(parents) == 1 else before
    names = dict.fromkeys(fact for known in looked for fact in known if fact not in body.facts)
    more = {fact: lowest([known[fact] for known in before if fact in known]) for fact in names}
    return (parents[0].left if len(parents) == 1 else DroppedFacts()).with_more(more)


def parents_of(
    documents: Sequence[Document | None], topology: Mapping[int, Sequence[int]] | None = None
) -> dict[int, tuple[int, ...]]:
    """The indexes of each document's parents; by default that of the last readable document before it.

    An ack's parent is the document that it acknowledges. Only documents that come earlier count.

    >>> from callsheet.trace.lctl.model import Chain, Handoff
    >>> hop = Handoff(Chain("c"))
    >>> parents_of([hop, hop, hop], {2: [0, 1]})
    {0: (), 1: (0,), 2: (0, 1)}
    """
    parents: dict[int, tuple[int, ...]] = {}
    last: int | None = None
    for place, document in enumerate(documents):
        if topology is not None and place in topology:
            named = dict.fromkeys(topology[place])
            parents[place] = tuple(n for n in named if 0 <= n < place and isinstance(documents[n], Body))
        else:
            parents[place] = () if last is None else (last,)
        if document is not None and not isinstance(document, Ack):
            last = place
    return parents


def new_entries(document: Body, parent: Body) -> tuple[Entry, ...]:
    """The entries of a document's trace that its parent's does not have, by step and agent."""
    known = Counter((entry.step, entry.agent) for entry in parent.entries)
    entries: list[Entry] = []
    for entry in document.entries:
        key = (entry.step, entry.agent)
        if known[key]:
            known[key] -= 1
        else:
            entries.append(entry)
    return tuple(entries)


def modified_since(document: Body, parents: Sequence[Body]) -> frozenset[str]:
    """The facts_modified of the entries that no parent has."""
    if not parents:
        return frozenset()
    added = [{id(entry) for entry in new_entries(document, parent)} for parent in parents]
    new = added[0].intersection(*added[1:])
    return frozenset(fact for entry in document.entries if id(entry) in new for fact in entry.facts_modified)
