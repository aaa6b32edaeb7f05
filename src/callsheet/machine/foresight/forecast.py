"""What a plan would do: its steps with their calls, whether they happen, and how often.

Data alone: made by `foresee`, read by the views.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from callsheet.ir import Call, Effect, Plan, Step
from callsheet.machine.foresight.knowledge import ModelUse
from callsheet.machine.foresight.unknown import Foreseen


class When(StrEnum):
    """Whether a step does what it says."""

    ALWAYS = "always"
    """In every run in which no step fails for good."""
    MAYBE = "maybe"
    """That depends on values that are not known."""
    ON_FAILURE = "on failure"
    """Only after a step has failed for good."""
    NEVER = "never"
    """In no run: its guard does not hold, it has no items, or nothing leads to it."""


class Visit(NamedTuple):
    """One time that a step acts: the item of its FOREACH, and what it is given.

    `inputs` are the values without a name, `arguments` the others; `is_sure` tells whether the
    condition is known to hold, if there is one.
    """

    item: int | None
    inputs: tuple[Foreseen, ...]
    arguments: tuple[tuple[str, Foreseen], ...]
    is_sure: bool


class Times(NamedTuple):
    """At least and at most so often; `most` is None without a bound."""

    least: int = 0
    most: int | None = 0

    def __add__(self, other: object) -> Times:
        assert isinstance(other, Times)
        most = None if self.most is None or other.most is None else self.most + other.most
        return Times(self.least + other.least, most)

    def by(self, least: int, most: int | None) -> Times:
        """So often each time."""
        if most == 0 or self.most == 0:
            return Times(self.least * least, 0)
        return Times(self.least * least, None if most is None or self.most is None else self.most * most)


class AgentUse(NamedTuple):
    """What an agent may call whose turns the machine drives: its tools, and how often at most each time.

    `most` is for all of them together.
    """

    tools: tuple[tuple[str, Effect], ...]
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepForecast:
    """What is known of one step before the run.

    `times` counts how often it acts each time it is reached without failures, `total` over the
    whole run with every retry and repetition; `visits` are the first of them, each with its
    arguments. `items` is the source of a FOREACH whose items are not known: then the one visit
    stands for each item. `depends_on` names the steps whose results it reads, or waits for.
    `effect` is None for what is no call; `is_declared` tells whether somebody declared it. `agent` is there
    where the step is an agent that the machine drives.
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
    """What a plan would do, step by step: in text order, in a plan of dependencies by its levels."""

    plan: Plan
    steps: tuple[StepForecast, ...]
    unforeseen: tuple[str, ...] = ()
    """What may happen besides and cannot be told before the run, in words."""

    def calls(self) -> Iterator[StepForecast]:
        """The steps that call something, or may."""
        return (step for step in self.steps if step.is_call)
