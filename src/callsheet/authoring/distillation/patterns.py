"""How several runs may be read as the same calls and loops.

In: the calls of each run of one job. Out: nodes, calls and loops, with what each run did at each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from callsheet.authoring.distillation.pages import Pages, pages_at
from callsheet.authoring.distillation.recorded_calls import RecordedCall, only_reads
from callsheet.ir import Effect

_MOST_IN_ROUND, _MOST_PATTERNS = 4, 4
MOST_STEPS = 300
"""How many calls and loops in a row are looked through."""


Shape = tuple[str, tuple[str, ...]]
"""The tool of a call, and the names of its arguments."""


class Round(NamedTuple):
    """A round of a loop: the calls that each round makes, and those that it makes any number of times."""

    head: tuple[RecordedCall, ...]
    tails: tuple[tuple[RecordedCall, ...], ...]


class Node(NamedTuple):
    """A call, or a loop of calls, as all runs have it."""

    head: tuple[Shape, ...]
    tail: tuple[Shape, ...] = ()
    is_loop: bool = False
    is_paged: bool = False


Found = RecordedCall | list[Round] | Pages


def patterns(runs: Sequence[Sequence[RecordedCall]]) -> list[tuple[list[Node], list[list[Found]]]]:
    """How all runs may be read as the same nodes, with what each did there: the fewest first."""
    found: list[tuple[list[Node], list[list[Found]]]] = []
    shapes = [shape_of(calls) for calls in runs]
    left = MOST_STEPS

    def search(places: tuple[int, ...], nodes: list[Node], done: list[list[Found]]) -> None:
        nonlocal left
        left -= 1
        if all(place == len(calls) for place, calls in zip(places, runs, strict=True)):
            found.append((nodes, done))
            return
        if left < 0 or len(found) >= _MOST_PATTERNS:
            return
        for node, each, ends in _steps(runs, shapes, places):
            search(ends, [*nodes, node], [[*one, what] for one, what in zip(done, each, strict=True)])

    search((0,) * len(runs), [], [[] for _ in runs])
    return sorted(found, key=lambda one: sum(1 + len(node.head) + 2 * len(node.tail) for node in one[0]))


def shape_of(calls: Sequence[RecordedCall]) -> list[Shape]:
    """The tools of calls, and the names of their arguments."""
    return [(call.tool, tuple(sorted(call.args))) for call in calls]


def paged_first(calls: Sequence[RecordedCall], effects: Mapping[str, Effect]) -> list[RecordedCall]:
    """The calls with all pages of a listing before what was done with the items of each."""
    for tool in dict.fromkeys(call.tool for call in calls):
        same = [one for one in calls if one.tool == tool]
        if len(same) > 1 and only_reads(tool, effects):
            pages = pages_at([same], [0])
            if pages is not None and len(pages[0].calls) == len(same):
                at = calls.index(same[0])
                return [*calls[:at], *same, *(one for one in calls[at:] if one.tool != tool)]
    return [*calls]


def _steps(
    runs: Sequence[Sequence[RecordedCall]], shapes: Sequence[list[Shape]], places: tuple[int, ...]
) -> Iterator[tuple[Node, list[Found], tuple[int, ...]]]:
    """What may come next in all runs, and where it ends: pages, the longest loops, a call."""
    pages = pages_at(runs, places)
    if pages is not None:
        ends = tuple(place + len(one.calls) for place, one in zip(places, pages, strict=True))
        yield Node((shapes[0][places[0]],), is_loop=True, is_paged=True), [*pages], ends
    steps: list[tuple[Node, list[Found], tuple[int, ...]]] = []
    for node in _loops_at(shapes, places):
        each = [
            _rounds(node, calls, one, place) for calls, one, place in zip(runs, shapes, places, strict=True)
        ]
        rounds = [one for one, _ in each]
        is_end = node.tail and all(
            one and one[-1].tails and not any(x.tails for x in one[:-1]) for one in rounds
        )
        if max(map(len, rounds)) > 1 and not is_end:
            steps.append((node, [*rounds], tuple(end for _, end in each)))
    yield from sorted(steps, key=lambda step: -sum(step[2]))
    nexts = {tuple(one[place : place + 1]) for one, place in zip(shapes, places, strict=True)}
    if len(nexts) == 1 and (first := nexts.pop()):
        yield (
            Node(first),
            [calls[place] for calls, place in zip(runs, places, strict=True)],
            tuple(place + 1 for place in places),
        )


def _loops_at(shapes: Sequence[list[Shape]], places: tuple[int, ...]) -> list[Node]:
    """The loops that may begin at these places: their heads, and what follows some of these."""
    found: dict[Node, None] = {}
    for one, place in zip(shapes, places, strict=True):
        for size in range(1, _MOST_IN_ROUND + 1):
            head = tuple(one[place : place + size])
            if len(head) < size:
                break
            found[Node(head, (), True)] = None
            for each in shapes:
                for at in range(len(each) - size):
                    after = at + size
                    if tuple(each[at:after]) != head or tuple(each[after : after + size]) == head:
                        continue
                    for tail in range(1, _MOST_IN_ROUND):
                        if tuple(each[after + tail : after + tail + size]) in (
                            head,
                            tuple(each[after : after + tail]),
                        ):
                            found[Node(head, tuple(each[after : after + tail]), True)] = None
                            break
    return [*found]


def _rounds(
    node: Node, calls: Sequence[RecordedCall], shapes: list[Shape], place: int
) -> tuple[list[Round], int]:
    """The rounds of a loop from a place on, and where they end."""
    rounds: list[Round] = []
    size = len(node.head)
    while tuple(shapes[place : place + size]) == node.head:
        head, tails = tuple(calls[place : place + size]), list[tuple[RecordedCall, ...]]()
        place += size
        while node.tail and tuple(shapes[place : place + len(node.tail)]) == node.tail:
            tails.append(tuple(calls[place : place + len(node.tail)]))
            place += len(node.tail)
        rounds.append(Round(head, tuple(tails)))
    return rounds, place
