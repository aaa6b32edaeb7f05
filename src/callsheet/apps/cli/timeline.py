"""`show --timeline`: the time spans of the calls of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from callsheet.machine.keys import parse_key
from callsheet.store.events import Event, EventType
from callsheet.trace.visit_times import SteadyTime
from callsheet.views.timeline import Span

_ANSWERS = frozenset({EventType.OK, EventType.ERR, EventType.PLAN})


@dataclass(slots=True)
class _Visit:
    step: str
    start: float
    end: float


def spans_of(
    events: Iterable[Event], actions: Mapping[tuple[str, int], str], turns: Mapping[tuple[str, int], float]
) -> list[Span]:
    """A span for each visit of a step that made calls, from its first call to its last answer.

    `actions` describe what a step does in its n-th visit, `turns` have the time of its turn in seconds since
    the epoch. A call without an answer ends with the last event of the run.
    """
    visits: dict[tuple[int, str, int], _Visit] = {}
    last, time = 0.0, SteadyTime()
    open_calls: dict[str, _Visit] = {}
    for event in events:
        last = time.of(event)
        if event.key is None:
            continue
        if event.type is EventType.INTENT:
            key = parse_key(event.key)
            visit = visits.setdefault((key.generation, key.step, key.visit), _Visit(key.step, last, last))
            open_calls[event.key] = visit
        elif event.type in _ANSWERS and event.key in open_calls:
            open_calls.pop(event.key).end = last
    for visit in open_calls.values():
        visit.end = last
    spans: list[Span] = []
    counts: dict[str, int] = {}
    for visit in visits.values():
        counts[visit.step] = count = counts.get(visit.step, 0) + 1
        turn = turns.get((visit.step, count), visit.start)
        action = actions.get((visit.step, count), "")
        spans.append(Span(visit.step, action, visit.start, turn, visit.end))
    return spans
