"""Builds the spans of a run for the viewer: the OTLP that is sent to collectors, compressed.

In: the entries of a run. Out: JSON data, without arguments, results and texts of errors, as is the default;
with it the provenance of its values, without them.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

from callsheet.ir import Plan
from callsheet.store.events import Entry
from callsheet.store.runs import RunInfo
from callsheet.trace.lineage.lineage import Lineage
from callsheet.views.otel.model import Telemetry
from callsheet.views.otel.otlp import documents
from callsheet.views.otel.tracing import Tracer
from callsheet.views.prov import prov_of

MOST_EVENTS = 25_000
"""Of a run with more events the spans are not told: `callsheet trace export` does."""


def spans_of(
    info: RunInfo,
    plan_of: Callable[[str], Plan],
    entries: Sequence[Entry],
    version: str,
    lineage: Lineage,
    *,
    goes_on: bool,
) -> dict[str, Any]:
    """How many spans, log records and metrics there are, and the requests, one line each, as zlib and base64.

    `prov` is PROV-JSON in the same form. `goes_on` says that a process carries the run on: what is under way
    is left out then, as it is by `callsheet trace export`. Of a run with too many events nothing.
    """
    if not entries or info.events > MOST_EVENTS:
        return {}
    plan = plan_of(info.plan_hash)
    tracer = Tracer(info.run_id, plan, info.plan_hash, info.parent_run, entries[0])
    for entry in entries[1:]:
        tracer.take(entry, plan_of)
    if not goes_on:
        tracer.close()
    times = {entry.seq: entry.ts for entry in entries}
    prov = prov_of(info.run_id, info.plan_hash, lineage, times)
    return packed(tracer.drain(), version, info.run_id) | {"prov": _deflated(json.dumps(prov))}


def packed(told: Telemetry, version: str, run_id: str) -> dict[str, Any]:
    """Telemetry as the viewer reads it."""
    lines = (
        json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        for each in documents(told, version, run_id)
    )
    text = "".join(f"{line}\n" for line in lines)
    return {
        "spans": len(told.spans),
        "logs": len(told.logs),
        "metrics": len(told.metrics),
        "bytes": len(_bytes(text)),
        "packed": _deflated(text),
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _deflated(text: str) -> str:
    return b64encode(zlib.compress(_bytes(text), 6)).decode()
