"""Converts the event stream of a run to spans and log records, incrementally, and its spans to metrics.

In: the entries of a journal, one after another. Out: spans and log records of what has finished, each once.
The machine reports what happens and when, the lineage which visit read from which. The same entries give the
same spans, whether they are read at once or while the run continues. Histograms are cumulative and each is of
one run, so that sending them twice counts nothing twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from callsheet.ir import JSON, Plan
from callsheet.machine import Compile, Result, Status
from callsheet.machine.keys import span_id, trace_id, visit_of
from callsheet.machine.notes import Note
from callsheet.store.events import Entry, EventType, decode_intents
from callsheet.store.records import PlanOf
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.record import attending
from callsheet.views.otel.model import (
    AGENT_DURATION,
    MODEL_DURATION,
    TOKEN_USAGE,
    TOOL_DURATION,
    WORKFLOW_DURATION,
    Attributes,
    CallsheetKey,
    ErrorType,
    EventName,
    Gen,
    Histogram,
    Kind,
    Link,
    LinkType,
    LogRecord,
    Measure,
    Op,
    OpenInference,
    Rpc,
    Span,
    Telemetry,
)
from callsheet.views.otel.operations import Calls, Failure, RunDescription, SpanBuilder, as_text, describe_run
from callsheet.views.otel.visit_tracker import VisitTracker
from callsheet.views.otel.visits import Confidence, OpenVisit, Sources, VisitContext, visit_spans

_DURATIONS = {
    Op.CHAT: MODEL_DURATION,
    Op.TOOL: TOOL_DURATION,
    Op.AGENT: AGENT_DURATION,
    Op.WORKFLOW: WORKFLOW_DURATION,
}
_METRIC_ATTRIBUTES = (
    Gen.OPERATION,
    Gen.PROVIDER,
    Gen.REQUEST_MODEL,
    Gen.RESPONSE_MODEL,
    Gen.TOOL,
    Gen.AGENT,
    Gen.WORKFLOW,
    Rpc.ERROR,
)
_NANO = 1e-9


@dataclass(slots=True)
class _Series:
    measure: Measure
    attributes: Attributes
    counts: list[int]
    total: float = 0.0
    least: float = float("inf")
    most: float = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.measure.bounds, value)] += 1
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)


@dataclass(slots=True)
class MetricsCollector:
    """Accumulates the metrics of one run."""

    _series: dict[tuple[str, tuple[tuple[str, object], ...]], _Series] = field(
        default_factory=dict["tuple[str, tuple[tuple[str, object], ...]]", _Series]
    )

    def count(self, spans: Iterable[Span]) -> None:
        """Count spans; of a step or item with several attempts, only the attempts are counted."""
        holders: set[str] = set()
        spans = list(spans)
        for span in spans:
            if CallsheetKey.ATTEMPT in span.attributes:
                holders.add(span.parent_id)
        for span in spans:
            measure = _DURATIONS.get(span.attributes.get(Gen.OPERATION))  # type: ignore[arg-type]
            was_made = span.attributes.get(CallsheetKey.STEP_STATUS) != "skipped"
            if measure is None or span.span_id in holders or not was_made:
                continue
            attributes: Attributes = {
                str(n): span.attributes[n] for n in _METRIC_ATTRIBUTES if n in span.attributes
            }
            self._add(measure, attributes, (span.end - span.start) * _NANO)
            if measure is MODEL_DURATION:
                self._tokens(span, attributes)

    def _tokens(self, span: Span, attributes: Attributes) -> None:
        for name, kind in ((Gen.INPUT_TOKENS, "input"), (Gen.OUTPUT_TOKENS, "output")):
            number = span.attributes.get(name)
            if isinstance(number, int):
                of = {key: value for key, value in attributes.items() if key != Rpc.ERROR}
                self._add(TOKEN_USAGE, {**of, str(Gen.TOKEN_TYPE): kind}, float(number))

    def _add(self, measure: Measure, attributes: Attributes, value: float) -> None:
        key = measure.name, tuple(attributes.items())
        series = self._series.get(key)
        if series is None:
            counts = [0] * (len(measure.bounds) + 1)
            series = self._series[key] = _Series(measure, attributes, counts)
        series.add(value)

    def histograms(self, start: int, time: int) -> tuple[Histogram, ...]:
        """Returns all histograms, from `start` of the run to `time`, both in nanoseconds since 1970."""
        return tuple(
            Histogram(
                s.measure.name,
                s.measure.unit,
                s.measure.description,
                s.attributes,
                start,
                time,
                s.measure.bounds,
                tuple(s.counts),
                round(s.total, 9),
                s.least,
                s.most,
            )
            for _, s in sorted(self._series.items(), key=lambda pair: repr(pair[0]))
        )


@dataclass(slots=True)
class Segment:
    """The work of one process on a run: its number from 1, the owner's epoch, its times in nanoseconds."""

    number: int
    epoch: int
    start: int
    last: int = field(default=0)
    is_exported: bool = False
    is_paused: bool = False

    def __post_init__(self) -> None:
        self.last = self.start


def root_span(
    builder: SpanBuilder,
    about: RunDescription,
    segment: Segment,
    result: Result | None,
    inputs: dict[str, JSON],
    *,
    waits: bool,
) -> Span:
    """Returns the root span of a segment.

    `result` is the result of the run if it ended in the segment, `waits` whether it only waits for people.
    """
    attributes: Attributes = {
        Gen.OPERATION: Op.WORKFLOW,
        Gen.WORKFLOW: about.plan_name,
        Gen.AGENT: about.plan_name,
        OpenInference.KIND: Kind.CHAIN,
        CallsheetKey.SEGMENT: segment.number,
        CallsheetKey.PLAN_HASH: about.plan_hash,
        **({CallsheetKey.PLAN: about.plan_id} if about.plan_id else {}),
    }
    failure: Failure | None = None
    if result is None:
        rests = "paused" if segment.is_paused else "waiting" if waits else "interrupted"
        attributes[CallsheetKey.SEGMENT_STATUS] = rests
    else:
        attributes[CallsheetKey.RUN_STATUS] = str(result.status)
        attributes[CallsheetKey.RUN_OUTCOME] = str(result.outcome)
        if result.failed_steps:
            attributes[CallsheetKey.FAILED_STEPS] = result.failed_steps
        if result.status is not Status.DONE:
            error_type = _error_type_of_end(result.status, has_budget=result.refusal is not None)
            failure = Failure(error_type, result.error or "")
    if about.includes_content:
        attributes |= {OpenInference.INPUT: as_text(inputs), OpenInference.INPUT_TYPE: "application/json"}
        if result is not None and result.status is Status.DONE:
            attributes[OpenInference.OUTPUT] = result.response
    name = builder.named(Op.WORKFLOW, about.plan_name)
    own, times = span_id(about.run_id, segment.number), (segment.start, segment.last)
    root = builder.span(own, "", name, times, attributes, failure)
    return replace(root, links=_links_back(about, segment.number))


def _links_back(about: RunDescription, number: int) -> tuple[Link, ...]:
    if number > 1:
        before = span_id(about.run_id, number - 1)
        return (Link(trace_id(about.run_id), before, {CallsheetKey.LINK: LinkType.RESUMED_FROM}),)
    if about.parent:
        attributes: Attributes = {CallsheetKey.LINK: LinkType.FORKED_FROM, CallsheetKey.RUN: about.parent}
        return (Link(trace_id(about.parent), span_id(about.parent, 1), attributes),)
    return ()


def _error_type_of_end(status: Status, *, has_budget: bool) -> ErrorType:
    if has_budget:
        return ErrorType.BUDGET
    return {Status.REFUSED: ErrorType.POLICY, Status.CANCELLED: ErrorType.CANCELLED}.get(
        status, ErrorType.STEP
    )


_OUTCOMES = frozenset({EventType.OK, EventType.ERR, EventType.PLAN, EventType.IN_DOUBT, EventType.DECIDED})
_PLANNING_OUTCOMES = frozenset({EventType.PLAN, EventType.ERR, EventType.IN_DOUBT})


class Tracer:
    """Follows one run: `take` receives its entries after the first, `drain` returns the telemetry so far.

    `first` is the start entry. With `content`, arguments, results and error texts are included. Raises
    JournalError (JRN020) for events that cannot be read.
    """

    def __init__(
        self,
        run_id: str,
        plan: Plan,
        plan_hash: str,
        parent: str | None,
        first: Entry,
        *,
        content: bool = False,
    ) -> None:
        self._recorder = attending(plan, first, self._note)
        self._calls = Calls()
        self._visits = VisitTracker(self._recorder, self._calls, _ns(first.ts))
        self._lineage: Lineage = self._recorder.lineage
        start = self._recorder.rules
        self._about = describe_run(run_id, plan, plan_hash, start, parent, content=content)
        self._builder = SpanBuilder(self._about, self._lineage.commands)
        self._confidence = Confidence(self._lineage, start.facts)
        self._metrics = MetricsCollector()
        self._segment = Segment(1, first.epoch, _ns(first.ts))
        self._began = self._visits.now
        self._sources = Sources(self._lineage, run_id)
        self._spans: list[Span] = []
        self._logs: list[LogRecord] = []
        self._has_ended = False
        self._recorder.begin(first)
        self._take_calls(first)
        self._export_finished()

    # ------------------------------------------------------------ entries in, telemetry out

    def take(self, entry: Entry, plan_of: PlanOf) -> None:
        """Process the next entry; `plan_of` is as for the lineage recorder."""
        if entry.epoch != self._segment.epoch:
            self._next_segment(entry)
        self._visits.now = _ns(entry.ts)
        kind, key = entry.type, entry.key
        if key is not None and kind in _OUTCOMES:
            command = self._lineage.commands.get(key)
            self._calls.outcome(kind, key, entry.body or {}, self._visits.now, command)
        self._recorder.add(entry, plan_of)
        if kind == EventType.IN_DOUBT and key is not None:
            self._visits.add_event(self._visits.visit_of(key), EventName.IN_DOUBT)
        self._take_calls(entry)
        self._export_finished()
        if key is not None and kind in _PLANNING_OUTCOMES:
            self._export_planning(key)
        if kind == EventType.PAUSE:
            self._segment.is_paused = True
        if kind == EventType.END:
            self._end_segment(is_over=True)
        self._segment.last = self._visits.now

    def close(self) -> None:
        """End the segment without an end of the run: running visits become interrupted spans."""
        if not self._segment.is_exported:
            self._end_segment(is_over=False)

    def drain(self) -> Telemetry:
        """Returns the telemetry since the last call, with metrics once the segment has ended."""
        telemetry = Telemetry(tuple(self._spans), tuple(self._logs))
        self._metrics.count(self._spans)
        if self._segment.is_exported and self._spans:
            telemetry = telemetry._replace(metrics=self._metrics.histograms(self._began, self._segment.last))
        self._spans, self._logs = [], []
        return telemetry

    @property
    def seq(self) -> int:
        """The number of the last event that was processed."""
        return self._recorder.seq

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._has_ended

    @property
    def under_way(self) -> int:
        """The number of steps that are running."""
        return len(self._visits.open)

    # ------------------------------------------------------------ calls

    def _take_calls(self, entry: Entry) -> None:
        if entry.intents is not None:
            for key, _ in decode_intents(entry.intents):
                self._calls.issued(key, self._visits.now)
        if entry.type == EventType.INTENT and entry.key is not None:
            self._calls.issued(entry.key, self._visits.now)

    def _export_planning(self, key: str) -> None:
        """Export the compilation of a plan that belongs to no step: for a graph that failed."""
        if not isinstance(self._lineage.commands.get(key), Compile) or self._visits.visit_of(key) is not None:
            return
        prefix = visit_of(key)
        for called in self._calls.of(prefix):
            extra: Attributes = {CallsheetKey.SEGMENT: self._segment.number, OpenInference.NODE: prefix}
            self._spans += self._builder.planning(called, self._root_id, self._visits.now, extra)
        self._calls.forget(prefix)

    def _note(self, note: Note) -> None:
        self._visits.note(note)

    # ------------------------------------------------------------ spans of visits

    def _export_finished(self) -> None:
        for visit in self._visits.take_finished():
            self._export(visit)
            self._calls.forget(visit.label)

    def _export(self, visit: OpenVisit) -> None:
        producers, links = self._sources.of(visit)
        context = VisitContext(self._segment.number, self._parent_id(visit), producers, links)
        confidence = self._confidence.confidence_of(visit) if visit.write >= 0 else None
        spans = visit_spans(self._builder, visit, self._calls.of(visit.label), context)
        own = spans[0]
        if confidence is not None:
            own = spans[0] = replace(
                own, attributes=own.attributes | {CallsheetKey.CONFIDENCE: confidence.value}
            )
            self._logs.append(
                LogRecord(
                    own.trace_id,
                    own.span_id,
                    EventName.EVALUATION,
                    own.end,
                    confidence.attributes(visit.write),
                )
            )
        self._spans += spans
        self._sources.exported(visit, own)

    # ------------------------------------------------------------ segments

    @property
    def _root_id(self) -> str:
        return span_id(self._about.run_id, self._segment.number)

    def _parent_id(self, visit: OpenVisit) -> str:
        """The id of the span around a visit: that of the loop or sub-plan that it is in, or the root."""
        if not isinstance(self._lineage, TreeLineage):
            return self._root_id
        around = self._lineage.around(self._lineage.visits[visit.id])
        if around is None:
            return self._root_id
        return span_id(self._about.run_id, self._segment.number, self._lineage.label(around))

    def _next_segment(self, entry: Entry) -> None:
        """Begin the segment of another process; running visits end with the previous segment."""
        if not self._segment.is_exported:
            self._end_segment(is_over=False)
        self._has_ended = False
        self._segment = Segment(self._segment.number + 1, entry.epoch, _ns(entry.ts))
        for visit in self._visits.open.values():
            visit.began = self._segment.start

    def _end_segment(self, *, is_over: bool) -> None:
        segment = self._segment
        segment.is_exported = True
        if is_over:
            self._has_ended = True
            segment.last = self._visits.now
            for prefix in list(self._calls.by_visit):
                self._export_unused(prefix)
        issued = [self._interrupt(visit) for visit in self._visits.open.values()]
        waits = bool(issued) and set(issued) == {"waiting"}
        result = self._recorder.machine.result if is_over else None
        inputs = self._recorder.rules.inputs
        self._spans.append(root_span(self._builder, self._about, segment, result, inputs, waits=waits))

    def _interrupt(self, visit: OpenVisit) -> str:
        """Export a visit up to the end of the segment and return its status; the next one continues it."""
        calls = self._calls.of(visit.label)
        status = "waiting" if visit.events and visit.events[-1].name == EventName.ASKED else "interrupted"
        error_type = ErrorType.INTERRUPTED if any(not called.ended for called in calls) else None
        interrupted = replace(visit, status=status, ended=self._segment.last, error_type=error_type)
        producers, links = self._sources.of(visit)
        context = VisitContext(self._segment.number, self._parent_id(visit), producers, links)
        spans = visit_spans(self._builder, interrupted, calls, context)
        self._spans += spans
        self._calls.forget(visit.label, but_open=True)
        visit.previous_span_id = spans[0].span_id
        visit.events, visit.dropped = [], 0
        return status

    def _export_unused(self, prefix: str) -> None:
        """Export calls that were issued ahead of a step that was never reached."""
        for called in self._calls.of(prefix):
            command = self._lineage.commands.get(called.key)
            tool = getattr(command, "tool", "")
            if tool:
                extra: Attributes = {CallsheetKey.STEP: command.step, CallsheetKey.STEP_STATUS: "unused"}  # type: ignore[union-attr]
                self._spans += self._builder.attempt(
                    called.key, tool, [called], self._root_id, self._visits.now, extra
                )
        self._calls.forget(prefix)


def _ns(seconds: float) -> int:
    """Converts seconds to nanoseconds, with the precision of journals (a microsecond)."""
    return round(seconds * 1_000_000) * 1_000
