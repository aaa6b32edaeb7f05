"""A plan of version 1 and its upgrade make the same calls with the same results."""

from __future__ import annotations

import json
from collections import Counter
from zlib import crc32

from hypothesis import assume, given, settings
from tests.plans import FACTS, INPUTS, plan_texts

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import parse
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.frontends.upgrade import upgraded
from callsheet.ir import JSON, Plan
from callsheet.ir.tree import Tree
from callsheet.machine import (
    CallModel,
    CallTool,
    Command,
    Event,
    Failed,
    Limits,
    Machine,
    Sleep,
    Started,
    Status,
    Succeeded,
    TimerFired,
    compile_plan,
)
from callsheet.passes.structured import check_tree

_SET = ("a", "b")


def _outcome(asked: str, time: int) -> tuple[bool, JSON]:
    """Whether a call succeeds, and its value or error: a function of what it asks, and how often."""
    seed = crc32(f"{asked} {time}".encode())
    if asked.startswith("FAULTY") or seed % 5 == 0:
        return seed % 2 == 1 and not asked.startswith("FAULTY"), f"no {seed % 10}"
    values: list[JSON] = [seed % 5, "text", [1, 2], {"k": seed % 3}, None, True, "[2, 3]", ""]
    return True, values[seed % len(values)]


def _tree(plan: Plan) -> Tree:
    assert plan.tree is not None
    return plan.tree


def _run(plan: Plan, limits: Limits) -> tuple[Machine, Counter[str]]:
    """The machine at the end of a run, and its calls."""
    machine, calls = Machine(compile_plan(plan, FACTS), limits), Counter[str]()
    waiting: list[Command] = machine.feed(Started({name: INPUTS[name] for name in _SET}))
    while machine.result is None:
        command = waiting.pop(0)
        event: Event
        if isinstance(command, Sleep):
            event = TimerFired(command.key)
        else:
            assert isinstance(command, CallTool | CallModel)
            tool = command.tool
            given = command.args if isinstance(command, CallTool) else [command.inputs, command.args]
            asked = f"{tool} {json.dumps(given, sort_keys=True)}"
            calls[asked] += 1
            succeeds, value = _outcome(asked, calls[asked])
            event = Succeeded(command.key, value) if succeeds else Failed(command.key, str(value))
        waiting += machine.feed(event)
    return machine, calls


@settings(max_examples=150)
@given(plan_texts())
def test_upgraded_plan_makes_the_same_calls_with_the_same_results(text: str) -> None:
    assume("RE-PLAN" not in text)
    plan = parse(text).require()
    try:
        made = upgraded(plan)
    except CallsheetError:  # a jump into a group or loop, or a group that sets a variable twice
        assert "GOTO" in text or "@PARALLEL" in text
        return
    written = format_structured(made)
    again = read_structured(written).require()
    assert again == made
    assert not [one for one in check_tree(_tree(again)) if one.is_error], written
    first, calls = _run(plan, Limits(max_steps=60, retry_delay=0.0, window=1, schedule="sequential"))
    assume(first.result is not None and first.result.refusal is None)
    second, others = _run(again, Limits(max_steps=10_000, retry_delay=0.0, window=1))
    assert others == calls, written
    one, other = first.result, second.result
    assert one is not None
    assert other is not None
    assert (other.status, other.response, other.terminated) == (one.status, one.response, one.terminated)
    if one.status is Status.DONE and "@PARALLEL" not in text:
        assert bool(other.failed_steps) == bool(one.failed_steps)
