"""Links the documents of a chain to their parents, and finds what each adds to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callsheet.diagnostics.wrong_type import wanted, wanted_list
from callsheet.trace.lctl.confidence import Effective, lowest
from callsheet.trace.lctl.dropped_facts import DroppedFacts
from callsheet.trace.lctl.model import Ack, Body, DebugDocument, Document, Entry, Handoff


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
