"""What a forecast comes to: calls by tool and effect, writes, model calls, prompts, approvals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from callsheet.ir import Effect
from callsheet.machine.foresight.forecast import Forecast, StepForecast, Times


@dataclass(frozen=True, slots=True)
class Totals:
    """The calls of a whole run, at least if nothing fails and at most with every retry.

    `tools` has for each canonical name its effect, whether somebody declared it, and its calls.
    `writes` counts calls that may change something. `prompt_tokens` estimates the fewest prompts
    that are sent, as far as their text is known; `prompts_are_whole` tells whether that is all
    of it. `to_approve` are the steps that a person is asked about.
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
    """Add up a forecast; calls that nobody can foresee are not in it."""
    steps = list(forecast.calls())
    tools: dict[str, tuple[Effect, bool, Times]] = {}
    effects: dict[Effect, Times] = {}
    for step in steps:
        name, effect = step.tool or "", step.effect or Effect.UNSAFE
        before = tools[name][2] if name in tools else Times()
        tools[name] = (effect, step.is_declared, before + step.total)
        effects[effect] = effects.get(effect, Times()) + step.total
    asking = [step for step in steps if step.models is not None]
    return Totals(
        calls=_sum(step.total for step in steps),
        tools=tuple((name, *told) for name, told in tools.items()),
        effects=tuple(effects.items()),
        writes=_sum(times for effect, times in effects.items() if not effect.only_reads),
        model_calls=_sum(map(model_calls_of, asking)),
        prompt_tokens=sum(s.models.tokens * s.total.least for s in asking if s.models is not None),
        prompts_are_whole=all(s.models is not None and s.models.is_whole for s in asking),
        to_approve=tuple(step.step.id for step in steps if step.needs_approval),
    )


def model_calls_of(step: StepForecast) -> Times:
    """How often the step asks a model over the whole run."""
    if step.models is None:
        return Times()
    return step.total.by(step.models.least, step.models.most)


def _sum(times: Iterable[Times]) -> Times:
    total = Times()
    for more in times:
        total = total + more
    return total
