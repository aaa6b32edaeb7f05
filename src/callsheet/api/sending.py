"""Sends the traces of runs to an OpenTelemetry collector while they are in progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callsheet.runtime.telemetry.target import OtelSettings, Target, checked_url
from callsheet.store import Journal

_log = logging.getLogger("callsheet")


@dataclass(frozen=True, slots=True)
class Collector:
    """The collector for traces; with `content`, arguments and results are sent as well."""

    target: Target
    content: bool = False


def collector_of(given: str | OtelSettings | None) -> Collector | None:
    """The collector that `Runtime(otlp=…)` names.

    Raises CallsheetError: TRC003 for an invalid address, TRC004 for an invalid header.
    """
    if given is None:
        return None
    settings = OtelSettings(url=checked_url(given)) if isinstance(given, str) else given
    target = settings.target()
    return None if target is None else Collector(target, settings.content)


@asynccontextmanager
async def sent_beside(
    collector: Collector | None, journal: Journal | None, run_id: str
) -> AsyncGenerator[None]:
    """Send the trace of a run during the block; a failure is only logged, and the trace can be sent later."""
    if collector is None or journal is None:
        yield
        return
    from callsheet.runtime.telemetry.live import LiveExport  # noqa: PLC0415 - few programs need it

    export = LiveExport(journal.path, run_id, collector.target, content=collector.content)
    export.start()
    try:
        yield
    finally:
        done = await asyncio.to_thread(export.finish)
        if done.failure is not None:
            _log.warning(
                "the trace of run %s is not sent: %s; Runtime.export_trace sends it", run_id, done.failure
            )
