"""Tracks the visits of a run that are running, from the machine's notes: events, outcomes, failed items.

In: notes, in order, each at the time of its entry. Out: the running visits, and those that finished.
"""

from __future__ import annotations

from callsheet.machine import Status
from callsheet.machine.keys import visit_of
from callsheet.machine.notes import Note, NoteKind
from callsheet.trace.lineage.blocks import TreeLineage, word_of_statement
from callsheet.trace.lineage.lineage import NONE
from callsheet.trace.lineage.recorder import Recorder
from callsheet.views.describe import describe_condition
from callsheet.views.otel.model import (
    Attributes,
    CallsheetKey,
    ErrorType,
    EventName,
    SpanEvent,
)
from callsheet.views.otel.operations import Calls
from callsheet.views.otel.visits import OpenVisit


class VisitTracker:
    """The running visits of a run, by step id, and those that finished within the current entry.

    `now` is the time of the current entry in nanoseconds, set by the caller; `calls` are the calls so far.
    """

    def __init__(self, recorder: Recorder, calls: Calls, now: int) -> None:
        self._recorder = recorder
        self._lineage = recorder.lineage
        self._calls = calls
        self.now = now
        self.open: dict[str, OpenVisit] = {}
        self._finished: list[OpenVisit] = []

    def take_finished(self) -> list[OpenVisit]:
        """Remove and return the visits that finished since the last call, in order."""
        finished, self._finished = self._finished, []
        return finished

    def visit_of(self, key: str) -> OpenVisit | None:
        """The running visit to which a call's key belongs."""
        prefix = visit_of(key)
        return next((visit for visit in self.open.values() if visit.label == prefix), None)

    def note(self, note: Note) -> None:
        """Process a note of the machine."""
        match note.kind:
            case NoteKind.STARTED:
                visit = self._begin(note)
                if visit.step.condition is not None and visit.step.foreach is None:
                    self.add_event(visit, EventName.CONDITION, _condition(visit, holds=True))
            case NoteKind.SKIPPED:
                visit = self._begin(note)
                if visit.step.condition is not None:
                    self.add_event(visit, EventName.CONDITION, _condition(visit, holds=False))
                self._settle(visit, "skipped")
            case NoteKind.FINISHED:
                visit = self.open.get(note.step)
                if visit is not None:
                    visit.write = self._lineage.write_of.get(visit.id, NONE)
                    self._settle_finished(visit, note)
            case NoteKind.FAILED:
                self._failed(note)
            case NoteKind.JUMPED:
                self._jumped(note)
            case NoteKind.REPLANNED:
                self.add_event(
                    self.open.get(note.step) or self._just_finished(note.step), EventName.REPLANNED
                )
                self._settle_rest()
            case NoteKind.ENDED:
                self._ended()
            case _:
                self._note_detail(note)

    def _note_detail(self, note: Note) -> None:
        """Record facts about a visit other than its outcome."""
        visit = self.open.get(note.step)
        if visit is None:
            return
        match note.kind:
            case NoteKind.CAST_FAILED:
                visit.cast_failed = True
            case NoteKind.ASKED:
                self.add_event(visit, EventName.ASKED)
            case NoteKind.ANSWERED:
                visit.expired = note.detail == "expire"
                self.add_event(visit, EventName.ANSWERED)
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
            self.now,
            place=note.step,
        )
        if isinstance(lineage, TreeLineage):
            visit.word = word_of_statement(lineage.site(lineage_visit).statement)
        self.open[note.step] = visit
        return visit

    def _settle_finished(self, visit: OpenVisit, note: Note) -> None:
        if note.is_unused:
            self.add_event(visit, EventName.UNUSED)
        if note.is_failure:
            self._settle(visit, "failed", self._error_type_of(visit), visit.error_text or note.detail)
        else:
            self._settle(visit, note.outcome or "ok")

    def _failed(self, note: Note) -> None:
        visit = self.open.get(note.step)
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
        visit = self.open.get(note.step)
        if visit is not None:  # a FOREACH that failed
            self._settle(
                visit,
                "failed" if visit.failed_items else "ok",
                self._error_type_of_items(visit),
                visit.error_text,
            )
        visit = self._just_finished(note.step)
        if visit is not None:
            reason = "on_fail" if visit.step.course.jump is None else "goto"
            self.add_event(visit, EventName.GOTO, _jump_attributes(note.step, note.detail, reason))

    def _just_finished(self, step: str) -> OpenVisit | None:
        """Returns the visit of a step that finished within this entry."""
        return next((finished for finished in reversed(self._finished) if finished.place == step), None)

    def _error_type_of_items(self, visit: OpenVisit) -> ErrorType | None:
        return self._error_type_of(visit) if visit.failed_items else None

    def _ended(self) -> None:
        result = self._recorder.machine.result
        assert result is not None
        last = self.open.get(result.ended_at or "")
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
            self.add_event(last, EventName.GOTO, _jump_attributes(last.step.id, "end", reason))
        self._settle_rest()

    def _settle_rest(self) -> None:
        for visit in list(self.open.values()):
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
            self.now,
        )
        self._finished.append(visit)
        self.open.pop(visit.place, None)

    def add_event(
        self, visit: OpenVisit | None, name: EventName, attributes: Attributes | None = None
    ) -> None:
        """Add an event to a visit, if there is one, at the time of the current entry."""
        if visit is not None:
            visit.add_event(SpanEvent(name, self.now, attributes or {}))


def _condition(visit: OpenVisit, *, holds: bool) -> Attributes:
    condition = visit.step.condition
    assert condition is not None
    return {CallsheetKey.EXPRESSION: describe_condition(condition), CallsheetKey.HOLDS: holds}


def _jump_attributes(step: str, to: str, reason: str) -> Attributes:
    return {CallsheetKey.FROM: step, CallsheetKey.TO: to, CallsheetKey.REASON: reason}
