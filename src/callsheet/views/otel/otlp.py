"""Encodes telemetry as OTLP JSON, for files and for HTTP requests.

In: spans, log records, histograms. Out: the requests of the three signals, in OTLP's JSON encoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from callsheet.views.otel.model import (
    SCHEMA_URL,
    SCOPE,
    Attributes,
    Histogram,
    LogRecord,
    Rpc,
    Scalar,
    Span,
    Telemetry,
)

_ERROR = 2
_CUMULATIVE = 2
_INFO = 9
_SAMPLED = 1


def traces(spans: Iterable[Span], version: str) -> dict[str, Any]:
    """Returns an export request with spans; `version` is that of callsheet."""
    return {
        "resourceSpans": [
            {
                "resource": _resource(version),
                "scopeSpans": [
                    {"scope": _scope(version), "spans": [_span(s) for s in spans], "schemaUrl": SCHEMA_URL}
                ],
            }
        ]
    }


def logs(records: Iterable[LogRecord], version: str) -> dict[str, Any]:
    """Returns an export request with log records; `version` is that of callsheet."""
    return {
        "resourceLogs": [
            {
                "resource": _resource(version),
                "scopeLogs": [
                    {
                        "scope": _scope(version),
                        "logRecords": [_record(r) for r in records],
                        "schemaUrl": SCHEMA_URL,
                    }
                ],
            }
        ]
    }


def metrics(histograms: Sequence[Histogram], version: str, run_id: str) -> dict[str, Any]:
    """Returns an export request with the metrics of a run; its id is the `service.instance.id`."""
    by_name: dict[str, list[Histogram]] = {}
    for histogram in histograms:
        by_name.setdefault(histogram.name, []).append(histogram)
    return {
        "resourceMetrics": [
            {
                "resource": _resource(version, run_id),
                "scopeMetrics": [
                    {
                        "scope": _scope(version),
                        "metrics": [_metric(points) for points in by_name.values()],
                        "schemaUrl": SCHEMA_URL,
                    }
                ],
            }
        ]
    }


def documents(telemetry: Telemetry, version: str, run_id: str) -> list[dict[str, Any]]:
    """Returns one export request for each signal that is not empty."""
    requests: list[dict[str, Any]] = []
    if telemetry.spans:
        requests.append(traces(telemetry.spans, version))
    if telemetry.logs:
        requests.append(logs(telemetry.logs, version))
    if telemetry.metrics:
        requests.append(metrics(telemetry.metrics, version, run_id))
    return requests


def _resource(version: str, instance: str = "") -> dict[str, Any]:
    encoded: Attributes = {Rpc.SERVICE: SCOPE, Rpc.SERVICE_VERSION: version}
    if instance:
        encoded[Rpc.INSTANCE] = instance
    return {"attributes": _attributes(encoded)}


def _scope(version: str) -> dict[str, Any]:
    return {"name": SCOPE, "version": version}


def _span(span: Span) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({"parentSpanId": span.parent_id} if span.parent_id else {}),
        "name": span.name,
        "kind": int(span.kind),
        "flags": _SAMPLED,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes(span.attributes),
    }
    if span.events:
        encoded["events"] = [
            {"timeUnixNano": str(e.time), "name": str(e.name), "attributes": _attributes(e.attributes)}
            for e in span.events
        ]
    if span.dropped_events:
        encoded["droppedEventsCount"] = span.dropped_events
    if span.links:
        encoded["links"] = [
            {"traceId": k.trace_id, "spanId": k.span_id, "attributes": _attributes(k.attributes)}
            for k in span.links
        ]
    if span.error is not None:
        encoded["status"] = {"code": _ERROR, **({"message": span.error} if span.error else {})}
    return encoded


def _record(record: LogRecord) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.time),
        "observedTimeUnixNano": str(record.time),
        "severityNumber": _INFO,
        "eventName": str(record.name),
        "traceId": record.trace_id,
        "spanId": record.span_id,
        "attributes": _attributes(record.attributes),
    }


def _metric(points: Sequence[Histogram]) -> dict[str, Any]:
    first = points[0]
    return {
        "name": first.name,
        "unit": first.unit,
        "description": first.description,
        "histogram": {
            "aggregationTemporality": _CUMULATIVE,
            "dataPoints": [
                {
                    "attributes": _attributes(p.attributes),
                    "startTimeUnixNano": str(p.start),
                    "timeUnixNano": str(p.time),
                    "count": str(sum(p.counts)),
                    "sum": p.total,
                    "min": p.least,
                    "max": p.most,
                    "bucketCounts": [str(n) for n in p.counts],
                    "explicitBounds": list(p.bounds),
                }
                for p in points
            ],
        },
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": str(name), "value": _value(value)} for name, value in attributes.items()]


def _value(value: Scalar | tuple[str, ...]) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": str(value)}
        case tuple():
            return {"arrayValue": {"values": [{"stringValue": str(item)} for item in value]}}
