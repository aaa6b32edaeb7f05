"""`Runtime.export_trace` and `Runtime.provenance`: a recorded run as OpenTelemetry data or W3C PROV.

In: the id of a run, the address of a collector. Out: how much was sent, or the provenance of its values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callsheet.api.reporting import Reporting
from callsheet.diagnostics.wrong_type import wanted, wanted_names


@dataclass(frozen=True, slots=True)
class TraceExport:
    """How much of a run was sent to a collector.

    `trace_id` identifies the trace there. `not_taken` maps each signal that the collector does not accept
    (`metrics`, `logs`) to its answer, `rejected` each signal of which it rejected a part to the number of
    those spans, log events or histograms.
    """

    run_id: str
    trace_id: str
    spans: int
    logs: int
    metrics: int
    not_taken: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected: Mapping[str, int] = field(default_factory=dict[str, int])


class Exporting(Reporting):
    """The part of `Runtime` that exports traces and provenance."""

    async def export_trace(
        self,
        run_id: str,
        otlp: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bool = False,
        is_running: bool = False,
    ) -> TraceExport:
        """Send a recorded run to an OpenTelemetry collector; sending it twice adds nothing.

        `run_id` is an id, a prefix of one, or `last`; `otlp` is the collector's OTLP/HTTP address, such as
        `http://localhost:4318`. Each value of `headers` has the form `env:VARIABLE`. With `content`,
        arguments, results and error texts are sent as well. `is_running` says that the run is still going
        on; calls in progress are then left out. Raises CallsheetError: TRC001 if the collector cannot be
        reached, TRC002 if it refuses, TRC003 or TRC004 for an invalid address or header, TRC005 if
        `callsheet[otel]` is needed and missing, JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its
        events cannot be read; ValueError for a runtime without a journal.
        """
        from callsheet.machine.keys import trace_id  # noqa: PLC0415 - as below
        from callsheet.runtime.telemetry.live import telemetry_of  # noqa: PLC0415 - as above
        from callsheet.runtime.telemetry.sending import Sender  # noqa: PLC0415 - few programs need it
        from callsheet.runtime.telemetry.target import target_of  # noqa: PLC0415 - as above

        self._require_journal()
        wanted("otlp", otlp, str, "the address of a collector")
        target = target_of(otlp, wanted_names("headers", headers))
        async with self._opened() as session:
            assert session.journal is not None
            name = session.find(run_id)
            exported = await asyncio.to_thread(
                telemetry_of, session.journal, name, content=content, goes_on=is_running
            )
        with Sender(target, name) as sender:
            await asyncio.to_thread(sender.send, exported)
        sent = sender.sent
        not_taken = {str(signal): why for signal, why in sent.not_taken.items()}
        rejected = {str(signal): found.items for signal, found in sent.rejected.items()}
        return TraceExport(name, trace_id(name), sent.spans, sent.logs, sent.metrics, not_taken, rejected)

    async def provenance(self, run_id: str, *, content: bool = False) -> dict[str, Any]:
        """Where each value of a run came from, as PROV-JSON data; with `content` also the values.

        `run_id` is an id, a prefix of one, or `last`. Raises CallsheetError: JRN002 for an unknown run,
        JRN012, JRN015 or JRN020 if its events cannot be read; ValueError for a runtime without a journal.
        """
        from callsheet.runtime.telemetry.live import provenance_of  # noqa: PLC0415 - few programs need it

        self._require_journal()
        async with self._opened() as session:
            assert session.journal is not None
            return provenance_of(session.journal, session.find(run_id), content=content)

    def export_trace_sync(
        self,
        run_id: str,
        otlp: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bool = False,
        is_running: bool = False,
    ) -> TraceExport:
        """Like `export_trace`, for programs without an event loop."""
        work = self.export_trace(run_id, otlp, headers=headers, content=content, is_running=is_running)
        return self._run_sync(work, "export_trace")

    def provenance_sync(self, run_id: str, *, content: bool = False) -> dict[str, Any]:
        """Like `provenance`, for programs without an event loop."""
        return self._run_sync(self.provenance(run_id, content=content), "provenance")
