"""Compares two methods of solving a goal with the same model and tools: a compiled plan and a ReAct loop.

In: a goal, a setup, a check of answers. Out: for each attempt whether it solved the goal, and its costs.
All calls are real, so calls with effects are made once per method and attempt.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from callsheet import ir
from callsheet.api import admission
from callsheet.api.checking import ALL_PROVIDERS
from callsheet.api.compiling import Compiled, compiled, draft_for, offered
from callsheet.api.run_service import run_prepared
from callsheet.apps.compiling import language_model_of
from callsheet.apps.equipment import equip, needs_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, open_toolbox
from callsheet.authoring.compiler.request import Request
from callsheet.machine import Result, Status
from callsheet.store.journal_paths import new_run_id

GoalCheck = Callable[[str], bool]
"""Whether an answer solves the goal."""
PARALLEL_CALLS = 4
"""The number of parallel calls per turn of the second ReAct loop."""

MAX_TURNS = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome and the costs of one attempt at the goal.

    `model_calls` counts all requests to the model, including retries. `compiling` of them compiled the plan,
    and `repairs` of those repaired an invalid answer. `replans` counts the new plans made during the run.
    `calls` counts tool calls. Of the `input_tokens`, `cached_tokens` came from the provider's cache.
    `seconds` is the total time.
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


async def compare_methods(
    goal: str, setup: Setup, solves_goal: GoalCheck, times: int = 1
) -> list[list[Attempt]]:
    """Solve the goal with a compiled plan, a sequential ReAct loop, and a ReAct loop with parallel calls.

    Returns the attempts of each method, in this order. Each method has `times` attempts, in alternation, so
    that the first attempt of each starts with a cold model cache and later ones with a warm one. Raises
    CallsheetError for a model or tools that cannot be used.
    """
    async with _opened(setup) as toolbox:
        rounds = [
            (
                await _attempt_by_plan(goal, setup, toolbox, solves_goal),
                await _attempt_by_loop("react", goal, setup, toolbox, solves_goal, at_once=1),
                await _attempt_by_loop(
                    "react, parallel calls", goal, setup, toolbox, solves_goal, at_once=PARALLEL_CALLS
                ),
            )
            for _ in range(times)
        ]
    return [list(attempts) for attempts in zip(*rounds, strict=True)]


@asynccontextmanager
async def _opened(setup: Setup) -> AsyncGenerator[Toolbox]:
    language_model_of(setup)  # an error here comes before servers are started
    async with open_toolbox(setup) as toolbox:
        yield toolbox


async def _attempt_by_plan(goal: str, setup: Setup, toolbox: Toolbox, solves_goal: GoalCheck) -> Attempt:
    """Compile the goal and run the plan; the costs include those of compiling."""
    began = time.monotonic()
    request = Request(goal, offered(toolbox.registry), "")
    draft = await draft_for(request, language_model_of(setup), toolbox.registry, ALL_PROVIDERS)
    outcome = compiled(goal, draft, toolbox.registry)
    accounting = outcome.accounting
    if not isinstance(outcome, Compiled):
        result, error = None, "; ".join(d.message for d in outcome.findings.errors) or "no plan"
    else:
        result = await _run(outcome.plan.ir, setup, toolbox)
        error = result.error or ""
    attempt = _attempt("plan", result, solves_goal, began)
    return replace(
        attempt,
        error=error,
        model_calls=attempt.model_calls + max(accounting.calls, accounting.usage.tries),
        compiling=accounting.calls,
        repairs=max(accounting.calls - 1, 0),
        input_tokens=attempt.input_tokens + accounting.usage.input_tokens,
        cached_tokens=attempt.cached_tokens + accounting.usage.cached_tokens,
        output_tokens=attempt.output_tokens + accounting.usage.output_tokens,
    )


async def _attempt_by_loop(
    name: str, goal: str, setup: Setup, toolbox: Toolbox, solves_goal: GoalCheck, *, at_once: int
) -> Attempt:
    """Run one agent with all tools; the machine drives its turns, so the same limits and effects apply."""
    began = time.monotonic()
    tools = [tool for tool in toolbox.registry.names() if ir.call_kind(tool) is ir.CallKind.TOOL]
    return _attempt(name, await _run(loop_plan(goal, tools, at_once), setup, toolbox), solves_goal, began)


def loop_plan(goal: str, tools: list[str], at_once: int) -> ir.Plan:
    """A plan with one step: an agent that may call all of these tools."""
    arguments = (
        ("goal", ir.Literal(goal)),
        ("tools", ir.ListExpr(tuple(ir.Literal(name.lower()) for name in tools))),
        ("max_turns", ir.Literal(MAX_TURNS)),
        ("parallel", ir.Literal(at_once)),
    )
    return ir.Plan(
        (
            ir.Step(
                "S1",
                ir.Call("AGENT_SOLVE", (), arguments),
                output=ir.Output("answer"),
                on_fail=ir.OnFail(then=ir.Terminate((ir.Ref("answer"),))),
            ),
            ir.Step("S2", ir.Respond((ir.Ref("answer"),))),
        )
    )


async def _run(plan: ir.Plan, setup: Setup, toolbox: Toolbox) -> Result:
    limits = setup.settings.limits
    equipment, ports, _ = equip(needs_of(setup, plan, limits, lambda _: None), toolbox, None)
    approve = tuple(map(ir.canonical_tool_name, setup.settings.approve))  # denied: nobody answers
    request = admission.Request(plan=plan, limits=limits, approve=approve)
    prepared = admission.prepare(request, equipment)
    result = (await run_prepared(prepared, ports, None, new_run_id())).result
    assert result is not None  # without a journal nothing stays open
    return result


def _attempt(name: str, result: Result | None, solves_goal: GoalCheck, began: float) -> Attempt:
    seconds = time.monotonic() - began
    if result is None:
        return Attempt(name, False, "", seconds=seconds)
    used, answer = result.usage, result.response
    return Attempt(
        name,
        result.status is Status.DONE and solves_goal(answer),
        answer,
        result.error or "",
        calls=used.calls - used.model_calls,
        model_calls=max(used.model_calls, used.model_requests),  # includes the repairs of new plans
        replans=used.replans,
        input_tokens=used.input_tokens,
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens,
        seconds=seconds,
    )


CACHED_TOKEN_WEIGHT = 0.1
"""The weight of a cached token relative to a new one, about what providers charge."""


class AverageCost(NamedTuple):
    """The average cost of a solved goal, including the cost of failed attempts.

    `tokens_cold` counts every token that was read or written, as without a cache; `tokens_warm` counts those
    from the provider's cache at a tenth.
    """

    tokens_cold: float
    tokens_warm: float
    model_calls: float
    calls: float
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptTotals:
    """The totals of all attempts with one method: their number, how many solved the goal, and the costs.

    `answer` and `error` are those of the last attempt; the other fields are those of `Attempt`, summed up.
    """

    name: str
    times: int
    solved: int
    answer: str
    error: str
    calls: int
    model_calls: int
    compiling: int
    repairs: int
    replans: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    seconds: float

    @property
    def fresh_tokens(self) -> int:
        """Input tokens that were not in a cache."""
        return self.input_tokens - self.cached_tokens

    @property
    def per_solved_goal(self) -> AverageCost | None:
        """The cost per solved goal; None if none was solved."""
        if not self.solved:
            return None
        new = self.fresh_tokens + self.output_tokens
        return AverageCost(
            (new + self.cached_tokens) / self.solved,
            (new + CACHED_TOKEN_WEIGHT * self.cached_tokens) / self.solved,
            self.model_calls / self.solved,
            self.calls / self.solved,
            self.seconds / self.solved,
        )


def total_costs(attempts: Sequence[Attempt]) -> AttemptTotals:
    """Sum up the attempts with one method; there must be at least one.

    >>> solved = Attempt("plan", True, "a", input_tokens=100, cached_tokens=50)
    >>> total_costs([solved, Attempt("plan", False, "b")]).per_solved_goal
    AverageCost(tokens_cold=100.0, tokens_warm=55.0, model_calls=0.0, calls=0.0, seconds=0.0)
    """
    return AttemptTotals(
        name=attempts[0].name,
        times=len(attempts),
        solved=sum(attempt.is_solved for attempt in attempts),
        answer=attempts[-1].answer,
        error=attempts[-1].error,
        calls=sum(attempt.calls for attempt in attempts),
        model_calls=sum(attempt.model_calls for attempt in attempts),
        compiling=sum(attempt.compiling for attempt in attempts),
        repairs=sum(attempt.repairs for attempt in attempts),
        replans=sum(attempt.replans for attempt in attempts),
        input_tokens=sum(attempt.input_tokens for attempt in attempts),
        cached_tokens=sum(attempt.cached_tokens for attempt in attempts),
        output_tokens=sum(attempt.output_tokens for attempt in attempts),
        seconds=sum(attempt.seconds for attempt in attempts),
    )
