"""A journal folded back into a machine: what the run has done, and what it still waits for.

In: the events of a run. Out: the machine as it was after the last of them (or after event n),
with every command that has no outcome yet. Nothing is carried out here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from callsheet.ir import Effect, Plan
from callsheet.machine import (
    Ask,
    Awaited,
    CallModel,
    CallTool,
    Cancelled,
    Compile,
    Decided,
    Decision,
    Event,
    Finish,
    Machine,
    Probe,
    RunAgent,
    Sleep,
    Started,
    TookPlace,
    ToolFacts,
    compile_plan,
)
from callsheet.machine.machine import Observer
from callsheet.store.errors import JournalError
from callsheet.store.events import Event as Row
from callsheet.store.events import EventType
from callsheet.store.records import PlanOf, Start, facts_from_json, recorded_event


class Posed(NamedTuple):
    """When a person was asked, and until when there is time to answer (None: for ever): wall times."""

    since: float
    due: float | None


@dataclass(slots=True)
class Folded:
    """A run as its journal tells it.

    `waiting` are the commands without an outcome by key; `launched` holds, of those, the wall
    time of the intent, for calls that left; `due` the wall time at which a timer is due; `asked`
    why a call is in doubt, where the journal says already that it is.
    """

    start: Start
    machine: Machine
    facts: dict[str, ToolFacts]
    waiting: dict[str, Awaited] = field(default_factory=dict[str, Awaited])
    launched: dict[str, float] = field(default_factory=dict[str, float])
    due: dict[str, float] = field(default_factory=dict[str, float])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    decided: dict[str, Decision | TookPlace] = field(default_factory=dict[str, "Decision | TookPlace"])
    """The last decision on each call that was in doubt."""
    posed: dict[str, Posed] = field(default_factory=dict[str, Posed])
    """Of what a person is asked and has not answered: by the digest of the question."""
    ended: bool = False
    """Whether the journal holds the end of the run."""

    def effect_of(self, command: Awaited) -> Effect:
        """What carrying out this command may do to the world."""
        match command:
            case CallTool(tool=tool):
                return self.facts.get(tool, ToolFacts()).effect
            case RunAgent():
                return Effect.UNSAFE
            case CallModel() | Compile():
                return Effect.LLM
            case Sleep() | Ask():
                return Effect.PURE
            case Probe():
                return Effect.READ
        assert_never(command)

    def in_doubt(self) -> dict[str, CallTool | RunAgent]:
        """The calls that left, have no outcome, and must not be repeated unasked."""
        return {
            key: command
            for key, command in self.waiting.items()
            if isinstance(command, CallTool | RunAgent)
            and key in self.launched
            and not self.effect_of(command).may_rerun
        }

    def has_more_to_do(self) -> bool:
        """Whether something is to be done that had not begun when the journal ended."""
        begun = self.launched.keys() | self.due.keys()
        return any(
            c.asked.digest not in self.posed
            if isinstance(c, Ask)
            else key not in begun or isinstance(c, Probe)
            for key, c in self.waiting.items()
        )

    def probing(self) -> dict[str, CallTool]:
        """The calls in doubt that a probe is about to look for."""
        return {key: command.call for key, command in self.waiting.items() if isinstance(command, Probe)}

    def take(self, event: Event) -> None:
        """Tell the machine of an event, and keep what it asks for then."""
        commands = self.machine.feed(event)
        if isinstance(event, Decided):
            self.decided[event.key] = event.decision
        if not isinstance(event, Started | Cancelled):
            key, before = event.key, self.waiting.get(event.key)
            if not self.machine.is_open(key):
                self.waiting.pop(key, None)
            elif isinstance(before, Probe):
                self.waiting[key] = before.call  # the probe could not tell
        for command in commands:
            if isinstance(command, Finish):
                continue
            self.waiting[command.key] = command
            if not isinstance(command, Probe):  # it has not left yet
                self.launched.pop(command.key, None)
                self.asked.pop(command.key, None)


def fold(plan: Plan, rows: Iterable[Row], plan_of: PlanOf, observer: Observer | None = None) -> Folded:
    """Fold the events of a run, the first of which is its start.

    Raises JournalError (JRN020) where the events do not begin with a start, or one of them
    cannot be read by this version.
    """
    folded: Folded | None = None
    for row in rows:
        try:
            if folded is None:
                folded = _begin(plan, row, observer)
            else:
                _note(folded, row)
            event = recorded_event(row, plan_of)
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(
                "JRN020",
                f"event {row.seq} ({row.type}) of run {row.run_id} cannot be read: {error!r}",
                way_out="it was written by another version of callsheet, or changed since",
            ) from error
        if event is not None:
            folded.take(event)
    if folded is None:
        raise JournalError("JRN020", "the run has no events", way_out="it was never started")
    return folded


def _begin(plan: Plan, row: Row, observer: Observer | None) -> Folded:
    if row.type is not EventType.START:
        raise ValueError("a run begins with its start")
    start = Start.from_json(row.body or {})
    machine = Machine(compile_plan(plan, start.facts), start.limits, observer, start.approve)
    return Folded(start, machine, dict(start.facts))


def _note(folded: Folded, row: Row) -> None:
    """Keep what an event says about the calls themselves."""
    key, body = row.key or "", row.body or {}
    match row.type:
        case EventType.INTENT:
            folded.launched[key] = row.ts
        case EventType.TIMER:
            folded.due[key] = float(body["due"])
        case EventType.ASK:
            folded.posed[body["digest"]] = Posed(row.ts, body["due"])
        case EventType.SIGNAL:
            folded.posed.pop(body["digest"], None)
        case EventType.IN_DOUBT:
            folded.asked[key] = str(body.get("reason", ""))
        case EventType.PLAN:
            folded.facts.update(facts_from_json(body["facts"]))
        case EventType.END:
            folded.ended = True
        case _:
            pass
