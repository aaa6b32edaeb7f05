"""Asks a model for a dependency plan for a goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from callsheet.api.checking import check_plan
from callsheet.api.compiling import offered
from callsheet.api.planning import GraphPlanner
from callsheet.api.requirements import pins_for_library
from callsheet.apps.models import required_planner, with_local_model
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, open_toolbox
from callsheet.diagnostics import Diagnostic
from callsheet.ir import Plan
from callsheet.machine import Spent, Usage
from callsheet.ports.calls import CallContext
from callsheet.ports.models.failures import as_error
from callsheet.ports.models.model import ModelFailed
from callsheet.store.library import PlanLibrary, StoredPlan


@dataclass(frozen=True, slots=True)
class Created:
    """A plan that a model made for a goal and that has passed the checks; it has no id yet.

    `tools` are the pins of the tools that it calls, `doubts` diagnostics about tools, `used` model usage.
    """

    goal: str
    plan: Plan
    tools: Mapping[str, str | None]
    doubts: tuple[Diagnostic, ...]
    used: Usage

    def saved(
        self, library: PlanLibrary, plan_id: str | None = None, *, replaces: bool = False
    ) -> StoredPlan:
        """Save it in a library, by default under an id made of its title; raises as `PlanLibrary.save`."""
        return library.save(self.plan, plan_id, replaces=replaces, tools=self.tools, goal=self.goal)


async def plan_for(goal: str, context: str, setup: Setup) -> Created:
    """A plan for a goal, with the tools of a setup, which are opened for it.

    Raises CallsheetError: PLN011 if no model is configured, the model's failure, or the errors of its
    answer.
    """
    planner = required_planner(setup)
    async with open_toolbox(setup) as toolbox:
        return await _made(planner, goal, context, toolbox)


async def plan_on(toolbox: Toolbox, goal: str, context: str, setup: Setup) -> Created:
    """Like `plan_for`, with open tools; without a configured model a downloaded local one is asked."""
    return await _made(required_planner(with_local_model(setup, lambda _: None)), goal, context, toolbox)


async def _made(planner: GraphPlanner, goal: str, context: str, toolbox: Toolbox) -> Created:
    registry, call = toolbox.registry, CallContext("", "plan")
    try:
        plan = await planner.create(
            goal, context, offered(registry), call, lambda plan: check_plan(plan, registry)
        )
    except ModelFailed as error:
        raise as_error(error) from error
    used = Usage.of(call.spent or Spent())
    return Created(goal, replace(plan, id=None), pins_for_library(plan, registry), toolbox.diagnostics, used)
