"""Keeps the journal of a server within its rules of time and size, while it serves.

In: the rules of the settings, a journal. Out: what has expired is deleted, at the start and then every hour.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from callsheet.apps.hosting.host import Host
from callsheet.apps.rendering.values import format_bytes
from callsheet.apps.settings import RetentionSettings
from callsheet.diagnostics import CallsheetError
from callsheet.store import Journal, retention
from callsheet.store.label_transfer import forget_notes
from callsheet.store.writer import RunStatus

_EVERY = 3_600.0
_CAUTION = 0.8
"""The share of the runs in excess that are deleted before another look: runs differ in size."""
_ENDED = (RunStatus.DONE, RunStatus.FAILED, RunStatus.REFUSED, RunStatus.CANCELLED)


class Deleted(NamedTuple):
    """What was deleted: runs that had expired, or for which there was no room, and large values."""

    expired: int
    for_room: int
    values: int


def keep_within(journal: Journal, rules: RetentionSettings) -> Deleted:
    """Delete what the rules do not keep; raises JournalError (JRN017) if the journal cannot be written."""
    parts = journal.parts
    done, failed, cancelled = rules.ages
    ages: dict[RunStatus, float | None] = dict(zip(_ENDED, (done, failed, failed, cancelled), strict=True))
    due = retention.due_now(parts, ages)
    expired = retention.prune(parts, due) if due.runs or due.values else None
    for_room = list[str]()
    most = rules.most_bytes
    while most is not None and (used := retention.used_bytes(parts)) > most:
        ended = retention.ended_runs(parts)
        first = ended[: max(1, int(len(ended) * (1 - most / used) * _CAUTION))]
        gone = retention.prune(parts, retention.Due((), first)).runs if first else ()
        if not gone:
            break
        for_room += gone
    for run_id in (*for_room, *(expired.runs if expired is not None else ())):
        forget_notes(journal.path, run_id)  # no others: runs that go on may be labelling files right now
    if expired is None:
        return Deleted(0, len(for_room), 0)
    return Deleted(len(expired.runs), len(for_room), expired.blobs)


async def keep_on(host: Host, rules: RetentionSettings, say: Callable[[str], None]) -> None:
    """Keep the journal of a host within the rules until this is cancelled."""
    while True:
        try:
            done = await host.beside(lambda: keep_within(host.journal, rules))
        except CallsheetError as error:
            say(f"old runs could not be deleted: {error.diagnostics[0].message}")
        else:
            if any(done):
                size = await host.beside(lambda: retention.used_bytes(host.journal.parts))
                say(
                    f"deleted {done.expired} expired runs, {done.for_room} runs to make room, and"
                    f" {done.values} large values; the journal has {format_bytes(size)}"
                )
        await asyncio.sleep(_EVERY)
