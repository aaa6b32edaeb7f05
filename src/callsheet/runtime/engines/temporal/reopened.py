"""Reopens a failed graph in a new history that begins with all past events.

In: the past events as rows, and new limits if any. Out: the machine as it was when it failed, told to go on,
with the commands that follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from callsheet.machine import (
    Command,
    Event,
    Limits,
    LimitsChanged,
    Machine,
    PlanCompiled,
    Reopened,
    Started,
    ToolFacts,
)
from callsheet.runtime.engines.temporal.event_rows import Row, event_in
from callsheet.runtime.engines.temporal.run_order import RunOrder
from callsheet.store.events import EventType
from callsheet.store.replay import begin


class Reopening(NamedTuple):
    """The past events of a failed run, and the limits with which it goes on, None to keep its own."""

    rows: Sequence[Row]
    limits: Limits | None = None

    def to_json(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {"rows": list(self.rows), "limits": None if self.limits is None else self.limits.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        limits = data["limits"]
        return cls(data["rows"], None if limits is None else Limits.from_json(limits))

    @property
    def worked(self) -> float:
        """The seconds spent on the run before."""
        ends = [row["body"] for row in self.rows if row["type"] == EventType.END]
        return float(ends[-1]["usage"]["seconds"]) if ends else 0.0


class Refolded(NamedTuple):
    """A reopened machine: the events it was told, its commands, and the facts about its tools."""

    machine: Machine
    events: tuple[Event, ...]
    commands: list[Command]
    facts: dict[str, ToolFacts]
    plan_facts: dict[str, ToolFacts]


def refold(order: RunOrder, again: Reopening) -> Refolded:
    """The machine after all past events, told to go on."""
    machine = begin(order.plan, order.start).machine
    machine.feed(Started(order.start.inputs))
    facts, plan_facts = dict(order.start.facts), dict[str, ToolFacts]()
    for row in again.rows:
        event = event_in(row)
        if event is None:
            continue
        machine.feed(event)
        if isinstance(event, PlanCompiled):
            plan_facts = dict(event.facts)
            facts |= plan_facts
    events: tuple[Event, ...] = (Reopened(),)
    if again.limits is not None and again.limits != machine.limits:
        events = (LimitsChanged(again.limits), *events)
    commands = [command for event in events for command in machine.feed(event)]
    return Refolded(machine, events, commands, facts, plan_facts)
