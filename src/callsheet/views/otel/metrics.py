"""Computes the metrics of a run from its spans.

In: spans as they are finished. Out: histograms of the run so far. They are cumulative and each is of one run,
so that sending them twice counts nothing twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from callsheet.views.otel.model import (
    AGENT_DURATION,
    MODEL_DURATION,
    TOKEN_USAGE,
    TOOL_DURATION,
    WORKFLOW_DURATION,
    Attributes,
    CallsheetKey,
    Gen,
    Histogram,
    Measure,
    Op,
    Rpc,
    Span,
)

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
