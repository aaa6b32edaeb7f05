"""For every plan and run: the spans form one tree, agree with the record, and are deterministic."""

from __future__ import annotations

from hypothesis import given, settings
from tests.machine.test_graph import graphs
from tests.plans import plan_of, plan_texts
from tests.trace.lineage.recording import Recorded
from tests.trace.lineage.test_laws import SEEDS, graph_of, recorded
from tests.views.otel.telling import LABEL, STATUS, is_well_formed, steps, tell

from callsheet.ir import plan_hash
from callsheet.store.events import Entry, EventType
from callsheet.store.events import Event as Row
from callsheet.store.records import result_body
from callsheet.trace.projection.recording import record_of
from callsheet.views.otel.model import Telemetry
from callsheet.views.otel.tracing import Tracer


def entries_of(run: Recorded) -> list[Entry]:
    entries = run.entries()
    assert run.result is not None
    end = len(entries) + 1
    return [*entries, Entry(end, EventType.END, None, float(end), result_body(run.result), end, None)]


def is_told(run: Recorded) -> None:
    entries = entries_of(run)
    told = tell(run.plan, entries, run.plans.__getitem__)
    is_well_formed(told)
    rows = [
        Row(
            "r",
            e.seq,
            0,
            EventType(e.type),
            e.key,
            e.key and e.key.partition(".")[0],
            None,
            None,
            e.ts,
            e.ts,
            e.body,
            b"",
        )
        for e in entries
    ]
    record = record_of(run.plan, rows, run.plans.__getitem__)
    said = sorted((v.label, v.outcome.value) for v in record.visits if v.step is not None)
    assert (
        sorted(
            (str(s.attributes[LABEL]), str(s.attributes[STATUS]))
            for s in steps(told)
            if STATUS in s.attributes
        )
        == said
    )
    assert told_live(run, entries) == told


def told_live(run: Recorded, entries: list[Entry]) -> Telemetry:
    """The spans as emitted during the run: after each event."""
    tracer = Tracer("r", run.plan, plan_hash(run.plan), None, entries[0])
    parts = [tracer.drain()]
    for entry in entries[1:]:
        tracer.take(entry, run.plans.__getitem__)
        parts.append(tracer.drain())
    tracer.close()
    parts.append(tracer.drain())
    metrics = [part.metrics for part in parts if part.metrics]
    assert len(metrics) == 1
    return Telemetry(
        tuple(span for part in parts for span in part.spans),
        tuple(record for part in parts for record in part.logs),
        metrics[0],
    )


@given(plan_texts(), SEEDS, SEEDS)
@settings(max_examples=120, deadline=None)
def test_spans_equal_record_at_any_time(text: str, world: int, schedule: int) -> None:
    is_told(recorded(plan_of(text), world, schedule))


@given(graphs(), SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_graph_spans_form_one_tree(shape: list[list[int]], world: int, schedule: int) -> None:
    is_told(recorded(graph_of(shape), world, schedule))
