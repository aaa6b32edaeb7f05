"""Keeps the facts that a chain of documents no longer carries, with their last effective confidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from callsheet.trace.lctl.confidence import Confidence


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
