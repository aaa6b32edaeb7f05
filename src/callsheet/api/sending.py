"""Runs of a program, sent to a collector of traces while they go on."""

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
    """Where runs are sent while they go on; with `content`, arguments and results as well."""

    target: Target
    content: bool = False


def collector_of(given: str | OtelSettings | None) -> Collector | None:
    """The collector that a program names; raises CallsheetError (TRC003 its address, TRC004 a header)."""
    if given is None:
        return None
    settings = OtelSettings(url=checked_url(given)) if isinstance(given, str) else given
    target = settings.target()
    return None if target is None else Collector(target, settings.content)


@asynccontextmanager
async def sent_beside(
    collector: Collector | None, journal: Journal | None, run_id: str
) -> AsyncGenerator[None]:
    """Send a run while it goes on; what could not be sent is logged, and can be sent afterwards."""
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
