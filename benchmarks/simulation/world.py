"""The world outside a simulated run: tools with effects and latencies, and what must never happen to it.

What a call gives is a function of the seed and of the call's idempotency key, so that one that is delivered
again gives the same. How long it takes, and when in that time its effect comes, differs with each delivery.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

from benchmarks.simulation.kernel import Kernel
from benchmarks.simulation.process import Process

from callsheet.ir import JSON, Effect
from callsheet.machine import TookPlace, ToolFacts
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Route

FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y")),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y")),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "KEYED": ToolFacts(Effect.KEYED, ("x", "y")),
    "PROBED": ToolFacts(Effect.PROBE, ("x", "y")),
    "FAULTY": ToolFacts(Effect.READ, ("x", "y")),
    "LARGE": ToolFacts(Effect.READ, ("x", "y")),
}
_SMALL: tuple[JSON, ...] = (0, 1, "text", [1, 2], {"k": 2}, None, True, "yes", [])
_LARGE = (2_000, 70_000, 270_000, 270_000)


_Event: TypeAlias = "tuple[str, str | None, float, int]"
"""Type, key, time and epoch of an event."""


@dataclass
class Recorded:
    """The events that processes were told are durable, and those that they have appended since."""

    durable: dict[int, _Event] = field(default_factory=dict[int, _Event])
    """By sequence number."""
    appended: dict[object, dict[int, _Event]] = field(default_factory=dict[object, dict[int, _Event]])
    """The same by writer, of what is not durable yet."""
    outcomes: dict[str, int] = field(default_factory=dict[str, int])
    """The sequence number of each call's durable outcome."""
    intents: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    """The epochs in which each call's intent became durable."""

    def append(self, writer: object, seq: int, event: _Event) -> None:
        """A writer has an event to commit."""
        self.appended.setdefault(writer, {})[seq] = event

    def commit(self, writer: object, upto: int) -> None:
        """A writer was told that its events up to a number are durable."""
        made = self.appended.get(writer, {})
        for seq in [one for one in made if one <= upto]:
            self._keep(seq, made.pop(seq))

    def _keep(self, seq: int, event: _Event) -> None:
        kind, key, _, epoch = event
        self.durable[seq] = event
        if key is None:
            return
        if kind in ("ok", "err"):
            self.outcomes[key] = seq
        elif kind == "intent":
            self.intents.setdefault(key, set()).add(epoch)

    def only(self, upto: int) -> None:
        """The power has taken what came after an event."""
        kept = {seq: event for seq, event in self.durable.items() if seq <= upto}
        self.durable, self.outcomes, self.intents = {}, {}, {}
        for seq, event in kept.items():
            self._keep(seq, event)


class World:
    """The tools of one simulation, and what has taken place."""

    def __init__(self, seed: int, kernel: Kernel, pace: float) -> None:
        self.seed = seed
        self.kernel = kernel
        self.recorded = Recorded()
        self.problems: list[str] = []
        self.effects: Counter[str] = Counter()
        """How often each call had its effect, by its idempotency key."""
        self.done: dict[str, Counter[str]] = {}
        """How often, by tool and arguments."""
        self.keys: dict[str, str] = {}
        """The idempotency key of each call, by the call's key."""
        self.values: dict[str, JSON] = {}
        self.stray: set[str] = set()
        """Calls that were under way in a process that another has replaced: no probe could know."""
        self.made: Counter[str] = Counter()
        self.under_way: Counter[Process] = Counter()
        self._pace = pace

    def dice(self, *what: object) -> Random:
        """Chance that depends on the seed and these words alone."""
        return Random(f"{self.seed} {what}")

    def wrong(self, what: str) -> None:
        """Something has happened that must not."""
        self.kernel.say(f"WRONG: {what}")
        self.problems.append(what)

    def route(self, name: str) -> Route | None:
        """The tool with this name."""
        if name not in FACTS:
            return None
        return Route(self._tool(name), self._probe if name == "PROBED" else None)

    def answer_to(self, tool: str, delivery: str) -> tuple[bool, JSON]:
        """Whether a call succeeds, and its value or error."""
        dice = self.dice(delivery)
        if dice.random() < (0.7 if tool == "FAULTY" else 0.12):
            return False, f"error {dice.randrange(10)}"
        if tool == "LARGE":
            return True, "x" * dice.choice(_LARGE)
        return True, dice.choice(_SMALL)

    def forgive(self) -> None:
        """Calls of which the journal knows nothing any more may take place again."""
        for key, delivery in self.keys.items():
            if key not in self.recorded.intents:
                self.effects[delivery] = 0

    def took_place(self, key: str) -> TookPlace | None:
        """What a person finds who looks whether a call took place."""
        delivery = self.keys.get(key, "")
        return TookPlace(self.values[delivery]) if self.effects[delivery] else None

    async def _probe(self, args: dict[str, JSON], context: CallContext) -> Any:
        await asyncio.sleep(self.kernel.chance.choice((0, 0.01)))
        delivery = context.idempotency_key
        return TookPlace(self.values[delivery]) if self.effects[delivery] else False

    def _tool(self, name: str) -> Callable[[dict[str, JSON], CallContext], Awaitable[JSON]]:
        async def call(args: dict[str, JSON], context: CallContext) -> JSON:
            process = self.kernel.current
            assert process is not None
            self.under_way[process] += 1
            try:
                return await self._made(name, args, context, process)
            finally:
                self.under_way[process] -= 1

        return call

    async def _made(self, name: str, args: dict[str, JSON], context: CallContext, process: Process) -> JSON:
        key, delivery, kernel = context.key, context.idempotency_key, self.kernel
        self._check(name, key, delivery, process)
        self.made[key] += 1
        kernel.say(f"{process.name}: @{name} {key} leaves")
        kernel.point("call leaves")
        dice = self.dice(key, self.made[key])
        takes = dice.choice((0.0, 0.0, 0.001, 0.02, 0.3, 2.0)) * self._pace
        before = takes * dice.random()
        if takes:
            await asyncio.sleep(before)
            kernel.point("call before its effect")
        succeeds, value = self.answer_to(name, delivery)
        if succeeds:
            self._take_place(name, args, delivery, value, process)
            kernel.say(f"{process.name}: @{name} {key} takes place")
            kernel.point("call after its effect")
        if takes:
            await asyncio.sleep(takes - before)
        kernel.point("call returns")
        if not succeeds:
            raise ToolFailed(str(value))
        return value

    def _take_place(
        self, name: str, args: dict[str, JSON], delivery: str, value: JSON, process: Process
    ) -> None:
        again = self.effects[delivery] > 0
        if process.is_stale:
            self.stray.add(delivery)
        if again and name == "KEYED":
            return  # the tool knows the key
        if again and (name == "WRITE" or (name == "PROBED" and delivery not in self.stray)):
            self.wrong(f"@{name} took place twice under the key {delivery[:8]}")
        self.effects[delivery] += 1
        self.values[delivery] = value
        counts = self.done.setdefault(name, Counter())
        if not again:
            counts[str(sorted(args.items()))] += 1

    def _check(self, name: str, key: str, delivery: str, process: Process) -> None:
        known = self.keys.setdefault(key, delivery)
        if known != delivery:
            self.wrong(f"the call {key} has another idempotency key when it is made again")
        epochs = self.recorded.intents.get(key, set())
        if not epochs:
            self.wrong(f"@{name} {key} was sent before its intent was durable")
        if process.is_stale:
            if min(epochs, default=0) > process.epoch:
                self.wrong(f"@{name} {key} was sent by a process that no longer owns the run")
        elif key in self.recorded.outcomes:
            self.wrong(f"@{name} {key} was made again after its outcome was durable")
