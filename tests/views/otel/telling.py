"""Runs as spans, for the tests: from made entries, from real runs, from recorded journals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from callsheet.ir import Plan, plan_hash
from callsheet.store import Journal
from callsheet.store.events import Entry
from callsheet.views.otel.model import Span, Telemetry
from callsheet.views.otel.tracing import Tracer

STEP = "callsheet.step.id"
STATUS = "callsheet.step.status"
LABEL = "graph.node.id"


def tell(
    plan: Plan, entries: Iterable[Entry], plan_of: Callable[[str], Plan], run_id: str = "r", **how: bool
) -> Telemetry:
    """All spans at the end."""
    rest = iter(entries)
    tracer = Tracer(run_id, plan, plan_hash(plan), None, next(rest), **how)
    for entry in rest:
        tracer.take(entry, plan_of)
    tracer.close()
    return tracer.drain()


def tell_run(journal: Path, run_id: str, **how: bool) -> Telemetry:
    with Journal.open_to_read(journal) as opened:
        info = opened.find_run(run_id)
        plan = opened.plan_of(info.plan_hash)
        return tell(plan, opened.entries(run_id), opened.plan_of, run_id, **how)


def steps(told: Telemetry) -> list[Span]:
    """The spans of visits, in order of emission."""
    return [span for span in told.spans if LABEL in span.attributes]


def one(told: Telemetry, label: str) -> Span:
    (found,) = [span for span in steps(told) if span.attributes[LABEL] == label]
    return found


def below(told: Telemetry, span: Span) -> list[Span]:
    return [other for other in told.spans if other.parent_id == span.span_id]


def root(told: Telemetry) -> Span:
    (found,) = [span for span in told.spans if not span.parent_id]
    return found


def is_well_formed(told: Telemetry) -> None:
    """Each span is emitted once, in one trace, below an emitted span, and within the times of its root."""
    ids = [span.span_id for span in told.spans]
    assert len(set(ids)) == len(ids)
    known = {span.span_id: span for span in told.spans}
    for span in told.spans:
        assert span.start <= span.end
        assert len(span.trace_id) == 32
        assert span.trace_id == told.spans[0].trace_id
        if span.parent_id:
            parent = known[span.parent_id]
            assert parent.start <= span.start, (parent, span)
            assert span.end <= parent.end, (parent, span)
        for link in span.links:
            if link.trace_id == span.trace_id:
                assert link.span_id in known
        assert (span.error is None) == ("error.type" not in span.attributes)
    for record in told.logs:
        assert record.span_id in known
