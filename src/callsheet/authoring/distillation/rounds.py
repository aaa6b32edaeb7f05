"""Recorded calls in rounds of loops: what repeats, also where rounds have loops of their own, end early, or
are the pages of one list.

In: calls in order. Out: segments; a segment of one round is no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from callsheet.authoring.distillation.pages import Pages, pages_at
from callsheet.authoring.distillation.recorded_calls import RecordedCall, texts_in

_MOST_IN_ROUND = 5
"""The most calls of one round of a loop."""

Round = tuple[RecordedCall, ...]
Shape = tuple[str, tuple[str, ...]]
"""The tool of a call, and the names of its arguments."""


class Segment(NamedTuple):
    """Rounds of calls, with the same tools and arguments.

    Each has `head` calls, and after them any number of times the same `tail` calls; or they are `pages`.
    """

    rounds: tuple[Round, ...]
    head: int
    tail: int = 0
    pages: Pages | None = None

    def times(self) -> list[int]:
        """How often each round makes the calls of the tail."""
        return [(len(one) - self.head) // self.tail if self.tail else 0 for one in self.rounds]


def segments(
    calls: Sequence[RecordedCall], is_known: Callable[[Segment], bool], reads: frozenset[str] = frozenset()
) -> list[Segment]:
    """The calls in rounds: the longest repetition at each place. `reads` are tools that change nothing.

    `is_known` tells whether it is known how often each round of a segment makes the calls of its tail.
    """
    found: list[Segment] = []
    shapes = shape_of(calls)
    place = 0
    while place < len(calls):
        pages = pages_at(calls, place, calls[place].tool in reads)
        if pages is not None:
            found.append(Segment(tuple((call,) for call in pages.calls), 1, pages=pages))
            place += len(pages.calls)
            continue
        best = Segment(((calls[place],),), 1)
        for length in range(1, _MOST_IN_ROUND + 1):
            count = _repeats(shapes, place, length)
            rounds = tuple(
                tuple(calls[start : start + length]) for start in range(place, place + count * length, length)
            )
            if count > 1 and count * length > _size(best) and not _is_chain(rounds):
                best = Segment(rounds, length)
        for head, tail in product(range(1, _MOST_IN_ROUND), repeat=2):
            nested = _nested(calls, shapes, place, (head, tail))
            if nested is None or _size(nested) < _size(best):
                continue
            if (not best.tail or _size(nested) > _size(best)) and is_known(nested):
                best = nested
        found.append(best)
        place += _size(best)
    return found


def _size(segment: Segment) -> int:
    return sum(map(len, segment.rounds))


def _nested(
    calls: Sequence[RecordedCall], shapes: Sequence[Shape], place: int, sizes: tuple[int, int]
) -> Segment | None:
    """Rounds of as many calls as the first size says, and then, any number of times, as the second says."""
    head, tail = sizes
    start = shapes[place : place + head]
    ends = (
        shapes[at : at + tail]
        for at in range(place + head, len(calls) - tail + 1)
        if shapes[at - head : at] == start
    )
    end = next((each for each in ends if each[0] != start[0]), None)
    if end is None:
        return None
    rounds, at = list[Round](), place
    while shapes[at : at + head] == start:
        until = at + head
        while shapes[until : until + tail] == end:
            until += tail
        rounds.append(tuple(calls[at:until]))
        at = until
    return Segment(tuple(rounds), head, tail) if len(rounds) > 1 and not _is_chain(rounds) else None


def _repeats(shapes: Sequence[Shape], place: int, length: int) -> int:
    """How often the next `length` calls follow each other."""
    shape = shapes[place : place + length]
    count = 1
    while len(shape) == length and shapes[place + count * length : place + (count + 1) * length] == shape:
        count += 1
    return count


def _is_chain(rounds: Sequence[Round]) -> bool:
    """Whether each of such rounds takes a text from the result of the one before: they are no loop."""
    return all(
        {text for call in after for text in texts_in(call.args)}
        & {text for call in before for text in texts_in(call.result)}
        - {text for call in before for text in texts_in(call.args)}
        for before, after in pairwise(rounds)
    )


def shape_of(calls: Sequence[RecordedCall]) -> list[Shape]:
    """The tools of calls, and the names of their arguments."""
    return [(call.tool, tuple(sorted(call.args))) for call in calls]
