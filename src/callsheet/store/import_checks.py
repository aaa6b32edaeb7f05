"""Checks that an imported run has the types and ranges that all code that reads a journal relies on.

In: rows of an export, events of a run. Out: nothing, or an error such as ValueError or TypeError. The hash
chain does not replace these checks: whoever forges an export computes the hashes as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, cast

from callsheet.machine.keys import parse_key
from callsheet.store.events import Event, EventType
from callsheet.store.ids import may_begin_run_id
from callsheet.store.records import PlanOf, recorded_event

_LATEST = 253_402_300_799.0
"""The last second of the year 9999, since 1970."""
_MOST = 2**53
_TIMES = frozenset({"created", "updated", "ts", "wake_at"})
_NUMBERS = frozenset({"epoch", "covers", "ir_version", "forked_at", "idx", "attempt"})
_TEXTS = frozenset({"status", "type", "plan_hash", "core_version", "key", "step", "id", "title", "blob"})
_BYTES = frozenset({"body", "source", "intents", "hash"})
_NULLABLE = frozenset(
    {"wake_at", "forked_at", "idx", "attempt", "key", "step", "id", "title", "blob", "body", "intents"}
)
_KEYED = frozenset(
    {
        EventType.INTENT,
        EventType.OK,
        EventType.ERR,
        EventType.LATE,
        EventType.IN_DOUBT,
        EventType.DECIDED,
        EventType.TIMER,
        EventType.FIRED,
        EventType.ASK,
        EventType.SIGNAL,
        EventType.PLAN,
    }
)


def check_row(row: Mapping[str, Any]) -> None:
    """Check the columns of a run, a plan or an entry; those that are not known here are left alone."""
    for name, value in row.items():
        if value is None and name in _NULLABLE:
            continue
        if not _fits(name, value):
            raise TypeError(f"{name} has the wrong type")


def _fits(name: str, value: Any) -> bool:
    """Whether a value is allowed in a column."""
    if name in _BYTES:
        return isinstance(value, bytes)
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return type(value) is int and 0 <= value <= _MOST
    if name in _TIMES:
        return type(value) in (int, float) and 0 <= value <= _LATEST
    if name == "parent_run":
        return value is None or (isinstance(value, str) and may_begin_run_id(value))
    return name != "mono" or (type(value) in (int, float) and isfinite(value))


def check_events(events: Iterable[Event], plan_of: PlanOf, *, is_of_this_version: bool) -> None:
    """Check that each event can be read, and that the plans that events name are there.

    Bodies that were dropped are not looked at; of runs of another version of the machine only the start is.
    """
    for event in events:
        body = cast("object", event.body)
        if body is not None and not isinstance(body, dict):
            raise TypeError(f"the body of event {event.seq} is not an object")
        if event.type in _KEYED:
            parse_key(event.key or "")
        if event.type is EventType.START:
            _check_start(event)
        if is_of_this_version and not _is_dropped(event):
            recorded_event(event, plan_of)
        elif event.type is EventType.PLAN and not _is_dropped(event):
            plan_of((event.body or {})["plan"])


def _is_dropped(event: Event) -> bool:
    """Whether the body of an event was dropped to save space."""
    return event.body is not None and event.body.keys() == {"dropped"}


def _check_start(event: Event) -> None:
    """Check the tables of a start, which other commands read without the rest."""
    body = event.body or {}
    if event.seq != 1:
        raise ValueError("a run has one start")
    for name in ("inputs", "facts", "limits", "pins", "launch"):
        if not isinstance(body[name], dict):
            raise TypeError(f"{name} of the start is not an object")
