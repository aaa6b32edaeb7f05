"""Encodes OTLP requests: as protobuf if its messages are installed, else as JSON; decodes the responses.

In: a request as JSON data, as made by `views.otel.otlp`. Out: bytes; the content type is chosen by
`best_encoding`. In: a response. Out: how much of the request was rejected.
"""

from __future__ import annotations

import json
from base64 import b64encode
from importlib.util import find_spec
from typing import Any, NamedTuple, cast

from callsheet.runtime.telemetry.target import Signal

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
_COUNTS = {
    Signal.TRACES: "rejectedSpans",
    Signal.LOGS: "rejectedLogRecords",
    Signal.METRICS: "rejectedDataPoints",
}
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

    return ParseDict(_with_bytes(document), _message(signal, "Request")).SerializeToString(deterministic=True)


class Rejected(NamedTuple):
    """How many items of accepted requests a collector has rejected, and its reason."""

    items: int
    why: str


NOTHING_REJECTED = Rejected(0, "")


def rejected(body: bytes, content_type: str, signal: Signal) -> Rejected:
    """The partial success that a response with status 200 tells of.

    A body that is no OTLP response means that everything was accepted: some collectors answer with a text.

    >>> rejected(b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "old"}}', JSON, Signal.TRACES)
    Rejected(items=2, why='old')
    >>> rejected(b"ok", "text/plain", Signal.TRACES)
    Rejected(items=0, why='')
    """
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == JSON:
            partial = json.loads(body)["partialSuccess"]
        elif kind == PROTOBUF:
            partial = _partial_success(body, signal)
        else:
            return NOTHING_REJECTED
        return Rejected(int(partial.get(_COUNTS[signal], 0)), str(partial.get("errorMessage", "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        return NOTHING_REJECTED


def _partial_success(body: bytes, signal: Signal) -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415 - only where something is sent
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as above

    message = _message(signal, "Response")
    try:
        message.ParseFromString(body)
    except DecodeError:
        return {}
    return MessageToDict(message).get("partialSuccess", {})


def _message(signal: Signal, kind: str) -> Any:
    """An empty message of the protocol for a signal: its "Request" or its "Response"."""
    match signal:
        case Signal.TRACES:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service  # noqa: PLC0415

            name = "Trace"
        case Signal.METRICS:
            from opentelemetry.proto.collector.metrics.v1 import (  # noqa: PLC0415
                metrics_service_pb2 as service,
            )

            name = "Metrics"
        case Signal.LOGS:
            from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as service  # noqa: PLC0415

            name = "Logs"
    return getattr(service, f"Export{name}Service{kind}")()


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
