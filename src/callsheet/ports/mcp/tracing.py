"""Tells servers where their calls stand in the trace of a run, also in a program that traces itself.

The SDK writes the current span of the program into `params._meta` of what it sends. While a call of a run is
sent that is the span of this call: servers, and the spans that the program's own tracing makes of the
sending, come below it, and not below whatever the program is at.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

TRACEPARENT = "traceparent"
"""The `_meta` field of a call that names its trace and span, as MCP has it from W3C Trace Context."""


@contextmanager
def within_trace(traceparent: str) -> Generator[None]:
    """Let what is sent meanwhile belong to this span; an empty text changes nothing."""
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
