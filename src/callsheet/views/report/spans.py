"""Builds the spans of a run for the viewer, as compressed OTLP, and its provenance as PROV-JSON.

In: the entries of a run. Out: JSON data, without arguments, results, error texts and values.
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
"""For a run with more events there are no spans; `callsheet trace export` has no limit."""


def spans_of(
    info: RunInfo,
    plan_of: Callable[[str], Plan],
    entries: Sequence[Entry],
    version: str,
    lineage: Lineage,
    *,
    goes_on: bool,
) -> dict[str, Any]:
    """Returns the counts of spans, log records and metrics, and the OTLP requests.

    The requests are JSON lines, compressed with zlib and encoded in base64; so is `prov`, the PROV-JSON. If
    the run `goes_on` in a process, running steps are left out, as by `callsheet trace export`. The result is
    empty for a run with too many events.
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


def packed(telemetry: Telemetry, version: str, run_id: str) -> dict[str, Any]:
    """Returns telemetry in the form that the viewer reads."""
    lines = (
        json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        for each in documents(telemetry, version, run_id)
    )
    text = "".join(f"{line}\n" for line in lines)
    return {
        "spans": len(telemetry.spans),
        "logs": len(telemetry.logs),
        "metrics": len(telemetry.metrics),
        "bytes": len(_bytes(text)),
        "packed": _deflated(text),
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _deflated(text: str) -> str:
    return b64encode(zlib.compress(_bytes(text), 6)).decode()
