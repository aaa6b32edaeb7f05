"""Builds the spans of one visit of a step: its own, with those of items, attempts and turns as children.

In: a finished visit with its calls. Out: spans, the visit's own first.

A step with one call is one span, that of the call; one with several attempts or items has a span of its own
with a child for each attempt or item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from callsheet.ir import Call, Goto, Replan, Respond, Step, Terminate
from callsheet.machine.trace_ids import span_id
from callsheet.views.otel.calls import Called, attempts_in
from callsheet.views.otel.model import Attributes, Link, Span, SpanEvent
from callsheet.views.otel.names import Kind, OpenInference, Own, Wrong
from callsheet.views.otel.operations import Teller

LEFT = ("interrupted", "waiting")
"""The statuses of a visit that was running when its process ended."""
_MOST_EVENTS = 128


@dataclass(slots=True)
class OpenVisit:
    """A visit of a step until it is exported. Times are nanoseconds since 1970.

    `label` is its name in the run, such as `r1/S3@2`; `plan` is the number of the plan in the run, from 0.
    `status` is empty while it runs. `again_after` is the id of its span in an earlier segment.
    """

    id: int
    label: str
    step: Step
    plan: int
    number: int
    began: int
    status: str = ""
    ended: int = 0
    wrong: Wrong | None = None
    said: str = ""
    failed_items: int = 0
    cast_failed: bool = False
    expired: bool = False
    again_after: str = ""
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])
    dropped: int = 0
    write: int = -1
    """The number of its write, -1 for none."""

    @property
    def is_left(self) -> bool:
        """Whether its process ended while it was running."""
        return self.status in LEFT

    def happened(self, event: SpanEvent) -> None:
        """Record an event; over the limit it is only counted."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(event)
        else:
            self.dropped += 1


@dataclass(frozen=True, slots=True)
class Producer:
    """A visit that others read from or wait for: its label, the id of its span, when it ended."""

    label: str
    span_id: str
    ended: int


@dataclass(frozen=True, slots=True)
class Place:
    """The context of a visit's spans: the segment and its root span, the visits it depends on, the links."""

    segment: int
    root: str
    producers: tuple[Producer, ...] = ()
    links: tuple[Link, ...] = ()


def visit_spans(teller: Teller, visit: OpenVisit, calls: Sequence[Called], place: Place) -> list[Span]:
    """Returns the spans of a visit; a call without an answer ends with the visit."""
    spans = _spans(teller, visit, calls, place)
    own = spans[0]
    spans[0] = replace(
        own,
        events=tuple(visit.events),
        links=place.links,
        dropped_events=visit.dropped,
        end=max(own.end, own.start),
    )
    return spans


def _spans(teller: Teller, visit: OpenVisit, calls: Sequence[Called], place: Place) -> list[Span]:
    attributes = _attributes(visit, place)
    own_id = span_id(teller.about.run_id, place.segment, visit.label)
    action, now = visit.step.action, visit.ended
    if isinstance(action, Replan) and calls:
        *earlier, last = calls
        del earlier
        return teller.planning(last, place.root, now, attributes, own_id)
    if not isinstance(action, Call):
        name = _word(visit.step)
        attributes[OpenInference.KIND] = Kind.CHAIN
        return [_own(teller, visit, own_id, name, attributes, place, (visit.began, now))]
    tool = action.tool
    items = attempts_in(calls)
    if visit.step.foreach is not None:
        return _items(teller, visit, items, own_id, tool, attributes, place)
    attempts = items.get(0, {})
    times = _times(visit, calls)
    if len(attempts) == 1:
        ((key, within),) = attempts.items()
        spans = teller.attempt(key, tool, within, place.root, now, attributes, is_left=visit.is_left)
        spans[0] = _as_visited(teller, visit, spans[0], times)
        return spans
    name, of_call = teller.operation(tool, visit.label, action.kind)
    own = _own(teller, visit, own_id, name, of_call | attributes, place, times)
    return [own, *_tries(teller, visit, attempts, own_id, tool, {})]


def _items(
    teller: Teller,
    visit: OpenVisit,
    items: dict[int, dict[str, list[Called]]],
    own_id: str,
    tool: str,
    attributes: Attributes,
    place: Place,
) -> list[Span]:
    """Returns the span of a FOREACH and one for each item below it."""
    calls = [called for attempts in items.values() for within in attempts.values() for called in within]
    attributes |= {OpenInference.KIND: Kind.CHAIN, Own.ITEMS: len(items)}
    if visit.failed_items:
        attributes[Own.ITEMS_FAILED] = visit.failed_items
    spans = [_own(teller, visit, own_id, f"foreach {tool}", attributes, place, _times(visit, calls))]
    for item, attempts in items.items():
        index: Attributes = {Own.STEP: visit.step.id, Own.ITEM: item}
        if len(attempts) == 1:
            ((key, within),) = attempts.items()
            spans += teller.attempt(key, tool, within, own_id, visit.ended, index, is_left=visit.is_left)
            continue
        item_id = span_id(teller.about.run_id, place.segment, visit.label, item)
        tries = _tries(teller, visit, attempts, item_id, tool, index)
        name, of_call = teller.operation(tool, f"{visit.label}.{item}", visit.step.action.kind)  # type: ignore[union-attr]
        times = min(span.start for span in tries), max(span.end for span in tries)
        last = [span for span in tries if span.parent_id == item_id][-1]
        own = teller.span(item_id, own_id, name, times, of_call | index)
        if last.error is not None:
            own = replace(own, error=last.error, attributes=own.attributes | _error_in(last))
        spans += [own, *tries]
    return spans


def _tries(
    teller: Teller,
    visit: OpenVisit,
    attempts: dict[str, list[Called]],
    parent: str,
    tool: str,
    also: Attributes,
) -> list[Span]:
    made: list[Span] = []
    for number, (key, within) in enumerate(attempts.items(), 1):
        numbered: Attributes = {**also, Own.ATTEMPT: number}
        made += teller.attempt(key, tool, within, parent, visit.ended, numbered, is_left=visit.is_left)
    return made


def _own(
    teller: Teller,
    visit: OpenVisit,
    own_id: str,
    name: str,
    attributes: Attributes,
    place: Place,
    times: tuple[int, int],
) -> Span:
    return teller.span(own_id, place.root, name, times, attributes, visit.wrong, visit.said)


def _as_visited(teller: Teller, visit: OpenVisit, span: Span, times: tuple[int, int]) -> Span:
    """Returns the span of a visit's only call as that of the visit: failed if the visit failed."""
    start, end = times
    error, attributes = span.error, span.attributes
    if visit.wrong is None:
        error = None
        attributes = {name: value for name, value in attributes.items() if name not in _error_in(span)}
    elif error is None:
        error = teller.error(visit.said)
        attributes = attributes | {_ERROR: visit.wrong}
    return replace(
        span, start=min(start, span.start), end=max(end, span.end), error=error, attributes=attributes
    )


_ERROR = "error.type"


def _error_in(span: Span) -> Attributes:
    return {name: value for name, value in span.attributes.items() if name == _ERROR}


def _times(visit: OpenVisit, calls: Sequence[Called]) -> tuple[int, int]:
    """Returns begin and end of a visit: from its start or an earlier call to its last answer."""
    if not calls:
        return visit.began, visit.ended
    end = max(called.ended or visit.ended for called in calls)
    return min(visit.began, *(called.left for called in calls)), end


def _attributes(visit: OpenVisit, place: Place) -> Attributes:
    step = visit.step
    made: Attributes = {
        Own.STEP: step.id,
        Own.STEP_STATUS: visit.status,
        Own.SEGMENT: place.segment,
        OpenInference.NODE: visit.label,
        OpenInference.NODE_NAME: _word(step),
    }
    if visit.label != step.id:
        made[Own.VISIT] = visit.label
    if visit.plan:
        made[Own.PLAN_VERSION] = visit.plan
    if step.output is not None:
        made[Own.OUTPUT] = step.output.var
    if visit.cast_failed:
        made[Own.CAST_FAILED] = True
    if place.producers:
        made[Own.DEPENDS_ON] = tuple(producer.label for producer in place.producers)
        made[OpenInference.NODE_PARENT] = max(place.producers, key=lambda each: each.ended).label
    if visit.write >= 0:
        made[Own.FACT] = f"F{visit.write + 1}"
    return made


def _word(step: Step) -> str:
    """Returns the tool of a step, or the word of its control action."""
    match step.action:
        case Call(tool=tool):
            return tool
        case Respond():
            return "respond"
        case Terminate():
            return "terminate"
        case Goto():
            return "goto"
        case Replan():
            return "re-plan"
