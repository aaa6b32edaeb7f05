"""Who has paused a run, and since when: its last `pause` event; the messages that ask for one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.store.events import EventType
from callsheet.store.writer import RunStatus

if TYPE_CHECKING:
    from callsheet.store.events import Event
    from callsheet.store.journal import Journal
    from callsheet.store.runs import RunInfo

PAUSE = "pause"
"""Topic of the messages that ask a run's owner to pause it; no call has such a key."""


class RunPause(NamedTuple):
    """A pause of a run; `since` is in seconds since 1970, `by` is "" if nobody is named."""

    by: str
    since: float
    reason: str = ""

    @property
    def words(self) -> str:
        """The pause in words, for all who show a run.

        >>> RunPause("ada", 0.0, "prices are wrong").words
        'paused by ada since 1970-01-01 00:00 UTC: prices are wrong'
        """
        moment = datetime.fromtimestamp(self.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
        return f"paused{self.by and f' by {self.by}'} since {moment}{self.reason and f': {self.reason}'}"


def pause_of(journal: Journal, run: RunInfo) -> RunPause | None:
    """The pause of a run, None if it is not paused; raises JournalError if its events cannot be read."""
    if run.status is not RunStatus.PAUSED:
        return None
    event = journal.parts.reader.last_of(run.run_id, EventType.PAUSE)
    if event is None:  # an import may bring the status without it
        return RunPause("", run.updated)
    return pause_in(event)


def pause_in(event: Event) -> RunPause:
    """The pause that a `pause` event tells of."""
    body: dict[str, Any] = event.body or {}
    return RunPause(str(body.get("by", "")), event.ts, str(body.get("reason", "")))
