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
from benchmarks.simulation.server import Delivery, Servers

from callsheet.ir import JSON, Effect
from callsheet.ir.inverse import read_inverse
from callsheet.machine import AgentTurn, TookPlace, ToolFacts
from callsheet.machine.program import Loop
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
    "ERASE": ToolFacts(Effect.KEYED, ("x",)),
}
INVERSE = read_inverse("ERASE(x=call.x)")
"""What takes back a call of WRITE."""
AGENT = {"AGENT_SOLVE": ToolFacts(Effect.LLM, loop=Loop(("READ", "WRITE", "KEYED")))}
ON_SERVERS = (("WRITE", "PROBED"), ("KEYED",))
"""The tools of each MCP server. A lost answer of the first leaves a doubt, which is settled by what took
place, so that the run ends alike; one of the second is a failure of the plan.
"""
_TROUBLE = ("dies", "lost", "late", "twice")
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
    intents: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    """The durable intents of each call, and their epochs."""
    failed: set[str] = field(default_factory=set[str])
    """The calls whose failure is durable, and which have not taken place."""
    failures: dict[str, dict[int, bool]] = field(default_factory=dict[str, dict[int, bool]])
    """The failures of each call that owners have appended, by their epochs: whether the call has not taken
    place for certain. A call that was made again may fail otherwise than before.
    """
    answered: set[str] = field(default_factory=set[str])
    """The questions whose answer is durable."""
    takes: list[tuple[object, int, str]] = field(default_factory=list[tuple[object, int, str]])
    """The writers and events with which messages are to be taken, and the ids of these."""
    taken: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """The durable events with which messages were taken, and the ids of these."""

    def append(self, writer: object, seq: int, event: _Event, *, is_lost: bool = False) -> None:
        """A writer has an event to commit; with `is_lost` that a call may have taken place nevertheless."""
        self.appended.setdefault(writer, {})[seq] = event
        kind, key, _, epoch = event
        if kind == "err" and key is not None:
            self.failures.setdefault(key, {})[epoch] = not is_lost

    def has_failed(self, key: str, epoch: int) -> bool:
        """Whether an owner knows that a call has not taken place: from itself, or from what is durable."""
        return self.failures.get(key, {}).get(epoch, key in self.failed)

    def may_have_failed(self, key: str, epoch: int) -> bool:
        """Whether an owner may know it, from what earlier ones wrote and were not told is durable."""
        known = self.failures.get(key, {})
        return known.get(epoch, any(known.values()))

    def commit(self, writer: object, upto: int) -> int:
        """A writer was told that its events up to a number are durable; gives the last new one, else 0."""
        made = self.appended.get(writer, {})
        new = [one for one in made if one <= upto]
        self.taken += [(seq, msg_id) for by, seq, msg_id in self.takes if by is writer and seq in new]
        for seq in new:
            self._keep(seq, made.pop(seq))
        return max(new, default=0)

    def _keep(self, seq: int, event: _Event) -> None:
        kind, key, _, epoch = event
        self.durable[seq] = event
        if key is None:
            return
        if kind in ("ok", "err"):
            self.outcomes[key] = seq
            if kind == "err" and self.failures[key][epoch]:
                self.failed.add(key)
        elif kind == "signal":
            self.answered.add(key)
        elif kind == "intent":
            self.intents.setdefault(key, {})[seq] = epoch

    def only(self, upto: int) -> None:
        """The power has taken what came after an event."""
        kept = {seq: event for seq, event in self.durable.items() if seq <= upto}
        self.durable, self.outcomes, self.intents = {}, {}, {}
        self.failed, self.answered = set(), set()
        self.taken = [(seq, msg_id) for seq, msg_id in self.taken if seq <= upto]
        for seq, event in kept.items():
            self._keep(seq, event)


class World:
    """The tools of one simulation, and what has taken place."""

    def __init__(self, seed: int, kernel: Kernel, pace: float) -> None:
        self.seed = seed
        self.kernel = kernel
        self.recorded = Recorded()
        self.problems: list[str] = []
        self.effects: dict[str, list[int]] = {}
        """The intents with which each call had its effect, by its idempotency key."""
        self.done: dict[str, Counter[str]] = {}
        """How often, by tool and arguments."""
        self.keys: dict[str, str] = {}
        """The idempotency key of each call, by the call's key."""
        self.written: Counter[str] = Counter()
        """How often each value has been written, less how often erased."""
        self.values: dict[str, JSON] = {}
        self.large: dict[str, int] = {}
        """The characters of large results, by the idempotency key of the call."""
        self.stray: set[str] = set()
        """Calls that were under way in a process that another has replaced: no probe could know."""
        self.made: Counter[str] = Counter()
        self.approved: set[str] = set()
        """The calls that were made after somebody had said yes to them."""
        self.need_yes: frozenset[str] = frozenset()
        """The calls that must not be made before somebody has said yes to them."""
        self.under_way: Counter[Process] = Counter()
        self._pace = pace
        self.has_server = False
        self.has_trouble = False
        """Whether answers of the server may be lost."""
        self.has_failed = False
        """Whether a call may have failed for a lost answer, which it does not without faults."""
        self.has_given_up = False
        """Whether a call under way or in doubt was given up, whose effect is then a matter of time."""
        self._servers: dict[tuple[Process, tuple[str, ...]], Servers] = {}
        self._deliveries: Counter[str] = Counter()

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
        if tool != "ERASE" and dice.random() < (0.7 if tool == "FAULTY" else 0.12):
            return False, f"error {dice.randrange(10)}"
        if tool == "LARGE":
            self.large[delivery] = dice.choice(_LARGE)
            return True, "x" * self.large[delivery]
        return True, dice.choice(_SMALL)

    async def turn(self, command: AgentTurn, context: CallContext) -> JSON:
        """What a model answers an agent: calls of its tools, or the end."""
        process = self.kernel.current
        assert process is not None
        self._check("AGENT_SOLVE", context.key, context.idempotency_key, process)
        self.made[context.key] += 1
        self.kernel.say(f"{process.name}: the model is asked {context.key}")
        self.kernel.point("model asked")
        dice = self.dice(context.idempotency_key)
        await asyncio.sleep(dice.choice((0.0, 0.02, 2.0)) * self._pace)
        self.kernel.point("model answers")
        if len(command.turns) >= dice.randint(1, 3) or not command.allowed.tools:
            return {"finish": dice.choice(_SMALL)}
        count = dice.randint(1, command.allowed.at_once)
        calls: list[JSON] = [
            {"tool": dice.choice(command.allowed.tools), "args": {"x": dice.choice(_SMALL)}}
            for _ in range(count)
        ]
        return calls[0] if count == 1 else {"calls": calls}

    def forgive(self, upto: int) -> None:
        """The power has taken what came after an event: calls with a lost intent may take place again.

        An agent may then make another call under the same name, such as one that an earlier call's lost
        answer gives that one's idempotency key.
        """
        self.keys = {key: delivery for key, delivery in self.keys.items() if key in self.recorded.intents}
        for effects in self.effects.values():
            effects[:] = [intent for intent in effects if intent <= upto]

    def took_place(self, key: str) -> TookPlace | None:
        """What a person finds who looks whether a call took place."""
        delivery = self.keys.get(key, "")
        return TookPlace(self.values[delivery]) if self.effects.get(delivery) else None

    async def _probe(self, args: dict[str, JSON], context: CallContext) -> Any:
        await asyncio.sleep(self.kernel.chance.choice((0, 0.01)))
        delivery = context.idempotency_key
        return TookPlace(self.values[delivery]) if self.effects.get(delivery) else False

    def _tool(self, name: str) -> Callable[[dict[str, JSON], CallContext], Awaitable[JSON]]:
        async def call(args: dict[str, JSON], context: CallContext) -> JSON:
            process = self.kernel.current
            assert process is not None
            self.under_way[process] += 1
            try:
                return await self._made(name, args, context, process)
            except asyncio.CancelledError:
                self.has_given_up = True
                raise
            finally:
                self.under_way[process] -= 1

        return call

    async def _made(self, name: str, args: dict[str, JSON], context: CallContext, process: Process) -> JSON:
        key, delivery, kernel = context.key, context.idempotency_key, self.kernel
        self._check(name, key, delivery, process)
        if name != "ERASE":  # which another run makes
            self.made[key] += 1
        kernel.say(f"{process.name}: @{name} {key} leaves")
        kernel.point("call leaves")
        tools = next((one for one in ON_SERVERS if name in one), None)
        if self.has_server and tools is not None:
            value = await self._server_of(process, tools).call(name, args, context)
            kernel.point("call returns")
            return value
        succeeds, value = await self._serve(Delivery(name, args, delivery))
        kernel.point("call returns")
        if not succeeds:
            raise ToolFailed(str(value))
        return value

    def _server_of(self, process: Process, tools: tuple[str, ...]) -> Servers:
        if (process, tools) not in self._servers:
            self._servers[process, tools] = Servers(tools, self._serve, self._trouble)
        return self._servers[process, tools]

    def _trouble(self, delivery: Delivery) -> str:
        share = 0.6 if delivery.tool == "KEYED" else 0.25
        if not self.has_trouble or self.kernel.chance.random() > share:
            return ""
        trouble = self.kernel.chance.choice(_TROUBLE)
        self.kernel.say(f"the server of @{delivery.tool}: {trouble}")
        self.has_failed |= delivery.tool == "KEYED" and trouble != "twice"
        return trouble

    async def _serve(self, call: Delivery) -> tuple[bool, JSON]:
        """Carry out a call that has arrived: how long it takes, and when it takes place, is chance."""
        kernel, process = self.kernel, self.kernel.current
        assert process is not None
        self._deliveries[call.key] += 1
        dice = self.dice(call.key, self._deliveries[call.key])
        takes = dice.choice((0.0, 0.0, 0.001, 0.02, 0.3, 2.0)) * self._pace
        before = takes * dice.random()
        if takes:
            await asyncio.sleep(before)
            kernel.point("call before its effect")
        succeeds, value = self.answer_to(call.tool, call.key)
        if succeeds:
            self._take_place(call.tool, dict(call.args), call.key, value, process)
            kernel.say(f"{process.name}: @{call.tool} takes place")
            kernel.point("call after its effect")
        if takes:
            await asyncio.sleep(takes - before)
        return succeeds, value

    def _take_place(
        self, name: str, args: dict[str, JSON], delivery: str, value: JSON, process: Process
    ) -> None:
        effects = self.effects.setdefault(delivery, [])
        again = bool(effects)
        if process.is_stale:
            self.stray.add(delivery)
        if again and name in ("KEYED", "ERASE"):
            return  # the tool knows the key
        if name in ("WRITE", "ERASE"):
            self.written[repr(args["x"])] += 1 if name == "WRITE" else -1
        if again and (name == "WRITE" or (name == "PROBED" and delivery not in self.stray)):
            self.wrong(f"@{name} took place twice under the key {delivery[:8]}")
        effects.append(self._intent_of(delivery, process))
        self.values[delivery] = value
        counts = self.done.setdefault(name, Counter())
        if not again:
            counts[str(sorted(args.items()))] += 1

    def _intent_of(self, delivery: str, process: Process) -> int:
        """The last durable intent of a call, of this owner's or an earlier one's; 0 if there is none."""
        keys = [key for key, known in self.keys.items() if known == delivery]
        intents = [one for key in keys for one in self.recorded.intents.get(key, {}).items()]
        return max((seq for seq, epoch in intents if epoch <= process.epoch), default=0)

    def _check(self, name: str, key: str, delivery: str, process: Process) -> None:
        known = self.keys.setdefault(key, delivery)
        if known != delivery:
            self.wrong(f"the call {key} has another idempotency key when it is made again")
        if name == "ERASE":
            return  # of a run that undoes this one
        self._check_attempt(name, key, delivery, process.epoch)
        if key in self.recorded.answered:
            self.approved.add(key)
        elif key in self.need_yes:
            self.wrong(f"@{name} {key} was made, and nobody has said yes to it")
        epochs = self.recorded.intents.get(key, {}).values()
        if not epochs:
            self.wrong(f"@{name} {key} was sent before its intent was durable")
        if process.is_stale:
            if min(epochs, default=0) > process.epoch:
                self.wrong(f"@{name} {key} was sent by a process that no longer owns the run")
        elif key in self.recorded.outcomes:
            self.wrong(f"@{name} {key} was made again after its outcome was durable")

    def _check_attempt(self, name: str, key: str, delivery: str, epoch: int) -> None:
        """An attempt has the key of the one before, unless that one has not taken place.

        A failure under a repeated key says so of each time that the call was made.
        """
        place, _, attempt = key.rpartition(".")
        if not attempt.isdecimal():
            return  # a turn of an agent, or a call of one
        before = f"{place}.{int(attempt) - 1}"
        is_same = self.keys.get(before) == delivery
        if before in self.keys and not is_same and not self.recorded.may_have_failed(before, epoch):
            self.wrong(f"@{name} {key} has another idempotency key than {before}, which may have taken place")
        if is_same and self.recorded.has_failed(before, epoch):
            self.wrong(f"@{name} {key} has the idempotency key of {before}, which has failed")
