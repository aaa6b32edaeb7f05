"""Compares two ways to reach one goal with the same model and tools: a compiled plan and a ReAct loop.

In: a goal, a setup, a check of answers. Out: for each attempt whether it solved the goal, and its costs.
Everything is carried out for real, so calls with effects are made once for each way and attempt.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from callsheet.api.checking import ALL_MEANS
from callsheet.api.compiling import Compiled, compiled, draft_for, offered
from callsheet.api.requirements import facts_of
from callsheet.apps.compiling import language_of
from callsheet.apps.models import asked_by
from callsheet.apps.session import Setup, Toolbox, open_toolbox
from callsheet.authoring.compiler.request import Request
from callsheet.ir import (
    Call,
    CallKind,
    ListExpr,
    Literal,
    OnFail,
    Output,
    Plan,
    Ref,
    Respond,
    Step,
    Terminate,
    call_kind,
    canonical_tool_name,
)
from callsheet.machine import Result, Status
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import run_unrecorded

Solved = Callable[[str], bool]
"""Whether an answer reaches the goal."""
AT_ONCE = 4
"""Calls in one turn of the loop that makes calls side by side."""
MAX_TURNS = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome and the costs of one attempt at the goal.

    `model_calls` are all questions to the model, with what was asked again because a try had failed;
    `compiling` of them made the plan, `repairs` of these for the second time, and `replans` is how often new
    plans were made while it ran. `calls` are those of tools. Of the
    `input_tokens`, `cached_tokens` were in the provider's cache. `seconds` is the whole time.
    """

    name: str
    is_solved: bool
    answer: str
    error: str = ""
    calls: int = 0
    model_calls: int = 0
    compiling: int = 0
    repairs: int = 0
    replans: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


async def compared(goal: str, setup: Setup, solves: Solved, times: int = 1) -> list[list[Attempt]]:
    """Reach the goal with a compiled plan, a sequential ReAct loop, and one that makes calls in parallel.

    Each way has `times` attempts. They alternate, so that the first attempt of each way starts with the
    model's cache as it was, and later ones with the cache of a program that keeps running. Raises
    CallsheetError for a model or tools that cannot be used.
    """
    async with _opened(setup) as toolbox:
        rounds = [
            (
                await _by_plan(goal, setup, toolbox, solves),
                await _by_loop("react", goal, setup, toolbox, solves, at_once=1),
                await _by_loop("react, parallel calls", goal, setup, toolbox, solves, at_once=AT_ONCE),
            )
            for _ in range(times)
        ]
    return [list(ways) for ways in zip(*rounds, strict=True)]


@asynccontextmanager
async def _opened(setup: Setup) -> AsyncGenerator[Toolbox]:
    language_of(setup)  # refused before servers are started
    async with open_toolbox(setup) as toolbox:
        yield toolbox


async def _by_plan(goal: str, setup: Setup, toolbox: Toolbox, solves: Solved) -> Attempt:
    """Compile once, then run; what compiling took counts."""
    began = time.monotonic()
    request = Request(goal, offered(toolbox.registry), "")
    draft = await draft_for(request, language_of(setup), toolbox.registry, ALL_MEANS)
    made = compiled(goal, draft, toolbox.registry)
    taken = made.accounting
    if not isinstance(made, Compiled):
        result, error = None, "; ".join(d.message for d in made.findings.errors) or "no plan"
    else:
        result = await _run(made.plan.ir, setup, toolbox)
        error = result.error or ""
    way = _way("plan", result, solves, began)
    return replace(
        way,
        error=error,
        model_calls=way.model_calls + max(taken.calls, taken.usage.tries),
        compiling=taken.calls,
        repairs=max(taken.calls - 1, 0),
        input_tokens=way.input_tokens + taken.usage.input_tokens,
        cached_tokens=way.cached_tokens + taken.usage.cached_tokens,
        output_tokens=way.output_tokens + taken.usage.output_tokens,
    )


async def _by_loop(
    name: str, goal: str, setup: Setup, toolbox: Toolbox, solves: Solved, *, at_once: int
) -> Attempt:
    """One agent with all tools; its turns are the machine's, so limits and effects are the same."""
    began = time.monotonic()
    tools = [tool for tool in toolbox.registry.names() if call_kind(tool) is CallKind.TOOL]
    return _way(name, await _run(loop_plan(goal, tools, at_once), setup, toolbox), solves, began)


def loop_plan(goal: str, tools: list[str], at_once: int) -> Plan:
    """The plan whose one step is an agent that may call all of these tools."""
    arguments = (
        ("goal", Literal(goal)),
        ("tools", ListExpr(tuple(Literal(name.lower()) for name in tools))),
        ("max_turns", Literal(MAX_TURNS)),
        ("parallel", Literal(at_once)),
    )
    return Plan(
        (
            Step(
                "S1",
                Call("AGENT_SOLVE", (), arguments),
                output=Output("answer"),
                on_fail=OnFail(then=Terminate((Ref("answer"),))),
            ),
            Step("S2", Respond((Ref("answer"),))),
        )
    )


async def _run(plan: Plan, setup: Setup, toolbox: Toolbox) -> Result:
    limits, registry = setup.settings.limits, toolbox.registry
    asked = asked_by(setup, plan, limits)
    compiler = asked.compiler(registry, setup.settings.on_in_doubt)
    ports = toolbox.ports(asked.model, compiler, asked.turns(registry))
    launch = Launch(
        facts=facts_of(plan, registry, agents=asked.agents),
        limits=limits,
        approve=tuple(map(canonical_tool_name, setup.settings.approve)),  # nobody is there: they are denied
    )
    return await run_unrecorded(plan, ports, launch)


def _way(name: str, result: Result | None, solves: Solved, began: float) -> Attempt:
    seconds = time.monotonic() - began
    if result is None:
        return Attempt(name, False, "", seconds=seconds)
    used, answer = result.usage, result.response
    return Attempt(
        name,
        result.status is Status.DONE and solves(answer),
        answer,
        result.error or "",
        calls=used.calls - used.model_calls,
        model_calls=max(used.model_calls, used.model_requests),  # repairs of new plans are requests too
        replans=used.replans,
        input_tokens=used.input_tokens,
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens,
        seconds=seconds,
    )
