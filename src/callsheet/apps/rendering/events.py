"""Journal events as text for people and as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.apps.rendering.timestamps import iso
from callsheet.apps.rendering.values import preview
from callsheet.sealing.sealer import shown

if TYPE_CHECKING:
    from callsheet.store.events import Event


def event_line(event: Event) -> str:
    """An event on one line: number, time, type, key, the beginning of its body."""
    body = "" if event.body is None else preview(shown(event.body), 100)
    return f"{event.seq:>6}  {iso(event.ts)}  {event.type:<8} {event.key or '':<12} {body}".rstrip()


def count_events(count: int) -> str:
    """The number of events with the noun.

    >>> count_events(1), count_events(2)
    ('1 event', '2 events')
    """
    return f"{count} event{'' if count == 1 else 's'}"


def event_json(event: Event) -> dict[str, Any]:
    """An event as an object, with its whole body."""
    return {
        "seq": event.seq,
        "time": iso(event.ts),
        "type": str(event.type),
        "key": event.key,
        "step": event.step,
        "epoch": event.epoch,
        "body": shown(event.body),
        "hash": event.hash.hex(),
    }
