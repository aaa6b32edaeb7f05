"""Builds the spans of one visit of a step: its own, with those of items, attempts and turns as children.

In: a finished visit with its calls. Out: spans, the visit's own first.

A step with one call is one span, that of the call; one with several attempts or items has a span of its own
with a child for each attempt or item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.ir import Ending, Step, word_of
from callsheet.machine import ToolFacts
from callsheet.machine.keys import span_id, trace_id
from callsheet.trace.lctl.confidence import band_of
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.lineage.reads import Role
from callsheet.trace.projection.record import Outcome, Visit, Write, own_basis
from callsheet.views.otel.model import (
    Attributes,
    CallsheetKey,
    ErrorType,
    Gen,
    Kind,
    Link,
    LinkType,
    OpenInference,
    Span,
    SpanEvent,
)
from callsheet.views.otel.operations import CallRecord, Failure, SpanBuilder, attempts_in

INTERRUPTED_STATUSES = ("interrupted", "waiting")
"""The statuses of a visit that was running when its process ended."""
_MOST_EVENTS = 128


@dataclass(slots=True)
class OpenVisit:
    """A visit of a step until it is exported. Times are nanoseconds since 1970.

    `label` is its name in the run, such as `r1/S3@2`; `plan` is the number of the plan in the run, from 0.
    `status` is empty while it runs. `previous_span_id` is the id of its span in an earlier segment.
    """

    id: int
    label: str
    step: Step
    plan: int
    number: int
    began: int
    status: str = ""
    ended: int = 0
    error_type: ErrorType | None = None
    error_text: str = ""
    failed_items: int = 0
    cast_failed: bool = False
    expired: bool = False
    previous_span_id: str = ""
    events: list[SpanEvent] = field(default_factory=list[SpanEvent])
    dropped: int = 0
    write: int = -1
    """The number of its write, -1 for none."""
    place: str = ""
    """Its name in notes: the id of its step, in a plan with blocks its path."""
    word: str = ""
    """The word for the statement of a plan with blocks that is no call."""

    @property
    def is_interrupted(self) -> bool:
        """Whether its process ended while it was running."""
        return self.status in INTERRUPTED_STATUSES

    @property
    def failure(self) -> Failure | None:
        """Why it failed, None if it did not."""
        return None if self.error_type is None else Failure(self.error_type, self.error_text)

    def add_event(self, event: SpanEvent) -> None:
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
class VisitContext:
    """The context of a visit's spans: the segment and its root span, the visits it depends on, the links."""

    segment: int
    root: str
    producers: tuple[Producer, ...] = ()
    links: tuple[Link, ...] = ()


def visit_spans(
    builder: SpanBuilder, visit: OpenVisit, calls: Sequence[CallRecord], context: VisitContext
) -> list[Span]:
    """Returns the spans of a visit; a call without an answer ends with the visit."""
    spans = _spans(builder, visit, calls, context)
    own = spans[0]
    spans[0] = replace(
        own,
        events=tuple(visit.events),
        links=context.links,
        dropped_events=visit.dropped,
        end=max(own.end, own.start),
    )
    return spans


def _spans(
    builder: SpanBuilder, visit: OpenVisit, calls: Sequence[CallRecord], context: VisitContext
) -> list[Span]:
    attributes = _attributes(visit, context)
    own_id = span_id(builder.about.run_id, context.segment, visit.label)
    call, now = visit.step.call, visit.ended
    if visit.step.course.ends is Ending.NEW_PLAN and calls:
        *earlier, last = calls
        del earlier
        return builder.planning(last, context.root, now, attributes, own_id)
    if call is None:
        name = _word(visit)
        attributes[OpenInference.KIND] = Kind.CHAIN
        return [_own_span(builder, visit, own_id, name, attributes, context, (visit.began, now))]
    tool = call.tool
    items = attempts_in(calls)
    if visit.step.foreach is not None:
        return _items(builder, visit, items, own_id, tool, attributes, context)
    attempts = items.get(0, {})
    times = _times(visit, calls)
    if len(attempts) == 1:
        ((key, within),) = attempts.items()
        spans = builder.attempt(
            key, tool, within, context.root, now, attributes, is_interrupted=visit.is_interrupted
        )
        spans[0] = _as_visited(builder, visit, spans[0], times)
        return spans
    name, of_call = builder.operation(tool, visit.label, call.kind)
    own = _own_span(builder, visit, own_id, name, of_call | attributes, context, times)
    return [own, *_attempt_spans(builder, visit, attempts, own_id, tool, {})]


def _items(
    builder: SpanBuilder,
    visit: OpenVisit,
    items: dict[int, dict[str, list[CallRecord]]],
    own_id: str,
    tool: str,
    attributes: Attributes,
    context: VisitContext,
) -> list[Span]:
    """Returns the span of a FOREACH and one for each item below it."""
    calls = [called for attempts in items.values() for within in attempts.values() for called in within]
    attributes |= {OpenInference.KIND: Kind.CHAIN, CallsheetKey.ITEMS: len(items)}
    if visit.failed_items:
        attributes[CallsheetKey.ITEMS_FAILED] = visit.failed_items
    spans = [_own_span(builder, visit, own_id, f"foreach {tool}", attributes, context, _times(visit, calls))]
    for item, attempts in items.items():
        index: Attributes = {CallsheetKey.STEP: visit.step.id, CallsheetKey.ITEM: item}
        if len(attempts) == 1:
            ((key, within),) = attempts.items()
            spans += builder.attempt(
                key, tool, within, own_id, visit.ended, index, is_interrupted=visit.is_interrupted
            )
            continue
        item_id = span_id(builder.about.run_id, context.segment, visit.label, item)
        attempt_spans = _attempt_spans(builder, visit, attempts, item_id, tool, index)
        name, of_call = builder.operation(tool, f"{visit.label}.{item}", visit.step.call.kind)  # type: ignore[union-attr]
        times = min(span.start for span in attempt_spans), max(span.end for span in attempt_spans)
        last = [span for span in attempt_spans if span.parent_id == item_id][-1]
        own = builder.span(item_id, own_id, name, times, of_call | index)
        if last.error is not None:
            own = replace(own, error=last.error, attributes=own.attributes | _error_in(last))
        spans += [own, *attempt_spans]
    return spans


def _attempt_spans(
    builder: SpanBuilder,
    visit: OpenVisit,
    attempts: dict[str, list[CallRecord]],
    parent: str,
    tool: str,
    extra: Attributes,
) -> list[Span]:
    result: list[Span] = []
    for number, (key, within) in enumerate(attempts.items(), 1):
        numbered: Attributes = {**extra, CallsheetKey.ATTEMPT: number}
        result += builder.attempt(
            key, tool, within, parent, visit.ended, numbered, is_interrupted=visit.is_interrupted
        )
    return result


def _own_span(
    builder: SpanBuilder,
    visit: OpenVisit,
    own_id: str,
    name: str,
    attributes: Attributes,
    context: VisitContext,
    times: tuple[int, int],
) -> Span:
    return builder.span(own_id, context.root, name, times, attributes, visit.failure)


def _as_visited(builder: SpanBuilder, visit: OpenVisit, span: Span, times: tuple[int, int]) -> Span:
    """Returns the span of a visit's only call as that of the visit: failed if the visit failed."""
    start, end = times
    error, attributes = span.error, span.attributes
    if visit.error_type is None:
        error = None
        attributes = {name: value for name, value in attributes.items() if name not in _error_in(span)}
    elif error is None:
        error = builder.error(visit.error_text)
        attributes = attributes | {_ERROR: visit.error_type}
    return replace(
        span, start=min(start, span.start), end=max(end, span.end), error=error, attributes=attributes
    )


_ERROR = "error.type"


def _error_in(span: Span) -> Attributes:
    return {name: value for name, value in span.attributes.items() if name == _ERROR}


def _times(visit: OpenVisit, calls: Sequence[CallRecord]) -> tuple[int, int]:
    """Returns begin and end of a visit: from its start or an earlier call to its last answer."""
    if not calls:
        return visit.began, visit.ended
    end = max(called.ended or visit.ended for called in calls)
    return min(visit.began, *(called.issued for called in calls)), end


def _attributes(visit: OpenVisit, context: VisitContext) -> Attributes:
    step = visit.step
    result: Attributes = {
        CallsheetKey.STEP: step.id,
        CallsheetKey.STEP_STATUS: visit.status,
        CallsheetKey.SEGMENT: context.segment,
        OpenInference.NODE: visit.label,
        OpenInference.NODE_NAME: _word(visit),
    }
    if visit.label != step.id:
        result[CallsheetKey.VISIT] = visit.label
    if visit.plan:
        result[CallsheetKey.PLAN_VERSION] = visit.plan
    if step.output is not None:
        result[CallsheetKey.OUTPUT] = step.output.var
    if visit.cast_failed:
        result[CallsheetKey.CAST_FAILED] = True
    if context.producers:
        result[CallsheetKey.DEPENDS_ON] = tuple(producer.label for producer in context.producers)
        result[OpenInference.NODE_PARENT] = max(context.producers, key=lambda each: each.ended).label
    if visit.write >= 0:
        result[CallsheetKey.FACT] = f"F{visit.write + 1}"
    return result


def _word(visit: OpenVisit) -> str:
    """Returns the tool of a step, or the word of its control action."""
    step = visit.step
    if step.call is None and visit.word:
        return visit.word.lower()
    return word_of(step.action).removeprefix("@").lower() if step.call is None else step.call.tool


class Sources:
    """The exported visits of one run, as targets of links from later visits."""

    def __init__(self, lineage: Lineage, run_id: str) -> None:
        self._lineage = lineage
        self._trace = trace_id(run_id)
        self._producers: dict[int, Producer] = {}
        self._last_of: dict[tuple[int, str], int] = {}
        """The last exported visit, by the number of the plan and the id of the step."""

    def exported(self, visit: OpenVisit, own: Span) -> None:
        """Record that a visit was exported with this span."""
        self._producers[visit.id] = Producer(visit.label, own.span_id, own.end)
        self._last_of[visit.plan, visit.step.id] = visit.id

    def of(self, visit: OpenVisit) -> tuple[tuple[Producer, ...], tuple[Link, ...]]:
        """Returns the visits that this one read from or waited for, and the links of its span.

        If an earlier process had begun the visit, a link leads to its span there.
        """
        names = self._read(visit)
        for step in visit.step.depends_on or ():
            maker = self._last_of.get((visit.plan, step))
            if maker is not None:
                names.setdefault(maker, [])
        known = [
            (self._producers[maker], names[maker]) for maker in sorted(names) if maker in self._producers
        ]
        links = [
            Link(
                self._trace,
                producer.span_id,
                {
                    CallsheetKey.LINK: LinkType.DEPENDS_ON,
                    **({CallsheetKey.LINK_VARIABLES: tuple(read)} if read else {}),
                },
            )
            for producer, read in known
        ]
        if visit.previous_span_id:
            links.append(
                Link(self._trace, visit.previous_span_id, {CallsheetKey.LINK: LinkType.RESUMED_FROM})
            )
        return tuple(producer for producer, _ in known), tuple(links)

    def _read(self, visit: OpenVisit) -> dict[int, list[str]]:
        """Returns the names that a visit has read, by the visit that wrote them."""
        lineage = self._lineage
        names: dict[int, list[str]] = {}
        if visit.status == "skipped" and visit.step.condition is None:
            return names
        lineage_visit = lineage.visits[visit.id]
        if isinstance(lineage, TreeLineage):
            for origin in lineage.origins_of(lineage_visit):
                write = lineage.writes[origin]
                names.setdefault(write.visit, []).append(write.name)
            return names
        for use in lineage.reads_of(lineage_visit).uses:
            if use.role is Role.MESSAGE:
                continue
            write = lineage.version(lineage_visit, use.name)
            maker = NONE if write == NONE else lineage.writes[write].visit
            if maker != NONE and use.name not in names.setdefault(maker, []):
                names[maker].append(use.name)
        return names


NAME = "lctl.confidence"


class FactConfidence(NamedTuple):
    """The confidence of a value, from 0 to 1, and the reason for it."""

    value: float
    why: str

    def attributes(self, write: int) -> Attributes:
        """Returns the attributes of the evaluation event of a write."""
        return {
            Gen.EVALUATION: NAME,
            Gen.SCORE: self.value,
            Gen.SCORE_LABEL: str(band_of(self.value)),
            Gen.EXPLANATION: self.why,
            CallsheetKey.FACT: f"F{write + 1}",
        }


class Confidence:
    """The confidence of the writes of one run; inputs and literals of the plan have 1."""

    def __init__(self, lineage: Lineage, facts: Mapping[str, ToolFacts]) -> None:
        self._lineage = lineage
        self._facts = facts
        self._known: dict[int, float] = {}

    def confidence_of(self, visit: OpenVisit) -> FactConfidence:
        """Returns the confidence of a visit's write: the minimum of its own basis and of its sources."""
        written = self._lineage.writes[visit.write]
        basis = own_basis(
            Visit(
                visit.label,
                visit.step,
                visit.plan,
                visit.number,
                Outcome.OK,
                wrote=(Write(visit.write, written.name, "", 0, written.made is ValueSource.ERROR),),
                failures=visit.failed_items,
                cast_failed=visit.cast_failed,
                expired=visit.expired,
            ),
            self._facts,
            {},
        )
        value = min([basis.value, *(self._known.get(parent, 1.0) for parent in self._parents(visit))])
        self._known[visit.write] = value
        return FactConfidence(value, basis.why)

    def _parents(self, visit: OpenVisit) -> set[int]:
        lineage_visit = self._lineage.visits[visit.id]
        if isinstance(self._lineage, TreeLineage):
            return set(self._lineage.origins_of(lineage_visit))
        roles = (Role.ARGUMENT, Role.SOURCE)
        uses = (use for use in self._lineage.reads_of(lineage_visit).uses if use.role in roles)
        return {write for use in uses if (write := self._lineage.version(lineage_visit, use.name)) != NONE}
