"""Converts the event stream of a run to spans and log records, incrementally.

In: the entries of a journal, one after another. Out: spans and log records of what has finished, each once.
The machine reports what happens and when, the lineage which visit read from which. The same entries give the
same spans, whether they are read at once or while the run continues.
"""

from __future__ import annotations

from dataclasses import replace

from callsheet.ir import Goto, Plan
from callsheet.machine import Compile, Status
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.trace_ids import span_id
from callsheet.store.events import Entry, EventType, decode_intents
from callsheet.store.records import PlanOf
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.record import attending
from callsheet.views.describe import describe_condition
from callsheet.views.otel.calls import Calls
from callsheet.views.otel.confidence import Confidence
from callsheet.views.otel.metrics import MetricsCollector
from callsheet.views.otel.model import Attributes, LogRecord, Span, SpanEvent, Telemetry
from callsheet.views.otel.names import (
    CallsheetKey,
    ErrorType,
    EventName,
    OpenInference,
)
from callsheet.views.otel.operations import SpanBuilder
from callsheet.views.otel.run_info import describe_run
from callsheet.views.otel.segments import Segment, root_span
from callsheet.views.otel.sources import Sources
from callsheet.views.otel.visits import OpenVisit, VisitContext, visit_spans

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
        self._lineage: Lineage = self._recorder.lineage
        start = self._recorder.rules
        self._about = describe_run(run_id, plan, plan_hash, start, parent, content=content)
        self._builder = SpanBuilder(self._about, self._lineage.commands)
        self._confidence = Confidence(self._lineage, start.facts)
        self._metrics = MetricsCollector()
        self._calls = Calls()
        self._segment = Segment(1, first.epoch, _ns(first.ts))
        self._began = self._now = _ns(first.ts)
        self._open: dict[str, OpenVisit] = {}
        self._finished: list[OpenVisit] = []
        """Visits that finished within the current entry."""
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
        self._now = _ns(entry.ts)
        kind, key = entry.type, entry.key
        if key is not None and kind in _OUTCOMES:
            command = self._lineage.commands.get(key)
            self._calls.outcome(kind, key, entry.body or {}, self._now, command)
        self._recorder.add(entry, plan_of)
        if kind == EventType.IN_DOUBT and key is not None:
            self._add_event(self._visit_at(key), EventName.IN_DOUBT)
        self._take_calls(entry)
        self._export_finished()
        if key is not None and kind in _PLANNING_OUTCOMES:
            self._export_planning(key)
        if kind == EventType.END:
            self._end_segment(is_over=True)
        self._segment.last = self._now

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
        return len(self._open)

    # ------------------------------------------------------------ calls

    def _take_calls(self, entry: Entry) -> None:
        if entry.intents is not None:
            for key, _ in decode_intents(entry.intents):
                self._calls.issued(key, self._now)
        if entry.type == EventType.INTENT and entry.key is not None:
            self._calls.issued(entry.key, self._now)

    def _visit_at(self, key: str) -> OpenVisit | None:
        prefix = key.rsplit(".", 2)[0]
        return next((visit for visit in self._open.values() if visit.label == prefix), None)

    def _export_planning(self, key: str) -> None:
        """Export the compilation of a plan that belongs to no step: for a graph that failed."""
        if not isinstance(self._lineage.commands.get(key), Compile) or self._visit_at(key) is not None:
            return
        prefix = key.rsplit(".", 2)[0]
        for called in self._calls.of(prefix):
            extra: Attributes = {CallsheetKey.SEGMENT: self._segment.number, OpenInference.NODE: prefix}
            self._spans += self._builder.planning(called, self._root_id, self._now, extra)
        self._calls.forget(prefix)

    # ------------------------------------------------------------ what the machine says

    def _note(self, note: Note) -> None:
        match note.kind:
            case NoteKind.STARTED:
                visit = self._begin(note)
                if visit.step.condition is not None and visit.step.foreach is None:
                    self._add_event(visit, EventName.CONDITION, _condition(visit, holds=True))
            case NoteKind.SKIPPED:
                visit = self._begin(note)
                if visit.step.condition is not None:
                    self._add_event(visit, EventName.CONDITION, _condition(visit, holds=False))
                self._settle(visit, "skipped")
            case NoteKind.FINISHED:
                visit = self._open.get(note.step)
                if visit is not None:
                    visit.write = self._lineage.write_of.get(visit.id, NONE)
                    self._settle_finished(visit, note)
            case NoteKind.FAILED:
                self._failed(note)
            case NoteKind.JUMPED:
                self._jumped(note)
            case NoteKind.REPLANNED:
                self._add_event(
                    self._open.get(note.step) or self._just_finished(note.step), EventName.REPLANNED
                )
                self._settle_rest()
            case NoteKind.ENDED:
                self._ended()
            case _:
                self._note_detail(note)

    def _note_detail(self, note: Note) -> None:
        """Record facts about a visit other than its outcome."""
        visit = self._open.get(note.step)
        if visit is None:
            return
        match note.kind:
            case NoteKind.CAST_FAILED:
                visit.cast_failed = True
            case NoteKind.ASKED:
                self._add_event(visit, EventName.ASKED)
            case NoteKind.ANSWERED:
                visit.expired = note.detail == "expire"
                self._add_event(visit, EventName.ANSWERED)
            case _:
                pass

    def _begin(self, note: Note) -> OpenVisit:
        lineage = self._lineage
        lineage_visit = lineage.visits[-1]
        visit = OpenVisit(
            lineage_visit.id,
            lineage.prefix(lineage_visit),
            lineage.step(lineage_visit),
            lineage_visit.program,
            lineage_visit.number,
            self._now,
        )
        self._open[note.step] = visit
        return visit

    def _settle_finished(self, visit: OpenVisit, note: Note) -> None:
        if note.is_failure:
            self._settle(visit, "failed", self._error_type_of(visit), visit.error_text or note.detail)
        else:
            self._settle(visit, note.outcome or "ok")

    def _failed(self, note: Note) -> None:
        visit = self._open.get(note.step)
        if visit is None:
            return
        if visit.step.foreach is not None:
            visit.failed_items += 1  # the visit finishes when all of its items have
            visit.error_text = visit.error_text or note.detail
            return
        visit.write = self._lineage.write_of.get(visit.id, NONE)
        self._settle(visit, "failed", self._error_type_of(visit), note.detail)

    def _error_type_of(self, visit: OpenVisit) -> ErrorType:
        error_types = [
            called.error_type for called in self._calls.of(visit.label) if called.error_type is not None
        ]
        if error_types:
            return error_types[-1]
        is_denied = any(event.name == EventName.ANSWERED for event in visit.events)
        return ErrorType.DENIED if is_denied else ErrorType.STEP

    def _jumped(self, note: Note) -> None:
        visit = self._open.get(note.step)
        if visit is not None:  # a FOREACH that failed
            self._settle(
                visit,
                "failed" if visit.failed_items else "ok",
                self._error_type_of_items(visit),
                visit.error_text,
            )
        visit = self._just_finished(note.step)
        if visit is not None:
            reason = "goto" if isinstance(visit.step.action, Goto) else "on_fail"
            self._add_event(visit, EventName.GOTO, _jump_attributes(note.step, note.detail, reason))

    def _just_finished(self, step: str) -> OpenVisit | None:
        """Returns the visit of a step that finished within this entry."""
        return next((finished for finished in reversed(self._finished) if finished.step.id == step), None)

    def _error_type_of_items(self, visit: OpenVisit) -> ErrorType | None:
        return self._error_type_of(visit) if visit.failed_items else None

    def _ended(self) -> None:
        result = self._recorder.machine.result
        assert result is not None
        last = self._open.get(result.ended_at or "")
        if last is not None:
            has_failed = result.status is not Status.DONE and (
                result.error is not None or bool(last.failed_items)
            )
            if has_failed:
                self._settle(last, "failed", self._error_type_of(last), last.error_text or result.error or "")
            else:
                self._settle(last, "ok" if result.status is Status.DONE else "stopped")
        else:
            last = self._just_finished(result.ended_at or "")
        if last is not None and result.terminated:
            reason = "on_fail" if last.status == "failed" else "terminate"
            self._add_event(last, EventName.GOTO, _jump_attributes(last.step.id, "end", reason))
        self._settle_rest()

    def _settle_rest(self) -> None:
        for visit in list(self._open.values()):
            error_type = self._error_type_of_items(visit)
            self._settle(visit, "failed" if error_type else "stopped", error_type, visit.error_text)

    def _settle(
        self, visit: OpenVisit, status: str, error_type: ErrorType | None = None, error_text: str = ""
    ) -> None:
        if visit.failed_items and error_type is None and status == "ok":
            error_text = visit.error_text
        visit.status, visit.error_type, visit.error_text, visit.ended = (
            status,
            error_type,
            error_text,
            self._now,
        )
        self._finished.append(visit)
        self._open.pop(visit.step.id, None)

    def _add_event(
        self, visit: OpenVisit | None, name: EventName, attributes: Attributes | None = None
    ) -> None:
        if visit is not None:
            visit.add_event(SpanEvent(name, self._now, attributes or {}))

    # ------------------------------------------------------------ visits told

    def _export_finished(self) -> None:
        if not self._finished:
            return
        finished, self._finished = self._finished, []
        for visit in finished:
            self._export(visit)
            self._calls.forget(visit.label)

    def _export(self, visit: OpenVisit) -> None:
        producers, links = self._sources.of(visit)
        context = VisitContext(self._segment.number, self._root_id, producers, links)
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

    def _next_segment(self, entry: Entry) -> None:
        """Begin the segment of another process; running visits end with the previous segment."""
        if not self._segment.is_exported:
            self._end_segment(is_over=False)
        self._has_ended = False
        self._segment = Segment(self._segment.number + 1, entry.epoch, _ns(entry.ts))
        for visit in self._open.values():
            visit.began = self._segment.start

    def _end_segment(self, *, is_over: bool) -> None:
        segment = self._segment
        segment.is_exported = True
        if is_over:
            self._has_ended = True
            segment.last = self._now
            for prefix in list(self._calls.by_visit):
                self._export_unused(prefix)
        issued = [self._interrupt(visit) for visit in self._open.values()]
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
        context = VisitContext(self._segment.number, self._root_id, producers, links)
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
                    called.key, tool, [called], self._root_id, self._now, extra
                )
        self._calls.forget(prefix)


def _condition(visit: OpenVisit, *, holds: bool) -> Attributes:
    condition = visit.step.condition
    assert condition is not None
    return {CallsheetKey.EXPRESSION: describe_condition(condition), CallsheetKey.HOLDS: holds}


def _jump_attributes(step: str, to: str, reason: str) -> Attributes:
    return {CallsheetKey.FROM: step, CallsheetKey.TO: to, CallsheetKey.REASON: reason}


def _ns(seconds: float) -> int:
    """Converts seconds to nanoseconds, with the precision of journals (a microsecond)."""
    return round(seconds * 1_000_000) * 1_000
