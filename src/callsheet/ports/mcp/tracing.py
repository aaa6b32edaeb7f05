"""Places the calls sent to servers in the trace of their run.

The SDK writes the program's current span into `params._meta` of what it sends. While a run sends a call,
the span of the call is made current, so that the server's spans, and those of the program's own tracing of
the request, become its children.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

TRACEPARENT = "traceparent"
"""The `_meta` field with the W3C Trace Context of a call."""


@contextmanager
def within_trace(traceparent: str) -> Generator[None]:
    """Make this span current while the context is open; an empty text changes nothing."""
    if not traceparent:
        yield
        return
    from opentelemetry import context, trace  # noqa: PLC0415 - it comes with the SDK, and a session is open

    _, trace_id, span_id, flags = traceparent.split("-")
    span = trace.NonRecordingSpan(
        trace.SpanContext(int(trace_id, 16), int(span_id, 16), False, trace.TraceFlags(int(flags, 16)))
    )
    token = context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        context.detach(token)
