"""Encodes OTLP requests: as protobuf if its messages are installed, else as JSON.

In: a request as JSON data, as made by `views.otel.otlp`. Out: bytes; the content type is chosen by
`best_encoding`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from importlib.util import find_spec
from typing import Any, cast

from callsheet.runtime.telemetry.target import Signal

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
_IDS = ("traceId", "spanId", "parentSpanId")


def best_encoding() -> str:
    """The content type: protobuf, which all collectors accept, with `callsheet[otel]`; else JSON, which most
    accept.
    """
    try:
        spec = find_spec("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    except ModuleNotFoundError:
        spec = None
    return JSON if spec is None else PROTOBUF


def encoded(document: dict[str, Any], signal: Signal, content_type: str) -> bytes:
    """The bytes of a request."""
    if content_type == JSON:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "backslashreplace"
        )
    from google.protobuf.json_format import ParseDict  # noqa: PLC0415 - only where something is sent

    return ParseDict(_with_bytes(document), _message(signal)).SerializeToString(deterministic=True)


def _message(signal: Signal) -> Any:
    """An empty request for a signal."""
    match signal:
        case Signal.TRACES:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces  # noqa: PLC0415

            return traces.ExportTraceServiceRequest()
        case Signal.METRICS:
            from opentelemetry.proto.collector.metrics.v1 import (  # noqa: PLC0415
                metrics_service_pb2 as metrics,
            )

            return metrics.ExportMetricsServiceRequest()
        case Signal.LOGS:
            from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs  # noqa: PLC0415

            return logs.ExportLogsServiceRequest()


def _with_bytes(value: Any) -> Any:
    """The data with ids in base64, as protobuf's JSON requires, instead of OTLP's hexadecimal."""
    if isinstance(value, list):
        return [_with_bytes(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    pairs = cast("dict[str, Any]", value).items()
    return {
        key: b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_bytes(item)
        for key, item in pairs
    }
