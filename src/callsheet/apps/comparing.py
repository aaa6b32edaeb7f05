"""One goal, reached in several ways with the same model and tools: compiled to a plan, and as a ReAct loop.

In: a goal, a setup, a check of answers. Out: for each way whether it solved the goal, and all that it took.
Everything is carried out for real, once for each way.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callsheet.api.checking import ALL_MEANS
from callsheet.api.compiling import Compiled, compiled, draft_for, offered
from callsheet.api.reach import facts_of
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
from callsheet.runtime.runs import Launch, run_unrecorded

Solved = Callable[[str], bool]
"""Whether an answer reaches the goal."""
AT_ONCE = 4
"""Calls in one turn of the loop that makes calls side by side."""
MAX_TURNS = 20


@dataclass(frozen=True, slots=True)
class Way:
    """What became of the goal on one way.

    `model_calls` are all questions to the model, of which `compiling` made the plan (a repair among them) and
    `replans` made new ones; `calls` are those of tools. Of the `input_tokens`, `cached_tokens` were in the
    provider's cache. `seconds` is the whole time.
    """

    name: str
    is_solved: bool
    answer: str
    error: str = ""
    calls: int = 0
    model_calls: int = 0
    compiling: int = 0
    replans: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


async def compared(goal: str, setup: Setup, solves: Solved) -> list[Way]:
    """The goal as a compiled plan, as a sequential ReAct loop, and as one that makes calls side by side.

    Raises CallsheetError for a model or tools that cannot be used.
    """
    async with _opened(setup) as toolbox:
        return [
            await _by_plan(goal, setup, toolbox, solves),
            await _by_loop("react", goal, setup, toolbox, solves, at_once=1),
            await _by_loop("react, parallel calls", goal, setup, toolbox, solves, at_once=AT_ONCE),
        ]


@asynccontextmanager
async def _opened(setup: Setup) -> AsyncGenerator[Toolbox]:
    language_of(setup)  # refused before servers are started
    async with open_toolbox(setup) as toolbox:
        yield toolbox


async def _by_plan(goal: str, setup: Setup, toolbox: Toolbox, solves: Solved) -> Way:
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
    return Way(
        way.name,
        way.is_solved,
        way.answer,
        error,
        way.calls,
        way.model_calls + taken.calls,
        taken.calls,
        way.replans,
        way.input_tokens + taken.usage.input_tokens,
        way.cached_tokens + taken.usage.cached_tokens,
        way.output_tokens + taken.usage.output_tokens,
        way.seconds,
    )


async def _by_loop(
    name: str, goal: str, setup: Setup, toolbox: Toolbox, solves: Solved, *, at_once: int
) -> Way:
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


def _way(name: str, result: Result | None, solves: Solved, began: float) -> Way:
    seconds = time.monotonic() - began
    if result is None:
        return Way(name, False, "", seconds=seconds)
    used, answer = result.usage, result.response
    return Way(
        name,
        result.status is Status.DONE and solves(answer),
        answer,
        result.error or "",
        used.calls - used.model_calls,
        used.model_calls,
        0,
        used.replans,
        used.input_tokens,
        used.cached_tokens,
        used.output_tokens,
        seconds,
    )
