"""The events of a run in order and with their times, as rows from which the journal is written.

In: the machine's events and commands. Out: JSON data with the type, key and body of the journal's events.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from callsheet.ir import plan_from_json, plan_to_json
from callsheet.machine import (
    AgentTurn,
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Compile,
    Event,
    PlanCompiled,
    Probe,
    Result,
    RunAgent,
    Sleep,
)
from callsheet.machine.questions import asked_to_json
from callsheet.store.events import EventType
from callsheet.store.records import event_of, event_record, result_body

Row: TypeAlias = "dict[str, Any]"
"""`at` (wall time in seconds since 1970), `type`, `key`, `body`; for a new plan, the plan itself as `steps`.
"""


def row_of(at: float, entry: Event | Awaited | Result, due: float | None = None) -> Row:
    """The row of an event or command; `due` is when a wait ends or a question expires."""
    match entry:
        case Result():
            return _row(at, EventType.END, None, result_body(entry))
        case Sleep(key=key):
            return _row(at, EventType.TIMER, key, {"due": due})
        case Ask(key=key, asked=asked):
            return _row(at, EventType.ASK, key, {**asked_to_json(asked), "due": due})
        case Probe():
            raise ValueError("a probe has no event in the journal")
        case CallTool(key=key, tool=tool):
            return _row(at, EventType.INTENT, key, {"tool": tool})
        case PlanCompiled(plan=plan):
            return {**_row(at, *event_record(entry)), "steps": plan_to_json(plan)}
        case _:
            if isinstance(entry, CallModel | RunAgent | AgentTurn | Compile):
                return _row(at, EventType.INTENT, entry.key, None)
            return _row(at, *event_record(entry))


def event_in(row: Row) -> Event | None:
    """The machine's event in a row; None for a row that is not fed to the machine."""
    steps = row.get("steps")
    return event_of(row["type"], row["key"] or "", row["body"] or {}, lambda _: plan_from_json(steps))


def _row(at: float, kind: EventType, key: str | None, body: dict[str, Any] | None) -> Row:
    return {"at": at, "type": kind.value, "key": key, "body": body}
