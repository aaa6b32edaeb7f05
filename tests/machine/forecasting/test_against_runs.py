"""Forecasts hold in every run, as compared with the machine."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, INPUTS, LIMITS, duration, outcome, plan_of, plan_texts

from callsheet.ir import JSON, Plan
from callsheet.machine import (
    CallModel,
    CallTool,
    Command,
    Compile,
    Event,
    Failed,
    Finish,
    Machine,
    Result,
    RunAgent,
    Status,
    Succeeded,
    compile_plan,
)
from callsheet.machine.forecasting import (
    Fields,
    Foreseen,
    Items,
    Knowledge,
    StepForecast,
    Text,
    Unknown,
    Visit,
    When,
    foresee,
)
from callsheet.machine.keys import place_of_key
from callsheet.runtime.simulated import Simulation

Called = CallTool | CallModel | RunAgent


def fits(foreseen: Foreseen, actual: JSON) -> bool:
    """Whether a placeholder covers an actual value; known parts must be equal."""
    match foreseen:
        case Unknown():
            return True
        case Text(parts=parts):
            pattern = "".join(re.escape(p) if isinstance(p, str) else ".*" for p in parts)
            return isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None
        case Items(items=items):
            return (
                isinstance(actual, list)
                and len(actual) == len(items)
                and all(fits(f, a) for f, a in zip(items, actual, strict=True))
            )
        case Fields(pairs=pairs):
            return (
                isinstance(actual, dict)
                and list(actual) == [key for key, _ in pairs]
                and all(fits(value, actual[key]) for key, value in pairs)
            )
        case _:
            return json.dumps(foreseen) == json.dumps(actual)


def visit_of(step: StepForecast, item: int) -> Visit | None:
    """The forecast visit for this item."""
    if step.is_per_item or step.step.foreach is None:
        return step.visits[0] if step.visits else None
    return next((visit for visit in step.visits if visit.item == item), None)


def run(plan: Plan, world: int, known: Mapping[str, JSON]) -> tuple[list[Called], Result, set[str]]:
    """The calls of a run in which no new plan can be compiled, its result, and the steps that failed.

    Steps of `known` give that value, whatever the world says.
    """
    calls: list[Called] = []
    failed: set[str] = set()

    def respond(command: Command) -> tuple[float, Event]:
        assert not isinstance(command, Finish)
        if isinstance(command, Compile):
            failed.add(place_of_key(command.key)[0])
            return 1.0, Failed(command.key, "no plan")
        assert isinstance(command, CallTool | CallModel | RunAgent)
        calls.append(command)
        answer = outcome(world, command)
        if command.step in known:
            answer = Succeeded(command.key, known[command.step])
        if isinstance(answer, Failed):
            failed.add(command.step)
        return duration(world, command.key), answer

    result = Simulation(Machine(compile_plan(plan, FACTS), LIMITS), respond).run(INPUTS)
    return calls, result, failed


@given(plan_texts(), st.integers(0, 2**32 - 1))
@settings(max_examples=400, deadline=None)
def test_every_call_of_run_is_forecast_with_matching_arguments(text: str, world: int) -> None:
    """The known parts of the arguments equal those of the run, and no step makes more calls than forecast."""
    plan = plan_of(text)
    forecast = {step.step.id: step for step in foresee(plan, INPUTS, Knowledge(facts=FACTS)).steps}
    calls, _, _ = run(plan, world, {})

    for call in calls:
        step, item, _ = place_of_key(call.key)
        seen = forecast[step]
        assert seen.is_call, (step, seen)
        visit = visit_of(seen, item)
        assert visit is not None, (step, item, seen)
        assert all(fits(v, call.args[name]) for name, v in visit.arguments), (call, visit)
        assert [name for name, _ in visit.arguments] == list(call.args)
        if not isinstance(call, CallTool):
            assert all(fits(v, a) for v, a in zip(visit.inputs, call.inputs, strict=True)), (call, visit)
    for step, count in Counter(call.step for call in calls).items():
        most = forecast[step].total.most
        assert most is None or count <= most, (step, count, most)


@given(plan_texts(), st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_forecast_always_and_on_failure_hold_without_failures(text: str, world: int) -> None:
    """A run without a failure makes at least the minimum number of calls of each step."""
    plan = plan_of(text)
    calls, result, failed = run(plan, world, {})
    if failed or result.status is not Status.DONE:
        return
    made = Counter(call.step for call in calls)
    for step in foresee(plan, INPUTS, Knowledge(facts=FACTS)).steps:
        if step.tool is None:
            continue
        assert made[step.step.id] >= step.total.least, (step.step.id, made, step.total)
        if step.when is When.ON_FAILURE:
            assert not made[step.step.id]


@given(plan_texts(), st.integers(0, 2**32 - 1), st.dictionaries(
    st.integers(1, 8).map(lambda n: f"S{n}"), st.sampled_from([1, "2", [1, "x"], {"k": 1}, "", None])
))  # fmt: skip
@settings(max_examples=400, deadline=None)
def test_run_with_assumed_results_is_forecast(text: str, world: int, assumed: dict[str, Any]) -> None:
    """Assumed results decide guards and fill arguments as in a run."""
    plan = plan_of(text)
    known = {step.id: assumed[step.id] for step in plan.steps if step.id in assumed and step.foreach is None}
    calls, _, _ = run(plan, world, known)
    forecast = foresee(plan, INPUTS, Knowledge(facts=FACTS, assumed=known))
    seen = {step.step.id: step for step in forecast.steps}

    for call in calls:
        step, item, _ = place_of_key(call.key)
        visit = visit_of(seen[step], item)
        assert visit is not None, (step, item)
        assert all(fits(v, call.args[name]) for name, v in visit.arguments), (call, visit)
