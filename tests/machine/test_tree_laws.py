"""The machine runs random plans of version 2 as the recursive reference interpreter does."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from zlib import crc32

from hypothesis import given, settings
from tests.plans import FACTS
from tests.reference_interpreter import Failed as ReferenceFailed
from tests.reference_interpreter import Interpreter
from tests.structured_plans import programs

from callsheet.ir import JSON, Plan
from callsheet.ir.operations import CLOCK
from callsheet.machine import (
    CallTool,
    Command,
    Event,
    Failed,
    Finish,
    Limits,
    Machine,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.machine.tree.compiling import OWN_FACTS

INPUTS: dict[str, JSON] = {"a": [1, "2", None, "x"], "b": "start"}
LIMITS = Limits(max_steps=100_000, retry_delay=0.0)
READS = {"READ", "FAULTY"}
Calls = Counter[str]


def answer_to(tool: str, args: Mapping[str, Any]) -> tuple[bool, JSON]:
    """Whether a call succeeds, and its value or error: a function of the tool and its arguments."""
    seed = crc32(f"{tool} {json.dumps(args, sort_keys=True)}".encode())
    if tool == "FAULTY" or seed % 7 == 0:
        return seed % 2 == 1 and tool != "FAULTY", f"no {seed % 10}"
    return True, (seed % 5, "text", [1, 2], {"k": seed % 3}, None, True)[seed % 6]


def by_the_machine(plan: Plan) -> tuple[str, Any, Calls]:
    """Status and answer, or kind of failure, and the calls."""
    machine, calls = Machine(compile_plan(plan, {**FACTS, **OWN_FACTS}), LIMITS), Calls()
    waiting: list[Command] = machine.feed(Started(INPUTS))
    while machine.result is None:
        command = waiting.pop(0)
        event: Event
        if isinstance(command, Sleep):
            event = TimerFired(command.key)
        else:
            assert isinstance(command, CallTool)
            if command.tool == CLOCK:
                event = Succeeded(command.key, "2026-03-02T09:00:00+00:00")
            else:
                calls[f"{command.tool} {json.dumps(command.args, sort_keys=True)}"] += 1
                succeeds, value = answer_to(command.tool, command.args)
                event = Succeeded(command.key, value) if succeeds else Failed(command.key, str(value))
        waiting += [one for one in machine.feed(event) if not isinstance(one, Finish)]
    result = machine.result
    if result.status is Status.DONE:
        return "done", result.answer, calls
    assert result.error is not None
    return "failed", "" if result.terminated else result.error.partition(":")[0], calls


def by_the_reference(plan: Plan) -> tuple[str, Any, Calls]:
    """The same by the reference interpreter."""
    calls = Calls()

    def tool(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Awaitable[Any]]:
        async def call(positional: tuple[Any, ...], named: dict[str, Any]) -> JSON:
            args = dict(zip(("x", "y"), positional, strict=False)) | named
            calls[f"{name} {json.dumps(args, sort_keys=True)}"] += 1
            succeeds, value = answer_to(name, args)
            if not succeeds:
                raise ReferenceFailed("TOOL", str(value))
            return value

        return call

    tools = {name: tool(name) for name in ("READ", "KEEP", "WRITE", "FAULTY")}
    try:
        return "done", asyncio.run(Interpreter(plan, tools, reads=READS).run(INPUTS)), calls
    except ReferenceFailed as failed:
        return "failed", failed.kind, calls


@settings(max_examples=60)
@given(programs())
def test_machine_and_reference_agree(plan: Plan) -> None:
    assert by_the_machine(plan) == by_the_reference(plan)
