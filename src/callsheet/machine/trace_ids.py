"""Derives the trace and span ids of a run and its calls from their names, so that they never change.

In: a run id, the key of a call. Out: OpenTelemetry ids in hexadecimal. The exporter of a run and the servers
that are sent a `traceparent` so agree on the ids without communicating.
"""

from __future__ import annotations

import json
from hashlib import sha256

_TRACE_BYTES = 16
_SPAN_BYTES = 8


def trace_id(run_id: str) -> str:
    """The trace of a run: 32 digits.

    >>> trace_id("nightly")
    '2a3b62b53ddb9f167b63d22202a36081'
    """
    return sha256(run_id.encode()).digest()[:_TRACE_BYTES].hex()


def span_id(run_id: str, *place: str | int) -> str:
    """The span id of something in a run, 16 digits; `place` says what, as the key of a call.

    >>> span_id("nightly", "S3.0.1")
    'e58934e4547ca393'
    """
    return sha256(json.dumps([run_id, *place]).encode()).digest()[:_SPAN_BYTES].hex()


def traceparent(run_id: str, key: str) -> str:
    """The `traceparent` header (W3C Trace Context) that a call sends to a server.

    >>> traceparent("nightly", "S3.0.1")
    '00-2a3b62b53ddb9f167b63d22202a36081-e58934e4547ca393-01'
    """
    return f"00-{trace_id(run_id)}-{span_id(run_id, key)}-01"
