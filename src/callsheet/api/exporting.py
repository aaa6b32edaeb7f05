"""Recorded runs for others: `export_trace`, `provenance`, `report` and `lctl` of `Runtime`.

In: a recorded run. Out: OpenTelemetry data, W3C PROV, an HTML file, an LCTL document.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callsheet.api.inspecting import Inspecting
from callsheet.diagnostics.wrong_type import wanted, wanted_names, wanted_number, wanted_path
from callsheet.ir import canonical_tool_name
from callsheet.runtime.reporting import lctl_of
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.views.report.values import MOST_BYTES


class Reporting(Inspecting):
    """The part of `Runtime` that writes reports and LCTL documents."""

    async def report(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Write a recorded run as a single HTML file, and return its path.

        `run_id`, and `diff` for a run to compare it with, are ids, prefixes of ids, or `last`. Values of more
        than `max_value` bytes are shortened; with `redact` all values are left out. Raises CallsheetError:
        JRN002 for an unknown run, JRN012, JRN015 or JRN020 if its events cannot be read; OSError if the file
        cannot be written; ValueError for a runtime without a journal.
        """
        from callsheet.runtime import reporting  # noqa: PLC0415 - brings the viewer, which few programs need
        from callsheet.views.report.build import Showing  # noqa: PLC0415 - as above

        self._require_journal()
        place = wanted_path("path", path)
        wanted("max_value", max_value, int, "a number of bytes")
        wanted("redact", redact, bool, "True or False")
        if diff is not None:
            wanted("diff", diff, str, "the id of a run")
        async with self._opened() as session:
            assert session.journal is not None
            showing = Showing(max_value, redact)
            name = session.find(run_id)
            document = reporting.report_document(session.journal, name, showing=showing, other=diff)
        return reporting.save_page(place, reporting.report_page(document))

    def report_sync(
        self,
        run_id: str,
        path: str | os.PathLike[str],
        *,
        diff: str | None = None,
        max_value: int = MOST_BYTES,
        redact: bool = False,
    ) -> Path:
        """Like `report`, for programs without an event loop."""
        work = self.report(run_id, path, diff=diff, max_value=max_value, redact=redact)
        return self._run_sync(work, "report")

    async def lctl(
        self,
        run_id: str,
        at: str | int | None = None,
        *,
        debug: bool | None = None,
        items: bool = False,
        confidence: Mapping[str, float] | None = None,
    ) -> Handoff | DebugDocument:
        """A recorded run as an LCTL document; `callsheet.lctl.write` gives its text.

        `run_id` is an id, a prefix of one, or `last`. `at` is a step, one of its visits such as `S3@2`, or
        the number of an event: the document then describes the run after it, by default its latest state.
        `items` lists the results of each FOREACH one by one. `debug` selects the post-mortem (True) or the
        hand-off (False); by default a failed run gives a post-mortem. `confidence` maps tools to how certain
        their results are, from 0 to 1. Raises CallsheetError: JRN002 for an unknown run, JRN012, JRN015 or
        JRN020 if its events cannot be read, RUN060 for a step that the run has not done, JRN041 for an event
        that it does not have; ValueError for a confidence outside 0 to 1, or a runtime without a journal.
        """
        self._require_journal()
        given = wanted_names("confidence", confidence)
        by_tool = {
            canonical_tool_name(tool): wanted_number(f"confidence[{tool!r}]", value)
            for tool, value in given.items()
        }
        if not all(0 <= value <= 1 for value in by_tool.values()):
            raise ValueError("confidence is a number from 0 to 1")
        async with self._opened() as session:
            assert session.journal is not None
            run = session.find(run_id)
            return lctl_of(session.journal, run, at, debug=debug, with_items=items, by_tool=by_tool)

    def lctl_sync(
        self,
        run_id: str,
        at: str | int | None = None,
        *,
        debug: bool | None = None,
        items: bool = False,
        confidence: Mapping[str, float] | None = None,
    ) -> Handoff | DebugDocument:
        """Like `lctl`, for programs without an event loop."""
        work = self.lctl(run_id, at, debug=debug, items=items, confidence=confidence)
        return self._run_sync(work, "lctl")


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
