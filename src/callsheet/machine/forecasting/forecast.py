"""The data types of a forecast: the steps of a plan with their calls, whether they happen and how often.

Made by `foresee`, read by the views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import Call, Effect, Plan, Step
from callsheet.machine.forecasting.knowledge import ModelUse
from callsheet.machine.forecasting.partial_values import Foreseen


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
    is known to hold.
    """

    item: int | None
    inputs: tuple[Foreseen, ...]
    arguments: tuple[tuple[str, Foreseen], ...]
    is_sure: bool


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

    @property
    def tool(self) -> str | None:
        """The canonical name of what is called, None for a step that calls nothing."""
        return self.step.action.tool if isinstance(self.step.action, Call) else None

    @property
    def is_call(self) -> bool:
        """Whether the step calls something and may do so in this run."""
        return self.tool is not None and self.when is not When.NEVER


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a plan would do, step by step: in text order, or in a graph by levels."""

    plan: Plan
    steps: tuple[StepForecast, ...]
    unforeseen: tuple[str, ...] = ()
    """What else may happen and cannot be known before the run, in words."""

    def calls(self) -> Iterator[StepForecast]:
        """The steps that make a call, or may."""
        return (step for step in self.steps if step.is_call)
