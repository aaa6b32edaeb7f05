"""Runs on the simulated driver, recorded as in their journal, and the flow of marked data.

Every value of these worlds carries a mark of the call that returned it. A recorder without knowledge of
plans sees the marks in the arguments of each call, and so knows what went into it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

from tests.plans import FACTS

from callsheet.ir import JSON, Plan
from callsheet.ir.canon import plan_hash
from callsheet.ir.labels import LITERAL
from callsheet.machine import (
    AgentTurn,
    Answered,
    Ask,
    CallModel,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Limits,
    PlanCompiled,
    Started,
    Succeeded,
    ToolFacts,
    Verdict,
)
from callsheet.machine.keys import place_of_key
from callsheet.policy.model import Policy
from callsheet.runtime.simulated import Simulation
from callsheet.store.events import Entry, EventType
from callsheet.store.events import Event as Row
from callsheet.store.records import event_record
from callsheet.store.replay import begin
from callsheet.store.start import Start
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.lineage.record import lineage_of

MARK = re.compile("⟦(.*?)⟧")
INPUTS: dict[str, JSON] = {"a": ["⟦in:a⟧0", "⟦in:a⟧1", ["⟦in:a⟧2"]], "b": "⟦in:b⟧"}


class Recorded:
    """A run with its events, the state after each of them, and the marks in each call."""

    def __init__(
        self,
        plan: Plan,
        limits: Limits,
        respond: Callable[[Command], tuple[float, Event]],
        inputs: dict[str, JSON],
        facts: Mapping[str, ToolFacts] = FACTS,
        policy: Policy | None = None,
    ) -> None:
        self.plan = plan
        self.plans: dict[str, Plan] = {}
        self.start = Start(inputs, dict(facts), limits, {}, {}, policy=policy)
        self.took: dict[str, set[str]] = {}
        self.states: list[tuple[dict[str, JSON], set[str]]] = []
        self._respond = respond
        self.simulation = Simulation(begin(plan, self.start).machine, self._watch)
        self.simulation.start(inputs)
        self._keep_state()
        while self.simulation.machine.result is None and self.simulation.step():
            self._keep_state()
        self.result = self.simulation.machine.result
        assert self.result is not None

    def _watch(self, command: Command) -> tuple[float, Event]:
        if isinstance(command, CallTool):
            self.took[command.key] = marks(command.args)
        elif isinstance(command, CallModel | AgentTurn):
            whole = command.key.partition("/t")[0]
            self.took[whole] = self.took.get(whole, set()) | marks([command.inputs, command.args])
        seconds, event = self._respond(command)
        if isinstance(event, PlanCompiled):
            self.plans[plan_hash(event.plan)] = event.plan
        return seconds, event

    def _keep_state(self) -> None:
        machine = self.simulation.machine
        self.states.append((machine.variables(), set(machine.open_keys())))

    def entries(self) -> list[Entry]:
        """The events as stored in the journal."""
        entries = [Entry(1, EventType.START, None, 0.0, self.start.to_json(), 1, None)]
        for seq, event in enumerate(self.simulation.events[1:], 2):
            assert not isinstance(event, Started)
            kind, key, body = event_record(event)
            entries.append(Entry(seq, kind, key, float(seq), body, seq, None))
        return entries

    def rows(self) -> list[Row]:
        """The same, with the owners of calls."""
        return [
            Row("r", e.seq, 1, EventType(e.type), e.key, *_place(e.key), e.ts, e.ts, e.body, b"")
            for e in self.entries()
        ]

    def lineage(self, upto: int | None = None) -> Lineage:
        return lineage_of(self.plan, self.entries(), self.plans.__getitem__, upto)

    def ancestors(self, value: JSON) -> set[str]:
        """The calls and inputs whose marks are in a value, and in what went into those calls, and so on."""
        found: set[str] = set()
        waiting = list(marks(value))
        while waiting:
            mark = waiting.pop()
            if mark not in found:
                found.add(mark)
                waiting += self.took.get(mark, ())
        return found


def _place(key: str | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if key is None else place_of_key(key)


def marks(value: Any) -> set[str]:
    return set(MARK.findall(json.dumps(value, ensure_ascii=False)))


def marked(seed: int, key: str) -> JSON:
    """A value of some shape, with the mark of the call in all its parts."""
    mark = f"⟦{key}⟧"
    shapes: tuple[JSON, ...] = (
        mark, f"{mark} $a", [mark, f"{mark}1", [mark]], {"k": mark, "0": [mark]},
        json.dumps([mark, f"{mark}x"], ensure_ascii=False),
    )  # fmt: skip
    return shapes[crc32(f"{seed}:{key}".encode()) // 16 % len(shapes)]


def marked_outcome(seed: int, second: Plan, command: Command) -> Event:
    """The outcome of a command in a world of marked data; text of an agent has the mark of its step."""
    key: str = getattr(command, "key", "")
    mark = key if isinstance(command, CallTool) else key.partition("/t")[0]
    if isinstance(command, Ask):
        return Answered(key, command.asked.digest, Verdict.APPROVE)  # what is denied would have no mark
    if isinstance(command, AgentTurn):
        return _turn(seed, command)
    dice = crc32(f"{seed}:{key}".encode()) % 10
    if isinstance(command, Compile):
        return Failed(key, "no plan") if dice < 3 else PlanCompiled(key, second, FACTS, context=LITERAL)
    tool: str = getattr(command, "tool", "")
    if dice < (6 if tool == "FAULTY" else 2):
        return Failed(key, f"error ⟦{mark}⟧")
    return Succeeded(key, marked(seed, mark))


def _turn(seed: int, command: AgentTurn) -> Event:
    """The answer of a model to an agent: calls, an end with a marked value, or unreadable text."""
    whole = command.key.partition("/t")[0]
    dice = crc32(f"{seed}?{command.key}".encode())
    kind, dice = dice % 8, dice // 8
    if kind == 0:
        return Failed(command.key, f"error ⟦{whole}⟧")
    if kind == 1:
        return Succeeded(command.key, "no action")
    if kind < 5:
        return Succeeded(command.key, {"finish": marked(seed, whole)})
    calls: list[JSON] = [
        {"tool": name, "args": {"x": dice % 3}} for name in ("read", "faulty")[: 1 + dice % 2]
    ]
    return Succeeded(command.key, {"calls": calls})
