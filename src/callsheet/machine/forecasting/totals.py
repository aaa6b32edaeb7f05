"""Totals of a forecast: calls by tool and effect, writes, model calls, prompt tokens, approvals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from callsheet.ir import Effect
from callsheet.machine.forecasting.forecast import Forecast, StepForecast, Times, When


@dataclass(frozen=True, slots=True)
class Totals:
    """The calls of a whole run: the least if nothing fails, the most with every retry.

    `tools` has for each canonical name its effect, whether that was declared, and its calls. `writes` counts
    calls that may change something. `prompt_tokens` estimates the tokens of the fewest prompts, as far as
    their text is known; `prompts_are_whole` says that all of it is. `to_approve` are the steps that need an
    approval.
    """

    calls: Times
    tools: tuple[tuple[str, Effect, bool, Times], ...]
    effects: tuple[tuple[Effect, Times], ...]
    writes: Times
    model_calls: Times
    prompt_tokens: int
    prompts_are_whole: bool
    to_approve: tuple[str, ...]


def totals_of(forecast: Forecast) -> Totals:
    """Add up a forecast; calls that cannot be foreseen are left out.

    An agent makes at least no calls, and at most as many of each of its tools as its turns allow. A RE-PLAN
    calls no tool, but asks a model for the new plan and possibly for its repair.
    """
    steps = list(forecast.calls())
    tools: dict[str, tuple[Effect, bool, Times]] = {}
    effects: dict[Effect, Times] = {}
    for step in steps:
        for name, effect, times in _calls_of(step):
            before = tools[name][2] if name in tools else Times()
            tools[name] = (effect, step.is_declared, before + times)
        for effect, times in _effects_of(step):
            effects[effect] = effects.get(effect, Times()) + times
    asking = [step for step in forecast.steps if step.models is not None and step.when is not When.NEVER]
    return Totals(
        calls=_sum(step.total + _of_agent(step) for step in steps),
        tools=tuple((name, *counts) for name, counts in tools.items()),
        effects=tuple(effects.items()),
        writes=_sum(map(_writes_of, steps)),
        model_calls=_sum(map(model_calls_of, asking)),
        prompt_tokens=sum(s.models.tokens * s.total.least for s in asking if s.models is not None),
        prompts_are_whole=all(s.models is not None and s.models.is_whole for s in asking),
        to_approve=tuple(step.step.id for step in steps if step.needs_approval),
    )


def model_calls_of(step: StepForecast) -> Times:
    """How often the step asks a model during the whole run."""
    if step.models is None:
        return Times()
    return step.total.by(step.models.least, step.models.most)


def _calls_of(step: StepForecast) -> Iterator[tuple[str, Effect, Times]]:
    """What a step calls, by name: its own tool, and those that its agent may call."""
    if step.agent is None:
        yield step.tool or "", step.effect or Effect.UNSAFE, step.total
        return
    yield step.tool or "", Effect.LLM, step.total
    for name, effect in step.agent.tools:
        yield name, effect, _of_agent(step)


def _effects_of(step: StepForecast) -> Iterator[tuple[Effect, Times]]:
    """The calls of a step by effect; each of an agent's calls may be of any effect of its tools."""
    if step.agent is None:
        yield step.effect or Effect.UNSAFE, step.total
        return
    yield Effect.LLM, step.total
    for effect in dict.fromkeys(effect for _, effect in step.agent.tools):
        yield effect, _of_agent(step)


def _writes_of(step: StepForecast) -> Times:
    if step.agent is not None:
        return Times() if all(effect.only_reads for _, effect in step.agent.tools) else _of_agent(step)
    return Times() if (step.effect or Effect.UNSAFE).only_reads else step.total


def _of_agent(step: StepForecast) -> Times:
    """The calls that the agent of a step makes during the whole run."""
    return Times() if step.agent is None else step.total.by(0, step.agent.most)


def _sum(times: Iterable[Times]) -> Times:
    total = Times()
    for more in times:
        total = total + more
    return total
