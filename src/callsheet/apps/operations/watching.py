"""The types of what is told of a run while it goes: its events, its notes, how far its calls are."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from callsheet.apps.operations.runs import OutcomeWord
from callsheet.apps.operations.schema import Count, Ordinal, Time
from callsheet.apps.rendering.values import iso
from callsheet.sealing.sealer import shown
from callsheet.store.events import Event


class EventRow(TypedDict):
    """An event of the journal of a run."""

    seq: Ordinal
    time: Time
    type: str
    key: str | None
    step: str | None
    epoch: Count
    body: Any
    hash: str


def event_row(event: Event) -> EventRow:
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


class NoteRow(TypedDict):
    """What a run did at an event, a line each."""

    seq: Ordinal
    time: Time
    at: Annotated[float, "the seconds since the start of the run"]
    event: Annotated[str, "what happened, such as started or finished"]
    step: str | None
    detail: NotRequired[str]
    item: NotRequired[Annotated[Count, "the item of a loop, from 0"]]
    items: NotRequired[Annotated[Count, "the number of items"]]
    attempt: NotRequired[Ordinal]
    attempts: NotRequired[Ordinal]
    outcome: NotRequired[Annotated[str | None, "how a step ended"]]
    var: NotRequired[str | None]
    preview: NotRequired[Annotated[str, "the beginning of its value"]]
    seconds: NotRequired[Annotated[float, "how long the step took"]]
    done: NotRequired[Annotated[float | None, "of progress: in a unit of the tool's choice"]]
    total: NotRequired[float | None]
    message: NotRequired[str]
    waits: NotRequired[Annotated[str, "what a call waits for that has not left yet"]]


class OpenRun(TypedDict):
    """A run that has not ended, a line each."""

    run_id: str
    status: OutcomeWord
    plan: Annotated[str, "the name of the plan"]
    seconds: float
    calls: Annotated[Count, "the calls that were made"]
    under_way: Annotated[str, "the steps whose calls are open, or what the run waits for"]


class CallProgressRow(TypedDict):
    """How far an open call is, as its tool says; it is not recorded."""

    key: str
    done: Annotated[float | None, "in a unit of the tool's choice; null if it only writes to its log"]
    total: float | None
    message: str
    waits: Annotated[bool, "whether the call has not left yet; the message is what it waits for"]
    lines: Annotated[list[str], "the last messages of the tool, the newest last"]


class ProgressRow(TypedDict):
    """What tools report about the open calls of a run; it replaces what they reported before."""

    calls: list[CallProgressRow]
