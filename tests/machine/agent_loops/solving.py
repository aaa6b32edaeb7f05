"""Helpers for agents: plans with `@AGENT_SOLVE`, and scripted answers of their models."""

from __future__ import annotations

from typing import Any

from tests.machine.driving import Bench

from callsheet.ir import JSON, Effect, OnInDoubt
from callsheet.machine import AgentTurn, Limits, Loop, ToolFacts

LOOP = Loop(("READ", "LOOK"))
FACTS = {
    "READ": ToolFacts(Effect.READ, ("x", "y")),
    "LOOK": ToolFacts(Effect.READ, ("x",)),
    "KEEP": ToolFacts(Effect.IDEMPOTENT, ("x", "y")),
    "PAY": ToolFacts(Effect.KEYED, ("x",)),
    "WRITE": ToolFacts(Effect.UNSAFE, ("x", "y")),
    "GIVE_UP": ToolFacts(Effect.UNSAFE, ("x",), OnInDoubt.FAIL),
    "AGENT_SOLVE": ToolFacts(Effect.LLM, loop=LOOP),
    "SELF_REFINE": ToolFacts(Effect.LLM, loop=Loop()),
    "AGENT_CRITIQUE": ToolFacts(Effect.LLM, loop=Loop()),
    "CONSENSUS": ToolFacts(Effect.LLM, loop=Loop()),
}
"""Agents are the machine's; they may call @READ and @LOOK where a step names nothing."""
PLAN = 'S1: @AGENT_SOLVE (goal="find it", tools=["read", "write", "keep"]) > $a\nS2: @RESPOND ($a)'


def agent(plan: str = PLAN, *, limits: Limits | None = None, inputs: dict[str, JSON] | None = None) -> Bench:
    """A machine that has sent the first request of its agent."""
    return Bench(plan, facts=FACTS, limits=limits, inputs=inputs)


def act(tool: str, **args: Any) -> dict[str, JSON]:
    """An answer that requests one call."""
    return {"thought": "so", "tool": tool, "args": args}


def acts(*calls: dict[str, JSON]) -> dict[str, JSON]:
    """An answer that requests several calls."""
    return {"calls": list(calls)}


def done(value: JSON) -> dict[str, JSON]:
    """An answer that ends the task."""
    return {"finish": value}


def question(bench: Bench) -> AgentTurn:
    """The open request."""
    (found,) = [command for command in bench.waiting.values() if isinstance(command, AgentTurn)]
    return found
