"""Runs trees on the real machine in worlds that differ in their secrets: what an observer outside can tell.

Time is virtual: how long a call takes depends on what it is given and, for calls that know secrets, on the
world. The calls of one of four tools are seen outside.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

from callsheet.ir import Effect, Plan
from callsheet.ir.labels import read_label
from callsheet.machine import (
    Answered,
    Approval,
    Ask,
    CallTool,
    Command,
    Event,
    Failed,
    Limits,
    Machine,
    Result,
    Succeeded,
    ToolFacts,
    Verdict,
    compile_plan,
)
from callsheet.machine.monitor.enforcement import Enforcement
from callsheet.policy.model import Implicit, Policy, ToolRule
from callsheet.runtime.simulated import Simulation

SEEN, SECRET, OPEN, FLAKY = "SEND", "SECRET", "OPEN", "FLAKY"
"""Tools: one is seen outside, one gives secrets, one what everybody may know, one fails for some secrets."""
_FACTS = {
    SEEN: ToolFacts(Effect.UNSAFE, ("x",)),
    **{name: ToolFacts(Effect.READ, ("x",)) for name in (SECRET, OPEN, FLAKY)},
}
_MOST = 3_000


def rule_of(returns: str, *, egress: bool = False) -> ToolRule:
    label = read_label(returns)
    return ToolRule(egress=egress, destructive=False, idempotent=True, returns=label, no_echo=egress)


TOOLS = {
    SEEN: rule_of("T/pub", egress=True),
    SECRET: rule_of("T/priv"),
    FLAKY: rule_of("T/priv"),
    OPEN: rule_of("T/pub"),
}
STRICT = Policy(tools=TOOLS, implicit=Implicit.STRICT)
SECRETS = (0, "x", "a", {"k": 1}, [0, 1], {"k": None, "m": 2})
"""The secret input in each world."""
PRIVATE = {"a": read_label("T/priv")}
"""The label of it."""


class Seen(NamedTuple):
    """What an observer has seen, calls with their arguments, and how the run has ended."""

    calls: tuple[str, ...]
    result: Result

    @property
    def together(self) -> list[str]:
        """The calls without their order, which time decides where they are made side by side."""
        return sorted(self.calls)


def run(
    plan: Plan, world: int, inputs: dict[str, Any], enforcement: Enforcement | None = None
) -> Seen | None:
    """One run in one world; None if it takes too many statements to be worth it."""
    seen = outcome(plan, world, inputs, enforcement)
    return None if seen.result.refusal is not None else seen


def outcome(
    plan: Plan,
    world: int,
    inputs: dict[str, Any],
    enforcement: Enforcement | None = None,
    *,
    asks: bool = False,
) -> Seen:
    """One run in one world. If it `asks`, a person denies half of the calls that are seen outside."""
    calls: list[str] = []

    def answer(command: Command) -> tuple[float, Event]:
        if isinstance(command, Ask):
            assert isinstance(command.asked, Approval)
            is_no = _dice("no", command.key, repr(sorted(command.asked.args.items()))) % 2
            verdict = Verdict.DENY if is_no else Verdict.APPROVE
            return 0.25, Answered(command.key, command.asked.digest, verdict, by="ann")
        assert isinstance(command, CallTool)
        arguments = repr(sorted(command.args.items()))
        is_open = command.tool in (SEEN, OPEN)
        dice = _dice(0 if is_open else world, command.step, arguments)
        seconds = 0.25 + dice % 7 / 2
        if command.tool == SEEN:
            calls.append(arguments)
            is_lost = _dice(command.key, arguments) % 6 == 0
            return seconds, Failed(command.key, "lost") if is_lost else Succeeded(command.key, "sent")
        if command.tool == FLAKY and dice % 3 == 0:
            return seconds, Failed(command.key, f"no {dice}")
        values: tuple[Any, ...] = (
            dice % 3,
            "abc"[dice % 3],
            ["x"] * (dice % 3),
            None if dice % 2 else "y",
            {"k": dice % 2},
        )
        return seconds, Succeeded(command.key, values[_dice(command.step) % len(values)])

    machine = Machine(
        compile_plan(plan, _FACTS),
        Limits(max_steps=_MOST, retry_delay=0.0),
        approve=(SEEN,) if asks else (),
        enforcement=enforcement,
    )
    result = Simulation(machine, answer).run(inputs)
    return Seen(tuple(calls), result)


def _dice(*parts: object) -> int:
    return zlib.crc32(":".join(map(str, parts)).encode())
