"""The forecast of a plan as data: its steps, and the totals of calls, costs and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import Effect, Plan, Step
from callsheet.ir.operations import COMPUTE
from callsheet.ir.tree import Statement
from callsheet.machine.forecasting.partial_values import Foreseen, ModelUse


class When(StrEnum):
    """Whether a step is executed."""

    ALWAYS = "always"
    """In every run in which no step fails for good."""
    MAYBE = "maybe"
    """It depends on values that are not known."""
    ON_FAILURE = "on failure"
    """Only after a step has failed for good."""
    NEVER = "never"
    """In no run: its guard does not hold, it has no items, or nothing leads to it."""


class Visit(NamedTuple):
    """One execution of a step's action: the item's index in a FOREACH, and the arguments.

    `inputs` are the positional values, `arguments` the named ones; `is_sure` says that the condition, if any,
    is known to hold. `place` is, in a plan with blocks, what the keys of its calls begin with, if that is
    known: `S2[4]/S5`.
    """

    item: int | None
    inputs: tuple[Foreseen, ...]
    arguments: tuple[tuple[str, Foreseen], ...]
    is_sure: bool
    place: str = ""


class Times(NamedTuple):
    """A range of counts; `most` is None if there is no bound."""

    least: int = 0
    most: int | None = 0

    def __add__(self, other: object) -> Times:
        assert isinstance(other, Times)
        most = None if self.most is None or other.most is None else self.most + other.most
        return Times(self.least + other.least, most)

    def by(self, least: int, most: int | None) -> Times:
        """The range multiplied by another one."""
        if most == 0 or self.most == 0:
            return Times(self.least * least, 0)
        return Times(self.least * least, None if most is None or self.most is None else self.most * most)


class Begun(NamedTuple):
    """A step that has begun and has no outcome yet.

    `items` are those of its FOREACH, None if it has none or they are not known; those from `next` on have not
    been started.
    """

    items: Sequence[Foreseen] | None = None
    next: int = 0


class Standing(NamedTuple):
    """Where a run stands: the number of its current step, its variables, the steps that have begun, by id.

    In a graph the number is 0, and the plan has no step that is done.
    """

    number: int
    variables: Mapping[str, Foreseen]
    begun: Mapping[str, Begun]


class AgentUse(NamedTuple):
    """What an agent driven by the machine may call: its tools, and the most calls per visit in all."""

    tools: tuple[tuple[str, Effect], ...]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForecast:
    """What is known about one step before the run.

    `times` counts how often it acts each time it is reached, without failures; `total` over the whole run,
    with every retry and repetition. `visits` are the first ones, with their arguments. `items` is the source
    of a FOREACH; with `is_per_item` its items are not known, and the one visit stands for each of them.
    `depends_on` names the steps whose results it reads, or that it waits for. `effect` is None for a step
    without a call; `is_declared` says whether the effect was declared. `agent` is set if the step is an agent
    that the machine drives.
    """

    number: int
    step: Step
    when: When
    times: Times
    total: Times
    visits: tuple[Visit, ...] = ()
    items: Foreseen = None
    is_per_item: bool = False
    repeats: bool = False
    depends_on: tuple[str, ...] = ()
    effect: Effect | None = None
    is_declared: bool = True
    models: ModelUse | None = None
    agent: AgentUse | None = None
    needs_approval: bool = False
    is_assumed: bool = False
    is_computed: bool = False
    result: Foreseen = None
    has_result: bool = False
    why_not: str | None = None
    within: tuple[str, ...] = ()
    """In a plan with blocks, the blocks around it, outermost first: keys of `Forecast.blocks`."""
    statement: Statement | None = None
    """In a plan with blocks, what `step` stands for; its id is the path to it, through sub-plans."""

    @property
    def tool(self) -> str | None:
        """The canonical name of what is called, None for a step that calls nothing."""
        return self.step.call.tool if self.step.call is not None else None

    @property
    def is_call(self) -> bool:
        """Whether the step calls something and may do so in this run."""
        return self.tool not in (None, COMPUTE) and self.when is not When.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockForecast:
    """What is known of a block before the run.

    `part` says which block of its statement it is: a condition's number, ELSE, ON_FAIL, FINALLY, or "" for
    the only one. `items` is the source of a loop, `times` how often the block is executed in all, `count`
    how many items are known. `is_side_by_side` says that the items of a loop, or the members of a @PARALLEL,
    are executed so, at most `at_once` of them.
    """

    id: str
    statement: Statement
    part: str
    when: When
    times: Times
    within: tuple[str, ...] = ()
    items: Foreseen = None
    count: int | None = None
    is_side_by_side: bool = False
    differing: tuple[str, ...] = ()
    """The arguments in which the items of a loop must differ for that."""
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan would do, step by step: in text order, or in a graph by levels."""

    plan: Plan
    steps: tuple[StepForecast, ...]
    unforeseen: tuple[str, ...] = ()
    """What else may happen and cannot be known before the run, in words."""
    blocks: Mapping[str, BlockForecast] = field(default_factory=dict[str, BlockForecast])
    """The blocks of a plan that has them, in the order of the text."""

    def calls(self) -> Iterator[StepForecast]:
        """The steps that make a call, or may."""
        return (step for step in self.steps if step.is_call)


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
